from __future__ import annotations

import ssl
from base64 import b64decode, encodebytes
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding

from fedcox.deployment.certificates import (
    Authority,
    Credentials,
    chain_faults,
    date_faults,
    days_left,
)
from fedcox.errors import DeploymentError

# Certificates are shown to the ssl module of Python, which cannot be told another time.
NOW = datetime.now(UTC).replace(microsecond=0)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.create("lung", days=10, now=NOW)


@pytest.fixture(scope="module")
def server(authority: Authority) -> Credentials:
    return authority.for_server("hub.example.org", now=NOW)


@pytest.fixture(scope="module")
def center(authority: Authority) -> Credentials:
    return authority.for_center("A", now=NOW)


@pytest.fixture(scope="module")
def stranger() -> Credentials:
    return Authority.create("lung", days=10, now=NOW).for_center("A", now=NOW)


def handshake(
    place: Path, server: Credentials, client: Credentials, *, name: str | None = None
) -> None:
    """A mutual TLS handshake in memory, as the engine sets it up; `name`: checked too."""
    listening = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    listening.verify_mode = ssl.CERT_REQUIRED
    calling = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
    calling.check_hostname = name is not None
    for context, own in ((listening, server), (calling, client)):
        for part in ("certificate", "key", "root"):
            (place / part).write_bytes(getattr(own, part))
        context.load_cert_chain(place / "certificate", place / "key")
        context.load_verify_locations(place / "root")
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        listening.wrap_bio(up, down, server_side=True),
        calling.wrap_bio(down, up, server_hostname=name or "unchecked"),
    ]
    waiting = list(ends)
    while waiting:
        for end in list(waiting):
            try:
                end.do_handshake()
                waiting.remove(end)
            except ssl.SSLWantReadError:
                continue


def test_a_center_and_the_server_trust_each_other(
    tmp_path: Path, server: Credentials, center: Credentials
) -> None:
    handshake(tmp_path, server, center, name="hub.example.org")


def test_an_address_works_as_a_host(tmp_path: Path, authority: Authority) -> None:
    own = authority.for_server("127.0.0.1", now=NOW)
    client = authority.for_coordinator(now=NOW)
    handshake(tmp_path, own, client, name="127.0.0.1")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(tmp_path, own, client, name="127.0.0.2")


def test_a_center_of_another_authority_is_not_let_in(
    tmp_path: Path, server: Credentials, stranger: Credentials
) -> None:
    # It trusts the right authority and shows a certificate of the same names.
    posing = Credentials(server.root, stranger.certificate, stranger.key)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(tmp_path, server, posing)


def test_a_center_cannot_pass_for_the_server(
    tmp_path: Path, authority: Authority, center: Credentials
) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="purpose"):
        handshake(tmp_path, center, authority.for_center("B", now=NOW))


def test_a_center_cannot_sign_another(tmp_path: Path, center: Credentials) -> None:
    own = x509.load_pem_x509_certificate(center.certificate)
    assert own.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    usage = own.extensions.get_extension_for_class(x509.KeyUsage).value
    assert not usage.key_cert_sign


def test_an_expired_certificate_is_not_let_in(tmp_path: Path, server: Credentials) -> None:
    past = Authority.create("lung", days=2, now=NOW - timedelta(days=5))
    old = past.for_center("A", now=NOW - timedelta(days=5))
    fresh = Credentials(old.root, server.certificate, server.key)
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        handshake(tmp_path, fresh, Credentials(server.root, old.certificate, old.key))


@pytest.mark.parametrize("days", [1, 365, 361, 3650])
def test_every_certificate_ends_after_the_days_that_were_asked_for(days: int) -> None:
    authority = Authority.create("lung", days=days, now=NOW)
    issued = [authority.for_server("hub", now=NOW)] if days != 361 else []
    issued += [authority.for_center("A", now=NOW), authority.for_coordinator(now=NOW)]
    end = NOW + timedelta(days=days)
    for own in issued:
        for pem in (own.root, own.certificate):
            certificate = x509.load_pem_x509_certificate(pem)
            assert certificate.not_valid_after_utc == end
            assert certificate.not_valid_before_utc <= NOW


def test_a_center_added_later_ends_with_the_others(authority: Authority) -> None:
    later = NOW + timedelta(days=4)
    own = x509.load_pem_x509_certificate(authority.for_center("D", now=later).certificate)
    assert own.not_valid_after_utc == authority.expires


def test_an_expired_authority_signs_nothing(authority: Authority) -> None:
    with pytest.raises(DeploymentError, match="renew"):
        authority.for_center("D", now=NOW + timedelta(days=10))


def test_an_authority_is_the_same_after_it_was_kept(
    tmp_path: Path, authority: Authority, server: Credentials
) -> None:
    authority.save(tmp_path / "authority")
    again = Authority.load(tmp_path / "authority", "lung")
    handshake(tmp_path, server, again.for_center("D", now=NOW), name="hub.example.org")
    assert (tmp_path / "authority" / "root.key").stat().st_mode & 0o777 == 0o600
    with pytest.raises(DeploymentError, match="'breast'"):
        Authority.load(tmp_path / "authority", "breast")


def test_a_renewed_authority_lets_old_and_new_meet(
    tmp_path: Path, authority: Authority, server: Credentials, center: Credentials
) -> None:
    longer = authority.renewed(days=100, now=NOW)
    assert longer.expires == NOW + timedelta(days=100)
    handshake(tmp_path, longer.for_server("hub.example.org", now=NOW), center)
    handshake(tmp_path, server, longer.for_center("A", now=NOW))


def test_days_left_are_counted_to_the_end(tmp_path: Path, center: Credentials) -> None:
    file = tmp_path / "client.crt"
    file.write_bytes(center.certificate)
    assert days_left(file, NOW) == 10
    assert days_left(file, NOW + timedelta(days=9, hours=23)) == 0
    assert days_left(file, NOW + timedelta(days=10, seconds=1)) == -1
    assert date_faults(center.certificate, NOW) == []
    (fault,) = date_faults(center.certificate, NOW + timedelta(days=11))
    assert str((NOW + timedelta(days=10)).date()) in fault
    (fault,) = date_faults(center.certificate, NOW - timedelta(days=2))
    assert "clock" in fault


def test_what_does_not_belong_together_is_told(
    center: Credentials, stranger: Credentials, server: Credentials
) -> None:
    own = {"root": center.root, "certificate": center.certificate, "key": center.key}
    assert chain_faults(**own, subject="A") == []
    assert "not that of" in chain_faults(**own, subject="B")[0]
    assert "not signed" in chain_faults(**{**own, "root": stranger.root}, subject="A")[0]
    assert "does not belong" in chain_faults(**{**own, "key": stranger.key}, subject="A")[0]
    # A certificate that may not sign is no authority, even of itself.
    assert "may sign" in chain_faults(**{**own, "root": server.certificate}, subject="A")[0]
    assert "damaged" in chain_faults(**{**own, "certificate": b"x"}, subject="A")[0]
    assert "damaged" in chain_faults(**{**own, "key": b"x"}, subject="A")[0]


def with_extension(authority: Authority, center: Credentials, value: bytes) -> bytes:
    """The certificate of center A, signed as all are, with basic constraints of these bytes."""
    own = x509.load_pem_x509_certificate(center.certificate)
    root = x509.load_pem_x509_certificate(authority.certificate)
    builder = (
        x509.CertificateBuilder()
        .subject_name(own.subject)
        .issuer_name(root.subject)
        .public_key(own.public_key())
        .serial_number(7)
        .not_valid_before(NOW)
        .not_valid_after(NOW + timedelta(days=1))
        .add_extension(x509.UnrecognizedExtension(x509.BasicConstraints.oid, value), False)
    )
    return builder.sign(authority._key, SHA256()).public_bytes(Encoding.PEM)


def test_a_broken_extension_is_told(authority: Authority, center: Credentials) -> None:
    of_a_center = x509.BasicConstraints(False, None).public_bytes()
    sound = with_extension(authority, center, of_a_center)
    broken = with_extension(authority, center, b"\x30\x7fbroken")
    for certificate, faults in ((sound, []), (broken, ["The certificate is damaged"])):
        told = chain_faults(
            root=authority.certificate, certificate=certificate, key=center.key, subject="A"
        )
        assert [text.split(":")[0] for text in told] == faults
    told = chain_faults(root=broken, certificate=sound, key=center.key, subject="A")
    assert told == ["The authority's certificate is damaged: it cannot be read."]


@pytest.mark.parametrize("part", ["root", "certificate", "key"])
def test_whatever_byte_is_damaged_there_is_a_word(center: Credentials, part: str) -> None:
    rng, refused = np.random.default_rng(2), 0
    label = getattr(center, part).splitlines()[0][11:-5]
    whole = b64decode(b"".join(getattr(center, part).splitlines()[1:-1]))
    for _ in range(300):
        content = bytearray(whole)
        content[rng.integers(len(content))] = rng.integers(256)
        text = encodebytes(content).strip()
        damaged = b"-----BEGIN %s-----\n%s\n-----END %s-----\n" % (label, text, label)
        refused += bool(chain_faults(**{**vars(center), part: damaged}, subject="A"))
    assert refused > 100
