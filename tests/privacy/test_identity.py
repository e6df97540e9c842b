"""Only a center itself can sign for it, and its private key stays its own."""

from __future__ import annotations

import importlib
import os
import re
import stat
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from fedcox.errors import InputError
from fedcox.privacy.identity import Identity, PublicIdentity

# RFC 8032, section 7.1, test 2.
SECRET = bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
PUBLIC = bytes.fromhex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c")
SIGNATURE = bytes.fromhex(
    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
    "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
)


def test_signatures_are_those_of_the_standard() -> None:
    identity = Identity(Ed25519PrivateKey.from_private_bytes(SECRET))
    assert identity.public.raw == PUBLIC
    assert identity.sign(b"\x72") == SIGNATURE
    assert identity.public.signed(b"\x72", SIGNATURE)


def test_another_message_another_signer_and_half_a_signature_do_not_pass() -> None:
    identity, other = Identity.create(), Identity.create()
    signature = identity.sign(b"sum")
    assert identity.public.signed(b"sum", signature)
    assert not identity.public.signed(b"Sum", signature)
    assert not other.public.signed(b"sum", signature)
    assert not identity.public.signed(b"sum", signature[:32])


def test_a_saved_identity_signs_as_before_and_only_its_owner_can_read_it(
    tmp_path: Path,
) -> None:
    identity, file = Identity.create(), tmp_path / "center.pem"
    identity.save(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert Identity.load(file).public == identity.public


def test_an_identity_is_never_written_over(tmp_path: Path) -> None:
    file = tmp_path / "center.pem"
    first = Identity.create()
    first.save(file)
    with pytest.raises(InputError, match="is not replaced"):
        Identity.create().save(file)
    assert Identity.load(file).public == first.public


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_private_key_that_others_can_reach_is_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "center.pem"
    Identity.create().save(file)
    file.chmod(mode)
    with pytest.raises(InputError, match="chmod 600"):
        Identity.load(file)


def test_a_file_that_holds_no_signing_key_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "center.pem"
    other_kind = X25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    for content in (b"", b"not a key", other_kind):
        file.write_bytes(content)
        file.chmod(0o600)
        with pytest.raises(InputError, match="no private Ed25519 key"):
            Identity.load(file)
    with pytest.raises(InputError, match="cannot be read"):
        Identity.load(tmp_path / "missing.pem")
    with pytest.raises(InputError, match="cannot be written"):
        Identity.create().save(tmp_path / "missing" / "center.pem")


def test_the_public_half_goes_by_text_and_is_compared_by_its_fingerprint() -> None:
    public = Identity.create().public
    assert PublicIdentity.from_text(public.to_text() + "\n") == public
    assert re.fullmatch(r"([0-9a-f]{4} ){7}[0-9a-f]{4}", public.fingerprint)
    assert public.fingerprint != Identity.create().public.fingerprint


@pytest.mark.parametrize("text", ["", "fedcox-ed25519", "fedcox-ed25519 AAAA", "ssh-rsa AAAA"])
def test_a_line_that_is_no_identity_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="not a public identity"):
        PublicIdentity.from_text(text)


def test_without_the_package_cryptography_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "cryptography"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "fedcox.privacy.ciphers")
    with pytest.raises(InputError, match=r'pip install "fedcox\[private\]"'):
        importlib.import_module("fedcox.privacy.ciphers")
