"""Certificates: whose one is, who signed it, and until when it holds.

One authority per project signs every certificate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from fedcox.deployment.extras import flare_module, need_cryptography
from fedcox.errors import DeploymentError
from fedcox.files.writing import owners_folder, write_atomically

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.x509 import Certificate, ExtensionType
    from cryptography.x509.oid import ObjectIdentifier
# What the engine calls the organisation of a participant; fedcox gives nobody rights by it.
ORGANISATION = "fedcox"
COORDINATOR_USER = "coordinator@fedcox.local"
COORDINATOR_ROLE = "project_admin"
# Clocks of hospitals differ by minutes; a certificate must not be refused for that.
_CLOCK_DIFFERENCE = timedelta(hours=1)
_CERTIFICATE, _KEY = "root.pem", "root.key"


def expiry(pem: bytes) -> datetime:
    """The moment after which a certificate is refused (UTC)."""
    return _certificate(pem, "The certificate").not_valid_after_utc


def days_left(file: Path, now: datetime) -> int:
    """Whole days until the certificate of a file is refused; negative once it is."""
    try:
        pem = file.read_bytes()
    except OSError as error:
        raise DeploymentError(f"{file} cannot be read: {error.strerror}.") from error
    return (_certificate(pem, str(file)).not_valid_after_utc - now).days


def chain_faults(*, root: bytes, certificate: bytes, key: bytes, subject: str) -> list[str]:
    """Why this certificate, with this key, does not show that its holder is `subject`."""
    try:
        authority = _certificate(root, "The authority's certificate")
        issued = _certificate(certificate, "The certificate")
    except DeploymentError as error:
        return [str(error)]
    return [
        *_signature_faults(authority, issued),
        *_key_faults(issued, key),
        *_subject_faults(issued, subject),
    ]


def same_authority(one: bytes, other: bytes) -> bool:
    """Whether two root certificates are of one key, such as before and after a renewal."""
    name = "The authority's certificate"
    return _certificate(one, name).public_key() == _certificate(other, name).public_key()


def date_faults(pem: bytes, now: datetime) -> list[str]:
    """Why a certificate does not hold at a moment, with the day that matters."""
    certificate = _certificate(pem, "The certificate")
    if now > certificate.not_valid_after_utc:
        return [f"The certificate expired on {certificate.not_valid_after_utc.date()}."]
    if now < certificate.not_valid_before_utc:
        begin = certificate.not_valid_before_utc.date()
        return [f"The certificate holds from {begin} on; is this machine's clock right?"]
    return []


def _certificate(pem: bytes, name: str) -> Certificate:
    need_cryptography()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.x509 import (
        DuplicateExtension,
        InvalidVersion,
        UnsupportedGeneralNameType,
        load_pem_x509_certificate,
    )

    try:
        certificate = load_pem_x509_certificate(pem)
        # Each is taken apart only when it is looked at, and may be what is damaged.
        for part in ("extensions", "subject", "not_valid_before_utc", "not_valid_after_utc"):
            getattr(certificate, part)
        certificate.public_key()
    except (
        ValueError,
        UnsupportedAlgorithm,
        DuplicateExtension,
        InvalidVersion,
        UnsupportedGeneralNameType,
    ) as error:
        raise DeploymentError(f"{name} is damaged: it cannot be read.") from error
    return certificate


def _signature_faults(authority: Certificate, certificate: Certificate) -> list[str]:
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.x509 import BasicConstraints, ExtensionNotFound

    try:
        may_sign = authority.extensions.get_extension_for_class(BasicConstraints).value.ca
    except ExtensionNotFound:
        may_sign = False
    if not may_sign:
        return ["The authority's certificate is not one that may sign others."]
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, UnsupportedAlgorithm, ValueError, TypeError):
        return ["The certificate was not signed by the authority beside it."]
    return []


def _key_faults(certificate: Certificate, key: bytes) -> list[str]:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        public = load_pem_private_key(key, password=None).public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return ["The private key is damaged: it cannot be read."]
    return (
        []
        if public == certificate.public_key()
        else ["The private key does not belong to the certificate."]
    )


def _subject_faults(certificate: Certificate, subject: str) -> list[str]:
    from cryptography.x509.oid import NameOID

    names = [
        str(each.value)
        for each in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    ]
    return [] if names == [subject] else [f"The certificate is not that of {subject!r}."]


@dataclass(frozen=True)
class Credentials:
    """A certificate, its private key and the authority's certificate, each in PEM."""

    root: bytes
    certificate: bytes
    key: bytes


@dataclass(frozen=True)
class Authority:
    """The root certificate of a project and the key that signs for it."""

    project: str
    certificate: bytes
    _key: RSAPrivateKey

    @classmethod
    def create(cls, project: str, *, days: int, now: datetime) -> Authority:
        """A new authority whose certificates hold for `days` days from now on."""
        key, _ = flare_module("nvflare.lighter.utils").generate_keys()
        return cls._signed(project, key, now, now + timedelta(days=days))

    def renewed(self, *, days: int, now: datetime) -> Authority:
        """The same authority for longer: what it signed before is still known as its own."""
        return self._signed(self.project, self._key, now, now + timedelta(days=days))

    @classmethod
    def _signed(
        cls, project: str, key: RSAPrivateKey, now: datetime, until: datetime
    ) -> Authority:
        tools = flare_module("nvflare.lighter.utils")
        identity = tools.Identity(project)
        certificate = tools.generate_cert(
            identity,
            identity,
            key,
            key.public_key(),
            ca=True,
            not_valid_before=now - _CLOCK_DIFFERENCE,
            not_valid_after=until,
        )
        return cls(project, tools.serialize_cert(certificate), key)

    @property
    def expires(self) -> datetime:
        """When every certificate of this authority ends."""
        return expiry(self.certificate)

    def for_server(self, host: str, *, now: datetime) -> Credentials:
        """For the machine that the centers connect to."""
        from cryptography.x509.oid import ExtendedKeyUsageOID as Usage

        # The server's job process is a client of the server with the same certificate.
        return self._issue(host, None, [Usage.SERVER_AUTH, Usage.CLIENT_AUTH], now, host)

    def for_center(self, name: str, *, now: datetime) -> Credentials:
        """For a hospital; it cannot pass for the coordinator's machine with it."""
        from cryptography.x509.oid import ExtendedKeyUsageOID as Usage

        return self._issue(name, None, [Usage.CLIENT_AUTH], now)

    def for_coordinator(self, *, now: datetime) -> Credentials:
        """For the person who submits studies."""
        from cryptography.x509.oid import ExtendedKeyUsageOID as Usage

        return self._issue(COORDINATOR_USER, COORDINATOR_ROLE, [Usage.CLIENT_AUTH], now)

    def _issue(
        self,
        subject: str,
        role: str | None,
        usages: Sequence[ObjectIdentifier],
        now: datetime,
        host: str | None = None,
    ) -> Credentials:
        if now >= self.expires:
            raise DeploymentError(
                f"The authority of {self.project!r} expired on {self.expires.date()}.",
                ["Make new certificates for all: fedcox coordinator renew"],
            )
        tools = flare_module("nvflare.lighter.utils")
        key, public = tools.generate_keys()
        certificate = tools.generate_cert(
            tools.Identity(subject, ORGANISATION, role),
            tools.Identity(self.project),
            self._key,
            public,
            server_default_host=host,
            not_valid_before=now - _CLOCK_DIFFERENCE,
            not_valid_after=self.expires,
            extra_extensions=_uses(usages),
        )
        return Credentials(
            self.certificate, tools.serialize_cert(certificate), tools.serialize_pri_key(key)
        )

    def save(self, folder: Path) -> None:
        """Write certificate and key where only their owner can read them."""
        tools = flare_module("nvflare.lighter.utils")
        owners_folder(folder)
        write_atomically(folder / _CERTIFICATE, self.certificate)
        write_atomically(folder / _KEY, tools.serialize_pri_key(self._key))

    @classmethod
    def load(cls, folder: Path, project: str) -> Authority:
        """Read what `save` wrote; refused where it is damaged or another project's."""
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            certificate = (folder / _CERTIFICATE).read_bytes()
            pem = (folder / _KEY).read_bytes()
        except OSError as error:
            raise DeploymentError(
                f"The authority in {folder} cannot be read: {error.strerror}."
            ) from error
        faults = chain_faults(
            root=certificate, certificate=certificate, key=pem, subject=project
        )
        if faults:
            raise DeploymentError(f"The authority in {folder} cannot sign.", faults)
        key = load_pem_private_key(pem, password=None)
        if not isinstance(key, RSAPrivateKey):
            raise DeploymentError(f"The authority in {folder} has a key of another kind.")
        return cls(project, certificate, key)


def _uses(usages: Sequence[ObjectIdentifier]) -> list[tuple[ExtensionType, bool]]:
    """Extensions that keep a certificate from being used for more than it was made for."""
    from cryptography.x509 import BasicConstraints, ExtendedKeyUsage, KeyUsage

    may = KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=True,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    return [
        (BasicConstraints(ca=False, path_length=None), True),
        (may, True),
        (ExtendedKeyUsage(usages), False),
    ]
