"""Whether the coordinator's server answers, and takes our certificate.

The engine tries for ever and tells neither; one handshake before it starts tells both.
"""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

from fedcox.errors import DeploymentError

#: Seconds that a handshake may take.
_PATIENCE = 5.0
_EXPIRED = 10  # X509_V_ERR_CERT_HAS_EXPIRED
_NOT_YET = 9  # X509_V_ERR_CERT_NOT_YET_VALID
# An end without an answer, as of a front (balancer, tunnel, container) whose server is down.
_CUT = (ssl.SSLEOFError, ssl.SSLSyscallError, ConnectionResetError, BrokenPipeError)


@dataclass(frozen=True)
class CredentialFiles:
    """A certificate, its key, and the authority that both sides trust: files in one folder."""

    certificate: Path
    key: Path
    authority: Path

    @classmethod
    def of(cls, startup: Path) -> CredentialFiles:
        """Those of a center or an administrator, as they stand in a start-up folder."""
        return cls(startup / "client.crt", startup / "client.key", startup / "rootCA.pem")


def why_not_reached(host: str, port: int, credentials: CredentialFiles) -> str | None:
    """None where the server answers and takes our certificate; else why nobody answers.

    Certificates that do not fit are a DeploymentError: waiting does not mend them.
    """
    place = f"{host}:{port}"
    try:
        with (
            socket.create_connection((host, port), _PATIENCE) as plain,
            _context(credentials).wrap_socket(plain, server_hostname=host) as line,
        ):
            if not _answers(line):
                raise _not_taken(place)
    except ssl.SSLCertVerificationError as error:
        raise _not_trusted(place, error) from error
    except _CUT:
        return (
            f"{place} takes connections and breaks them off at once; the server behind it may "
            "be down, or a firewall stand between"
        )
    except ssl.SSLError as error:
        raise _broken_off(place, error) from error
    except TimeoutError:
        return (
            f"no answer from {place} within {_PATIENCE:g} seconds; a firewall may stand between"
        )
    except socket.gaierror:
        return f"the name {host} is not known on this network"
    except OSError:
        return f"nobody listens at {place}"
    return None


def _answers(line: ssl.SSLSocket) -> bool:
    """In TLS 1.3 a client hears that its certificate is refused only after the handshake.

    Any question that brings an answer will do; a server that refuses us breaks off.
    """
    try:
        line.sendall(b"GET / HTTP/1.1\r\nHost: fedcox\r\nConnection: close\r\n\r\n")
        return bool(line.recv(1))
    except (ssl.SSLError, ConnectionError):
        return False


def _context(credentials: CredentialFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # The server's name is checked by the engine, which knows it from the kit; here only whether
    # it is one of our authority.
    context.check_hostname = False
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(credentials.authority)
    context.load_cert_chain(credentials.certificate, credentials.key)
    return context


def _not_trusted(place: str, error: ssl.SSLCertVerificationError) -> DeploymentError:
    if error.verify_code in (_EXPIRED, _NOT_YET):
        return DeploymentError(
            f"The certificate of the server at {place} is not valid today.",
            [
                "The coordinator renews its certificates and sends a new kit.",
                "If this machine's clock is wrong, set it.",
            ],
        )
    return DeploymentError(
        f"The server at {place} is not the one that this kit was made for.",
        [
            "Its certificate is of another authority: nothing was sent to it.",
            "Ask the coordinator for a kit of this server, or for the right address.",
        ],
    )


def _not_taken(place: str) -> DeploymentError:
    return DeploymentError(
        f"The server at {place} does not take our certificate.",
        [
            "It is of another authority, or it has expired.",
            "Ask the coordinator for a new kit, and join with it.",
        ],
    )


def _broken_off(place: str, error: ssl.SSLError) -> DeploymentError:
    """During the handshake: by a server that refuses us, or by one that knows no TLS."""
    if "ALERT" in (error.reason or ""):
        return _not_taken(place)
    return DeploymentError(
        f"What listens at {place} does not speak TLS as the coordinator's server does.",
        ["Check the address and the port with the coordinator."],
    )
