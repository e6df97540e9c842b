from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

pytest.importorskip("nvflare")
from fedcox.deployment import certificates as authority
from fedcox.deployment.connection import CredentialFiles, why_not_reached
from fedcox.errors import DeploymentError
from tests.deployment.conftest import free_port

NOW = datetime.now(UTC)


@dataclass(frozen=True)
class _Parties:
    """An authority with a server and a center, and another authority with the same."""

    ours: dict[str, CredentialFiles]
    others: dict[str, CredentialFiles]
    expired: dict[str, CredentialFiles]


@pytest.fixture(scope="module")
def parties(tmp_path_factory: pytest.TempPathFactory) -> _Parties:
    def made(name: str, now: datetime, days: int) -> dict[str, CredentialFiles]:
        signing = authority.Authority.create(name, days=days, now=now)
        folder = tmp_path_factory.mktemp(name)
        return {
            "server": _saved(folder / "server", signing.for_server("127.0.0.1", now=now)),
            "center": _saved(folder / "center", signing.for_center("A", now=now)),
        }

    return _Parties(
        made("trial", NOW, 2), made("other", NOW, 2), made("old", NOW - timedelta(days=9), 2)
    )


def _saved(folder: Path, made: authority.Credentials) -> CredentialFiles:
    folder.mkdir()
    (folder / "client.crt").write_bytes(made.certificate)
    (folder / "client.key").write_bytes(made.key)
    (folder / "rootCA.pem").write_bytes(made.root)
    return CredentialFiles.of(folder)


@contextmanager
def _listening(greet: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server for one guest."""
    with socket.create_server(("127.0.0.1", 0)) as door, ExitStack() as stack:

        def serve() -> None:
            guest, _ = door.accept()
            with guest:
                greet(guest)

        thread = threading.Thread(target=serve)
        thread.start()
        stack.callback(thread.join)
        yield door.getsockname()[1]


def _tls(own: CredentialFiles) -> Callable[[socket.socket], None]:
    """Both sides show a certificate, as the engine's server wants it."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(own.authority)
    context.load_cert_chain(own.certificate, own.key)

    def greet(guest: socket.socket) -> None:
        try:
            with context.wrap_socket(guest, server_side=True) as line:
                line.recv(1000)
                line.sendall(b"HTTP/1.1 404 Not Found\r\n\r\n")
        except (ssl.SSLError, OSError):
            return

    return greet


def test_a_server_of_our_authority_is_reached(parties: _Parties) -> None:
    with _listening(_tls(parties.ours["server"])) as port:
        assert why_not_reached("127.0.0.1", port, parties.ours["center"]) is None


def test_that_nobody_listens_is_no_error_but_a_reason(parties: _Parties) -> None:
    why = why_not_reached("127.0.0.1", free_port(), parties.ours["center"])
    assert why is not None
    assert "nobody listens at 127.0.0.1:" in why


def test_a_name_that_nobody_knows_is_told(parties: _Parties) -> None:
    why = why_not_reached("hub.invalid", 8002, parties.ours["center"])
    assert why == "the name hub.invalid is not known on this network"


def test_a_server_of_another_authority_is_not_trusted(parties: _Parties) -> None:
    with (
        _listening(_tls(parties.others["server"])) as port,
        pytest.raises(DeploymentError, match="not the one that this kit was made for"),
    ):
        why_not_reached("127.0.0.1", port, parties.ours["center"])


def test_a_center_cannot_pose_as_the_server(parties: _Parties) -> None:
    with (
        _listening(_tls(parties.ours["center"])) as port,
        pytest.raises(DeploymentError, match="not the one that this kit was made for"),
    ):
        why_not_reached("127.0.0.1", port, parties.ours["center"])


def test_a_server_that_does_not_take_our_certificate_is_told(parties: _Parties) -> None:
    # We trust the server, and it does not trust us.
    known = parties.others["center"]
    mixed = CredentialFiles(known.certificate, known.key, parties.ours["center"].authority)
    with (
        _listening(_tls(parties.ours["server"])) as port,
        pytest.raises(DeploymentError, match="does not take our certificate"),
    ):
        why_not_reached("127.0.0.1", port, mixed)


def test_an_expired_certificate_of_the_server_is_told(parties: _Parties) -> None:
    with (
        _listening(_tls(parties.expired["server"])) as port,
        pytest.raises(DeploymentError, match="not valid today"),
    ):
        why_not_reached("127.0.0.1", port, parties.expired["center"])


def test_what_speaks_no_tls_is_told(parties: _Parties) -> None:
    def plain(guest: socket.socket) -> None:
        guest.recv(1000)
        guest.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with _listening(plain) as port, pytest.raises(DeploymentError, match="does not speak TLS"):
        why_not_reached("127.0.0.1", port, parties.ours["center"])


def _closed(guest: socket.socket) -> None:
    """So does a tunnel or a balancer whose server does not run."""


def _closed_after_hearing(guest: socket.socket) -> None:
    guest.recv(10_000)


def _closed_in_mid_answer(guest: socket.socket) -> None:
    guest.recv(10_000)
    guest.sendall(b"\x16\x03\x03\x00\x7a\x02")  # the head of a server's first message


def _reset(guest: socket.socket) -> None:
    guest.recv(10_000)
    guest.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize(
    "front", [_closed, _closed_after_hearing, _closed_in_mid_answer, _reset]
)
def test_a_front_whose_server_is_down_is_no_error_but_a_reason(
    parties: _Parties, front: Callable[[socket.socket], None]
) -> None:
    with _listening(front) as port:
        why = why_not_reached("127.0.0.1", port, parties.ours["center"])
    assert why is not None
    assert "takes connections and breaks them off" in why
