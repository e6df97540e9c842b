from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcox.deployment.kit import Participants, days_faults, is_loopback
from fedcox.errors import DeploymentError


@pytest.mark.parametrize(
    "name", ["A", "a-1", "Klinik_7", "x" * 63, "0", "St-Anna", "serverless", "a--b"]
)
def test_names_that_become_certificates_and_files_are_taken(name: str) -> None:
    assert Participants("lung", "hub.example.org", 8002, (name,)).centers == (name,)


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "a b",
        "../a",
        "a/b",
        ".",
        "..",
        "a.b",
        "-a",
        "a-",
        "_a",
        "é",
        "a\n",
        "x" * 64,
        "server",
        "Server",
        "a\x00",
        "a;b",
        "$(a)",
        "a@b",
        "CON.kit",
    ],
)
def test_names_that_could_mean_something_else_are_refused(name: str) -> None:
    with pytest.raises(DeploymentError):
        Participants("lung", "hub.example.org", 8002, (name,))


@given(st.text(max_size=70))
def test_whatever_is_taken_is_one_plain_file_name(name: str) -> None:
    if Participants.faults("lung", "hub.example.org", 8002, [name]):
        return
    assert name.isascii()
    assert 1 <= len(name) <= 63
    assert name.replace("-", "").replace("_", "").isalnum()


@pytest.mark.parametrize(
    "host", ["hub.example.org", "localhost", "127.0.0.1", "10.1.2.3", "hub", "x" * 60 + ".org"]
)
def test_a_host_is_a_name_or_an_address(host: str) -> None:
    assert Participants.faults("lung", host, 8002, ["A"]) == []


@pytest.mark.parametrize(
    ("host", "word"),
    [
        ("::1", "IPv6"),
        ("0.0.0.0", "connect to"),
        ("224.0.0.1", "connect to"),
        ("300.1.1.1", "IPv4 address"),
        ("hub.example.org:8002", "such as"),
        ("https://hub.example.org", "such as"),
        ("hub_1.example.org", "such as"),
        ("", "such as"),
        ("x" * 65, "room for"),
    ],
)
def test_what_is_no_host_is_refused(host: str, word: str) -> None:
    (fault,) = Participants.faults("lung", host, 8002, ["A"])
    assert word in fault


@pytest.mark.parametrize("port", [-1, 0, 65536, 10**9])
def test_a_port_that_is_none_is_refused(port: int) -> None:
    (fault,) = Participants.faults("lung", "hub", port, ["A"])
    assert str(port) in fault


def test_every_fault_is_told_at_once() -> None:
    faults = Participants.faults("a b", "::1", 0, ["A", "A", "b", "B", "c/d", "server"])
    assert len(faults) == 7
    for word in ("'a b'", "'::1'", "0", "2 times", "'b' and 'B'", "'c/d'", "'server'"):
        assert sum(word in fault for fault in faults) >= 1, word


def test_a_center_does_not_have_the_hosts_name() -> None:
    (fault,) = Participants.faults("lung", "Hub", 8002, ["hub"])
    assert "host" in fault


def test_a_project_without_centers_is_refused() -> None:
    assert "--center" in Participants.faults("lung", "hub", 8002, [])[0]


@pytest.mark.parametrize("days", [0, -3, 3651])
def test_days_are_bounded(days: int) -> None:
    assert len(days_faults(days)) == 1
    assert days_faults(1) == days_faults(3650) == []


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("hub", False),
        ("10.0.0.1", False),
        ("localhost.example.org", False),
    ],
)
def test_only_loopback_is_loopback(host: str, local: bool) -> None:
    assert is_loopback(host) is local
