"""TLS without I/O: it decrypts bytes of the network and encrypts bytes for it. Also certificates:
the hash that SCRAM binds to, and a self-signed certificate for a first run.

A client requests TLS by an SSLRequest, or begins with a handshake (``sslnegotiation=direct``). In
the latter case it must name the protocol by ALPN, so that clients of other protocols cannot be
redirected here. The library for certificates is imported when it is first needed.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import ipaddress
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tallyveil.files import write_new

if TYPE_CHECKING:
    from cryptography import x509

__all__ = ["HANDSHAKE", "Channel", "Tls", "end_point", "self_sign"]

_YEARS: Final = 10

HANDSHAKE: Final = 0x16
"""The first byte of a TLS connection. No startup packet begins with it: it would be too long."""

_ALPN: Final = "postgresql"
_RECORDS: Final = 1 << 16


def end_point(pem: bytes) -> bytes | None:
    """The hash ``tls-server-end-point`` (RFC 5929, section 4.1) of the first certificate.

    It uses the hash function of the certificate's signature, but SHA-256 instead of MD5 and SHA-1.
    None for signatures without a hash function, such as Ed25519. Raises ValueError if ``pem``
    holds no certificate.
    """
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding

    certificate = x509.load_pem_x509_certificate(pem)
    try:
        digest = certificate.signature_hash_algorithm
    except UnsupportedAlgorithm:
        return None
    if digest is None:
        return None
    name = "sha256" if digest.name in ("md5", "sha1") else digest.name
    return hashlib.new(name, certificate.public_bytes(Encoding.DER)).digest()


def self_sign(certificate: Path, key: Path, host: str) -> None:
    """Write a certificate for this machine, including ``host``, and its key, which only the owner
    may read.

    Raises FileExistsError if one of the files exists, OSError if it cannot be written.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    secret = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, socket.gethostname()[:64])])
    today = dt.datetime.now(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(secret.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - dt.timedelta(days=1))
        .not_valid_after(today + dt.timedelta(days=365 * _YEARS))
        .add_extension(x509.SubjectAlternativeName(_names(host)), critical=False)
        # So that clients can install it as a root certificate.
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(secret, hashes.SHA256())
    )
    private = secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    write_new(key, private)
    write_new(certificate, signed.public_bytes(Encoding.PEM), 0o644)


def _names(host: str) -> list[x509.GeneralName]:
    """The names and addresses by which clients may reach this machine, each once."""
    from cryptography import x509

    names: dict[str, x509.GeneralName] = {}
    for each in ("localhost", socket.gethostname(), "127.0.0.1", "::1", host):
        try:
            address = ipaddress.ip_address(each)
        except ValueError:
            if each.isascii() and each:
                names[each] = x509.DNSName(each)
        else:
            if not address.is_unspecified:
                names[each] = x509.IPAddress(address)
    return list(names.values())


class Tls:
    """A server's certificate and key, and the authorities whose client certificates it accepts.

    Raises OSError or ValueError, naming the file, if a file cannot be read or used.
    """

    def __init__(self, certificate: Path, key: Path, client_ca: Path | None = None) -> None:
        self._context = context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET | ssl.OP_NO_COMPRESSION
        context.num_tickets = 0
        context.set_alpn_protocols([_ALPN])
        with _reading(certificate, "a certificate in PEM"):
            self.end_point: Final = end_point(certificate.read_bytes())
        with _reading(key, "the certificate's private key in PEM, without a passphrase"):
            # Without a callback OpenSSL would ask for the passphrase on the terminal.
            context.load_cert_chain(certificate, key, password=str)
        if client_ca is not None:
            with _reading(client_ca, "certificates in PEM"):
                context.load_verify_locations(client_ca)
            context.verify_mode = ssl.CERT_OPTIONAL

    def channel(self, *, direct: bool = False) -> Channel:
        """The TLS of one connection that begins now."""
        return Channel(self._context, self.end_point, direct=direct)


@contextlib.contextmanager
def _reading(path: Path, expected: str) -> Iterator[None]:
    """Inside, errors name the file, which OpenSSL's do not, and what it should contain."""
    try:
        yield
    except (ssl.SSLError, ValueError) as error:
        known = getattr(error, "reason", None)
        reason = f" ({known.lower().replace('_', ' ')})" if known else ""
        raise ValueError(f"{path}: expected {expected}{reason}") from None
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


class Channel:
    """One TLS connection. After each call its owner must send what is `pending`.

    ``end_point`` is the hash that SCRAM may bind to; ``certified`` is the common name in the
    client's certificate, empty if that has none or several, None without a certificate.
    ``certified`` is valid once the connection is ``established``.
    """

    def __init__(self, context: ssl.SSLContext, end_point: bytes | None, *, direct: bool) -> None:
        self.end_point: Final = end_point
        self.established = False
        self.ended = False
        self.certified: str | None = None
        self._direct = direct
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    def receive(self, data: bytes) -> bytes:
        """Decrypt what has arrived. Raises ssl.SSLError, after which the connection must end."""
        self._incoming.write(data)
        parts = []
        with contextlib.suppress(ssl.SSLWantReadError):
            if not self.established:
                self._tls.do_handshake()
                self._establish()
            while part := self._tls.read(_RECORDS):
                parts.append(part)
            self.ended = True
        return b"".join(parts)

    def send(self, data: bytes) -> None:
        """Encrypt data for the client. Before the connection is established, data are dropped."""
        view = memoryview(data if self.established else b"")
        while view:
            view = view[self._tls.write(view) :]

    def pending(self) -> bytes:
        """The encrypted bytes to send to the client."""
        return self._outgoing.read()

    def finish(self) -> None:
        """Send the end of the stream, which the client can distinguish from a cut connection."""
        with contextlib.suppress(ssl.SSLError):  # does not wait for the client to do the same
            self._tls.unwrap()

    def _establish(self) -> None:
        if self._direct and self._tls.selected_alpn_protocol() != _ALPN:
            refused = ssl.SSLError(ssl.SSL_ERROR_SSL, "")
            refused.reason = "NO_APPLICATION_PROTOCOL"  # OpenSSL sets this for its own errors only
            raise refused
        self.established = True
        self.certified = _common_name(self._tls.getpeercert())


def _common_name(certificate: object) -> str | None:
    """The common name in a verified certificate: empty if there are none or several, None without a
    certificate."""
    if not isinstance(certificate, dict) or not certificate:
        return None
    subject = certificate.get("subject", ())
    names = [value for part in subject for key, value in part if key == "commonName"]
    return names[0] if len(names) == 1 else ""
