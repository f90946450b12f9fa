"""Certificates: what SCRAM binds to, and a self-signed one for a first run.

The library for them is read in when one is needed.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import ipaddress
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography import x509

__all__ = ["end_point", "self_sign"]

_YEARS: Final = 10


def end_point(pem: bytes) -> bytes | None:
    """The hash ``tls-server-end-point`` (RFC 5929, section 4.1) of the first certificate.

    By the digest of its signature, SHA-256 in place of MD5 and SHA-1; None for signatures without
    one, such as Ed25519. Raises ValueError if there is no certificate.
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
    """Write a certificate for this machine, ``host`` included, and its key, for its owner alone.

    Raises OSError, FileExistsError if one of them is there already.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

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
        # So that clients can take it as the root it is for itself.
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(secret, hashes.SHA256())
    )
    private = secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    _write(key, private, 0o600)
    _write(certificate, signed.public_bytes(Encoding.PEM), 0o644)


def _names(host: str) -> list[x509.GeneralName]:
    """By which clients may call this machine, each once."""
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


def _write(path: Path, data: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
