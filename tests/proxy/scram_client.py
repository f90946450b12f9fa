"""The client's side of SCRAM-SHA-256, written from RFC 5802 alone."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode

from tallyveil.proxy.protocol import messages as m

__all__ = ["ScramClient"]


def _hmac(key: bytes, data: bytes) -> bytes:
    return hmac.new(key, data, hashlib.sha256).digest()


class ScramClient:
    """``header`` is the gs2 header, ``bound`` what the channel binding hashes to."""

    def __init__(
        self,
        password: str,
        *,
        header: str = "n,,",
        bound: bytes = b"",
        mechanism: str = "SCRAM-SHA-256",
        user: str = "",
        nonce: str = "rOprNGfwEbeRWgbNEkqO",
    ) -> None:
        self._password = password
        self._binding = b64encode(header.encode() + bound).decode()
        self._mechanism = mechanism
        self._bare = f"n={user},r={nonce}"
        self._first = header + self._bare
        self._server_signature = b""

    def begin(self) -> m.Credentials:
        first = self._first.encode()
        return m.Credentials(
            self._mechanism.encode() + b"\0" + len(first).to_bytes(4, "big") + first
        )

    def finish(self, server_first: bytes) -> m.Credentials:
        said = dict(part.split("=", 1) for part in server_first.decode().split(","))
        salted = hashlib.pbkdf2_hmac(
            "sha256", self._password.encode(), b64decode(said["s"]), int(said["i"])
        )
        client_key = _hmac(salted, b"Client Key")
        final = f"c={self._binding},r={said['r']}"
        transcript = f"{self._bare},{server_first.decode()},{final}".encode()
        signature = _hmac(hashlib.sha256(client_key).digest(), transcript)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._server_signature = _hmac(_hmac(salted, b"Server Key"), transcript)
        return m.Credentials(f"{final},p={b64encode(proof).decode()}".encode())

    def trusts(self, server_final: bytes) -> bool:
        return server_final == b"v=" + b64encode(self._server_signature)
