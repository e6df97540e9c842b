"""What a certificate says: whose it is, who signed it, and until when it holds."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from fedcox.errors import DeploymentError, InputError

if TYPE_CHECKING:
    from cryptography.x509 import Certificate


def need_cryptography() -> None:
    """Say how to install what certificates need, where it is missing."""
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise InputError(
            "Certificates need the package 'cryptography', which is not installed.",
            ['Install it with: pip install "fedcox[federated]"'],
        ) from error


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
        own = _certificate(certificate, "The certificate")
    except DeploymentError as error:
        return [str(error)]
    return [
        *_signature_faults(authority, own),
        *_key_faults(own, key),
        *_subject_faults(own, subject),
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


def _signature_faults(authority: Certificate, own: Certificate) -> list[str]:
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.x509 import BasicConstraints, ExtensionNotFound

    try:
        may_sign = authority.extensions.get_extension_for_class(BasicConstraints).value.ca
    except ExtensionNotFound:
        may_sign = False
    if not may_sign:
        return ["The authority's certificate is not one that may sign others."]
    try:
        own.verify_directly_issued_by(authority)
    except (InvalidSignature, UnsupportedAlgorithm, ValueError, TypeError):
        return ["The certificate was not signed by the authority beside it."]
    return []


def _key_faults(own: Certificate, key: bytes) -> list[str]:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        public = load_pem_private_key(key, password=None).public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return ["The private key is damaged: it cannot be read."]
    return (
        []
        if public == own.public_key()
        else ["The private key does not belong to the certificate."]
    )


def _subject_faults(own: Certificate, subject: str) -> list[str]:
    from cryptography.x509.oid import NameOID

    names = [
        str(each.value) for each in own.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    ]
    return [] if names == [subject] else [f"The certificate is not that of {subject!r}."]
