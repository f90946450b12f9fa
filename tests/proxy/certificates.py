"""Certificates for tests: of any kind of key, signed by any digest, for clients too."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

__all__ = ["Authority", "write_pair"]

_TODAY = dt.datetime.now(dt.UTC)


def _builder(names: list[str], issuer: x509.Name | None, key: Any) -> x509.CertificateBuilder:
    name = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, each) for each in names])
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer or name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_TODAY - dt.timedelta(days=2))
    )


def _write(path: Path, signed: x509.Certificate, key: Any) -> Path:
    path.write_bytes(signed.public_bytes(Encoding.PEM))
    secret = path.with_suffix(".key")
    secret.touch(mode=0o600)
    secret.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        if not isinstance(key, ed25519.Ed25519PrivateKey)
        else key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    return path


def write_pair(path: Path, kind: str, digest: hashes.HashAlgorithm | None) -> Path:
    """A self-signed certificate of localhost, its key beside it."""
    keys: dict[str, Any] = {
        "rsa": lambda: rsa.generate_private_key(65537, 2048),
        "ec": lambda: ec.generate_private_key(ec.SECP256R1()),
        "ed25519": ed25519.Ed25519PrivateKey.generate,
    }
    key = keys[kind]()
    builder = _builder(["localhost"], None, key)
    signed = builder.not_valid_after(_TODAY + dt.timedelta(days=2)).sign(key, digest)
    return _write(path, signed, key)


class Authority:
    """Signs the certificates of clients; ``path`` is its own."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder([name], None, self._key)
        builder = builder.add_extension(x509.BasicConstraints(True, None), critical=True)
        self._own = builder.not_valid_after(_TODAY + dt.timedelta(days=2)).sign(
            self._key, hashes.SHA256()
        )
        self.path = _write(folder / f"{name}.crt", self._own, self._key)

    def client(self, *names: str, days: int = 1) -> dict[str, str]:
        """libpq's options for a client of these common names."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(list(names), self._own.subject, key)
        signed = builder.not_valid_after(_TODAY + dt.timedelta(days=days)).sign(
            self._key, hashes.SHA256()
        )
        path = _write(self._folder / f"client{signed.serial_number}.crt", signed, key)
        return {"sslcert": str(path), "sslkey": str(path.with_suffix(".key"))}
