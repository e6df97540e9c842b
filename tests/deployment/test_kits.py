from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509

from fedcox.deployment import center_folder, coordinator_folder
from fedcox.deployment.center_folder import CenterFolder
from fedcox.deployment.certificates import Authority
from fedcox.deployment.coordinator_folder import CoordinatorFolder, add_centers, check_init
from fedcox.deployment.kit import Kit, Participants, seal, unseal
from fedcox.errors import DeploymentError
from fedcox.privacy.identity import Identity
from tests.deployment.kit_examples import CENTERS, NOW, Made, make


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(tmp_path_factory.mktemp("kits") / "coordinator")


@pytest.fixture
def own(made: Made, tmp_path: Path) -> Made:
    """A copy that a test may change."""
    shutil.copytree(made.folder.path, tmp_path / "coordinator")
    return Made(CoordinatorFolder.read(tmp_path / "coordinator"), dict(made.passwords))


@pytest.fixture(scope="module")
def joined(made: Made, tmp_path_factory: pytest.TempPathFactory) -> CenterFolder:
    place = tmp_path_factory.mktemp("joined") / "a"
    return center_folder.join(made.kit("A"), made.passwords["A"], place, now=NOW)


@pytest.fixture(scope="module")
def content(made: Made) -> dict[str, object]:
    """What A's kit holds."""
    opened: dict[str, object] = json.loads(
        unseal(made.kit("A").read_bytes(), made.passwords["A"])
    )
    return opened


def every_file(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def test_the_folder_holds_what_was_asked_for(made: Made) -> None:
    folder = made.folder
    assert (folder.project, folder.host, folder.port) == ("lung", "127.0.0.1", 18102)
    assert folder.centers == CENTERS
    assert folder.made == NOW.date()
    assert folder.expires == (NOW + timedelta(days=30)).date()
    assert folder.days_left(NOW) == 30
    assert sorted(path.name for path in folder.kits.iterdir()) == [
        f"{name}.kit" for name in CENTERS
    ]
    assert {path.name for path in folder.path.iterdir()} == {
        "admin",
        "authority",
        "coordinator.json",
        "kits",
        "runs",
        "server",
        "store",
    }


def test_nobody_else_on_the_machine_can_read_it(made: Made, joined: CenterFolder) -> None:
    for root in (made.folder.path, joined.path):
        for path in (root, *root.rglob("*")):
            wanted = 0o700 if path.is_dir() else 0o600
            assert path.stat().st_mode & 0o777 == wanted, path


def test_nothing_of_a_password_is_kept(made: Made, joined: CenterFolder) -> None:
    for root in (made.folder.path, joined.path):
        for file in every_file(root):
            content = file.read_bytes()
            for password in made.passwords.values():
                assert password.encode() not in content
                assert password.replace("-", "").encode() not in content


def test_no_key_of_a_center_is_kept_by_the_coordinator(made: Made) -> None:
    keys = {
        file.name for file in every_file(made.folder.path) if b"PRIVATE" in file.read_bytes()
    }
    assert keys == {"root.key", "server.key", "client.key"}  # client.key: in admin/ only
    assert not list(made.folder.server.rglob("client.key"))


def test_a_center_joins_with_its_kit(made: Made, joined: CenterFolder) -> None:
    assert (joined.name, joined.project) == ("A", "lung")
    assert (joined.host, joined.port) == ("127.0.0.1", 18102)
    assert joined.expires == made.folder.expires
    assert joined.days_left(NOW) == 30
    startup = joined.flare / "startup"
    assert {path.name for path in startup.iterdir()} == {
        "fed_client.json",
        "client.crt",
        "client.key",
        "rootCA.pem",
    }
    subject = x509.load_pem_x509_certificate((startup / "client.crt").read_bytes()).subject
    assert "CN=A" in subject.rfc4514_string()
    root = (made.folder.server / "startup" / "rootCA.pem").read_bytes()
    assert (startup / "rootCA.pem").read_bytes() == root
    assert Identity.load(joined.identity).public.fingerprint


def test_no_script_stands_anywhere(made: Made, joined: CenterFolder) -> None:
    for root in (made.folder.path, joined.path):
        assert {file.suffix for file in every_file(root)} <= {
            ".json",
            ".pem",
            ".crt",
            ".key",
            ".kit",
        }


def test_two_centers_that_join_have_identities_of_their_own(
    made: Made, joined: CenterFolder, tmp_path: Path
) -> None:
    other = center_folder.join(made.kit("A"), made.passwords["A"], tmp_path / "b", now=NOW)
    first, second = (Identity.load(each.identity).public.raw for each in (joined, other))
    assert first != second


def test_another_centers_password_does_not_open_a_kit(made: Made, tmp_path: Path) -> None:
    with pytest.raises(DeploymentError, match="password does not open"):
        center_folder.join(made.kit("A"), made.passwords["B-2"], tmp_path / "a", now=NOW)
    assert not (tmp_path / "a").exists()


def test_an_altered_kit_is_refused_and_nothing_is_left(made: Made, tmp_path: Path) -> None:
    content = bytearray(made.kit("A").read_bytes())
    content[200] ^= 1
    kit = tmp_path / "A.kit"
    kit.write_bytes(content)
    with pytest.raises(DeploymentError, match="altered"):
        center_folder.join(kit, made.passwords["A"], tmp_path / "a", now=NOW)
    assert list(tmp_path.iterdir()) == [kit]


def test_an_expired_kit_is_refused_with_its_date(made: Made, tmp_path: Path) -> None:
    with pytest.raises(DeploymentError, match="2026-03-31") as caught:
        center_folder.join(
            made.kit("A"), made.passwords["A"], tmp_path / "a", now=NOW + timedelta(days=31)
        )
    assert "expired" in str(caught.value)
    assert "new kit" in str(caught.value)


def test_a_kit_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(DeploymentError, match="cannot be read"):
        center_folder.join(tmp_path / "A.kit", "x", tmp_path / "a", now=NOW)


def test_a_folder_that_exists_is_never_overwritten(made: Made, joined: CenterFolder) -> None:
    before = joined.identity.read_bytes()
    with pytest.raises(DeploymentError, match="--renew"):
        center_folder.join(made.kit("B-2"), made.passwords["B-2"], joined.path, now=NOW)
    assert joined.identity.read_bytes() == before
    participants = made.folder.participants
    with pytest.raises(DeploymentError, match="exists already"):
        coordinator_folder.make_folder(made.folder.path, participants, days=1, now=NOW)


@pytest.mark.parametrize(
    "change",
    [
        {"center": "../../etc"},
        {"center": "B"},
        {"host": "hub.example.org/x?y"},
        {"port": 0},
        {"port": "8002"},
        {"port": True},
        {"project": "a\nb"},
        {"root": "no certificate"},
        {"key": "no key"},
        {"key": "\u00e9"},
        {"more": "run.sh"},
        {"version": 2},
    ],
    ids=str,
)
def test_a_kit_that_says_anything_else_is_refused(
    content: dict[str, object], tmp_path: Path, change: dict[str, object]
) -> None:
    kit = tmp_path / "A.kit"
    kit.write_bytes(seal(json.dumps(content | change).encode(), "word"))
    with pytest.raises(DeploymentError):
        center_folder.join(kit, "word", tmp_path / "a", now=NOW)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("inside", [b"", b"[]", b"\xff", b'{"version": 1}'])
def test_a_kit_of_another_content_is_refused(tmp_path: Path, inside: bytes) -> None:
    kit = tmp_path / "A.kit"
    kit.write_bytes(seal(inside, "word"))
    with pytest.raises(DeploymentError):
        Kit.open(kit, "word", now=NOW)


def test_a_further_center_is_known_to_the_same_authority(own: Made, tmp_path: Path) -> None:
    before = {name: own.kit(name).read_bytes() for name in CENTERS}
    passwords = add_centers(own.folder, ["D"], now=NOW + timedelta(days=3))
    assert list(passwords) == ["D"]
    assert CoordinatorFolder.read(own.folder.path).centers == (*CENTERS, "D")
    assert {name: own.kit(name).read_bytes() for name in CENTERS} == before
    later = NOW + timedelta(days=3)
    joined = center_folder.join(own.kit("D"), passwords["D"], tmp_path / "d", now=later)
    root = (own.folder.server / "startup" / "rootCA.pem").read_bytes()
    assert (joined.flare / "startup" / "rootCA.pem").read_bytes() == root
    assert joined.expires == own.folder.expires


@pytest.mark.parametrize("names", [["A"], ["a"], ["x y"], ["D", "D"], ["D", "d"], ["server"]])
def test_a_center_that_cannot_be_added_changes_nothing(own: Made, names: list[str]) -> None:
    before = (own.folder.path / "coordinator.json").read_bytes()
    with pytest.raises(DeploymentError):
        add_centers(own.folder, names, now=NOW)
    assert (own.folder.path / "coordinator.json").read_bytes() == before
    assert len(list(own.folder.kits.iterdir())) == len(CENTERS)


def test_renewal_keeps_what_a_center_is(
    own: Made, joined: CenterFolder, tmp_path: Path
) -> None:
    shutil.copytree(joined.path, tmp_path / "a")
    joined = CenterFolder.read(tmp_path / "a")
    identity = joined.identity.read_bytes()
    joined.ledger.write_text("what left\n")
    later = NOW + timedelta(days=25)
    passwords = coordinator_folder.renew(own.folder, days=100, now=later)
    assert CoordinatorFolder.read(own.folder.path).days_left(later) == 100
    renewed = center_folder.renew(own.kit("A"), passwords["A"], joined.path, now=later)
    assert renewed.days_left(later) == 100
    assert renewed.expires == (later + timedelta(days=100)).date()
    assert joined.identity.read_bytes() == identity
    assert joined.ledger.read_text() == "what left\n"
    with pytest.raises(DeploymentError, match="belongs to the center 'A'"):
        center_folder.renew(own.kit("B-2"), passwords["B-2"], joined.path, now=later)


def test_a_kit_of_another_authority_renews_nothing(
    joined: CenterFolder, tmp_path: Path
) -> None:
    other = make(tmp_path / "other", centers=("A",))
    before = (joined.flare / "startup" / "rootCA.pem").read_bytes()
    with pytest.raises(DeploymentError, match="not of the authority"):
        center_folder.renew(other.kit("A"), other.passwords["A"], joined.path, now=NOW)
    assert (joined.flare / "startup" / "rootCA.pem").read_bytes() == before


def test_an_expired_project_can_be_renewed(own: Made) -> None:
    later = NOW + timedelta(days=400)
    with pytest.raises(DeploymentError, match="expired on 2026-03-31"):
        add_centers(own.folder, ["D"], now=later)
    coordinator_folder.renew(own.folder, days=10, now=later)
    assert CoordinatorFolder.read(own.folder.path).days_left(later) == 10


def test_nobody_starts_with_an_expired_certificate(made: Made, joined: CenterFolder) -> None:
    for folder in (made.folder, joined):
        folder.check_certificate(NOW)
        with pytest.raises(DeploymentError, match="expired on 2026-03-31"):
            folder.check_certificate(NOW + timedelta(days=31))


def test_all_faults_of_an_init_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(DeploymentError) as caught:
        check_init(tmp_path, project="a b", host="::1", port=70000, centers=["A", "A"], days=0)
    assert len(caught.value.faults) == 6
    assert "add-center" in caught.value.faults[-1]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"version": 1}', '{"version": 2}', '{"version": 1, "project": 3}'],
)
def test_a_damaged_folder_is_told(tmp_path: Path, text: str) -> None:
    for name in ("coordinator.json", "center.json"):
        (tmp_path / name).write_text(text)
    for kind in (CoordinatorFolder, CenterFolder):
        with pytest.raises(DeploymentError, match="damaged"):
            kind.read(tmp_path)
        with pytest.raises(DeploymentError, match="missing"):
            kind.read(tmp_path / "nowhere")


def test_a_folder_can_be_moved(own: Made, tmp_path: Path) -> None:
    moved = tmp_path / "moved away"
    own.folder.path.rename(moved)
    folder = CoordinatorFolder.read(moved)
    folder.write_rules()
    rules = (folder.server / "local" / "resources.json").read_text()
    assert str(moved / "store" / "jobs") in rules
    assert str(own.folder.path) + os.sep not in rules


def test_a_failure_leaves_no_half_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Authority, name: str, **_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(Authority, "for_center", fail)
    participants = Participants("lung", "hub", 8002, ("A",))
    with pytest.raises(RuntimeError):
        coordinator_folder.make_folder(tmp_path / "c", participants, days=1, now=NOW)
    assert list(tmp_path.iterdir()) == []


def test_a_kit_names_its_own_center_only(made: Made, tmp_path: Path) -> None:
    kit = Kit.open(made.kit("A"), made.passwords["A"], now=NOW)
    posing = tmp_path / "B.kit"
    posing.write_bytes(replace(kit, center="B-2").sealed("word"))
    with pytest.raises(DeploymentError, match="not that of 'B-2'"):
        Kit.open(posing, "word", now=NOW)
