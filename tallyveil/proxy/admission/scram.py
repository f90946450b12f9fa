"""SCRAM-SHA-256, the server's side: the verifier stored for a password, and the login exchange.

RFC 5802 and RFC 7677, with the channel binding ``tls-server-end-point`` of RFC 5929; bytes in,
bytes out. Neither the password nor anything that suffices to log in is sent or stored. Passwords
are normalised by SASLprep (RFC 4013) as in PostgreSQL and its clients: the same characters match,
however they were typed, and a password that RFC 4013 forbids is used unchanged.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import re
import secrets
import stringprep
import unicodedata
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from typing import Final

from tallyveil.proxy.protocol_errors import (
    InvalidAuthorization,
    ProtocolViolation,
    UnsupportedProtocol,
)

__all__ = ["Exchange", "Verifier", "saslprep"]

_PROHIBITED: Final = (
    stringprep.in_table_a1,  # not assigned in Unicode 3.2
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
)

PLAIN: Final = "SCRAM-SHA-256"
PLUS: Final = "SCRAM-SHA-256-PLUS"
"""The mechanisms without and with channel binding."""

ITERATIONS: Final = 4096
"""PostgreSQL's default, and the minimum of RFC 7677."""

_MOST_ITERATIONS: Final = 10_000_000
_SALT: Final = 16
_NONCE: Final = 18
_KEY: Final = 32
_VERIFIER: Final = re.compile(r"SCRAM-SHA-256\$(\d{1,8}):([\w+/=]+)\$([\w+/=]+):([\w+/=]+)", re.A)
_FIRST: Final = re.compile(
    rb"(?P<header>(?P<binding>n|y|p=(?P<type>[A-Za-z0-9.-]+)),(?P<authzid>a=[^,]*)?,)"
    rb"(?P<bare>(?P<mandatory>m=[^,]*,)?n=[^,\0]*,r=(?P<nonce>[!-+\--~]+)(,[^\0]*)?)"
)
_FINAL: Final = re.compile(
    rb"(?P<unproved>c=(?P<binding>[^,]+),r=(?P<nonce>[!-+\--~]+)(,[A-Za-z]=[^,\0]*)*)"
    rb",p=(?P<proof>[^,]+)"
)


def saslprep(password: str) -> str:
    """Normalise the password. Returns it unchanged if it has prohibited characters, or if nothing
    would be left.

    >>> saslprep("I\\u00adX"), saslprep("\\u2168"), saslprep("\\u0007")
    ('IX', 'IX', '\\x07')
    """
    if password.isascii():
        return password
    spaced = (" " if stringprep.in_table_c12(c) else c for c in password)
    mapped = "".join(c for c in spaced if not stringprep.in_table_b1(c))
    prepared = unicodedata.normalize("NFKC", mapped)
    if not prepared or any(table(c) for c in prepared for table in _PROHIBITED):
        return password
    return prepared if _one_direction(prepared) else password


def _one_direction(text: str) -> bool:
    """Whether a text with right-to-left characters begins and ends with one and has no
    left-to-right characters (RFC 3454, section 6)."""
    if not any(map(stringprep.in_table_d1, text)):
        return True
    ends = stringprep.in_table_d1(text[0]) and stringprep.in_table_d1(text[-1])
    return ends and not any(map(stringprep.in_table_d2, text))


def fresh_nonce() -> bytes:
    """The server's part of the nonce, different for each exchange."""
    return b64encode(secrets.token_bytes(_NONCE))


def _hmac(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


@dataclass(frozen=True, slots=True)
class Verifier:
    """What the server stores for a password. Anybody who has it can test guesses of the password.

    ``stored_key`` = H(HMAC(S, "Client Key")) and ``server_key`` = HMAC(S, "Server Key"), where
    S = PBKDF2(password, salt, iterations).
    """

    iterations: int
    salt: bytes
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not 1 <= self.iterations <= _MOST_ITERATIONS:
            raise ValueError(f"a verifier has 1 to {_MOST_ITERATIONS:,} iterations")
        if not self.salt or len(self.stored_key) != _KEY or len(self.server_key) != _KEY:
            raise ValueError(f"a verifier has a salt, and keys of {_KEY} bytes")

    @classmethod
    def of(
        cls, password: str, *, salt: bytes | None = None, iterations: int = ITERATIONS
    ) -> Verifier:
        """Make the verifier of a password, with a random salt unless one is given."""
        salt = secrets.token_bytes(_SALT) if salt is None else salt
        # As in libpq, a password that is not UTF-8 is used as its bytes.
        prepared = saslprep(password).encode("utf-8", "surrogateescape")
        salted = hashlib.pbkdf2_hmac("sha256", prepared, salt, iterations)
        client_key = _hmac(salted, b"Client Key")
        return cls(iterations, salt, _sha256(client_key), _hmac(salted, b"Server Key"))

    @classmethod
    def parse(cls, text: str) -> Verifier:
        """Read a verifier in the format of PostgreSQL's pg_authid. Raises ValueError for any other
        text."""
        found = _VERIFIER.fullmatch(text)
        if found is None:
            raise ValueError("expected SCRAM-SHA-256$iterations:salt$stored key:server key")
        try:
            salt, stored, server = (b64decode(part, validate=True) for part in found.groups()[1:])
        except binascii.Error:
            raise ValueError("expected salt and keys in base64") from None
        return cls(int(found[1]), salt, stored, server)

    def written(self) -> str:
        """The verifier in PostgreSQL's format, which `parse` reads."""
        salt, stored, server = (
            b64encode(part).decode() for part in (self.salt, self.stored_key, self.server_key)
        )
        return f"{PLAIN}${self.iterations}:{salt}${stored}:{server}"

    @property
    def parameters(self) -> tuple[int, int]:
        """What clients learn of a verifier, besides the salt itself: iterations, and its length."""
        return self.iterations, len(self.salt)

    def likeness(self, secret: bytes, user: str) -> Verifier:
        """A verifier for an unknown user: of the same length and iterations as this one, always the
        same for a name, and matched by no password."""
        name = user.encode("utf-8", "surrogateescape")
        salt, stored, server = (
            _hmac(secret, purpose + name) for purpose in (b"salt:", b"stored:", b"server:")
        )
        repeated = salt * (len(self.salt) // len(salt) + 1)
        return Verifier(self.iterations, repeated[: len(self.salt)], stored, server)


class Exchange:
    """One login: the client gets ``mechanisms``, then the results of `begin` and `finish`.

    ``known`` is False if the verifier is a likeness: then every proof is wrong.
    ``end_point`` is the hash that the connection is bound to, None without TLS or such a hash.
    The methods raise ProtocolViolation, UnsupportedProtocol or InvalidAuthorization for messages
    that are wrong whatever the password is.
    """

    def __init__(self, verifier: Verifier, known: bool, end_point: bytes | None) -> None:
        self.mechanisms: Final = (PLAIN,) if end_point is None else (PLUS, PLAIN)
        self._verifier = verifier
        self._known = known
        self._end_point = end_point
        self._nonce = self._bound = self._transcript = b""

    def begin(self, response: bytes) -> bytes:
        """Return the server's first message, which answers the SASLInitialResponse."""
        mechanism, message = _initial(response)
        if mechanism not in self.mechanisms:
            raise ProtocolViolation("client selected an invalid SASL authentication mechanism")
        found = _FIRST.fullmatch(message)
        if found is None:
            raise _malformed()
        if found["authzid"]:
            raise UnsupportedProtocol("authorization identities are not supported")
        if found["mandatory"]:
            raise UnsupportedProtocol("client requires an unsupported SCRAM extension")
        self._check_binding(mechanism, found["binding"], found["type"])
        self._bound = found["header"] + (self._end_point or b"" if mechanism == PLUS else b"")
        self._nonce = found["nonce"] + fresh_nonce()
        salt, rounds = b64encode(self._verifier.salt), b"%d" % self._verifier.iterations
        first = b"r=%s,s=%s,i=%s" % (self._nonce, salt, rounds)
        self._transcript = found["bare"] + b"," + first
        return first

    def finish(self, message: bytes) -> bytes | None:
        """Return the server's last message, or None if the password is wrong."""
        found = _FINAL.fullmatch(message)
        if found is None:
            raise _malformed()
        if not hmac.compare_digest(_decoded(found["binding"]), self._bound):
            raise InvalidAuthorization("SCRAM channel binding check failed")
        if not hmac.compare_digest(found["nonce"], self._nonce):
            raise ProtocolViolation("invalid SCRAM response", detail="Nonce does not match.")
        proof, verifier = _decoded(found["proof"]), self._verifier
        if len(proof) != _KEY:
            raise _malformed()
        transcript = self._transcript + b"," + found["unproved"]
        signature = _hmac(verifier.stored_key, transcript)
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        right = hmac.compare_digest(_sha256(client_key), verifier.stored_key)
        last = b"v=" + b64encode(_hmac(verifier.server_key, transcript))
        return last if right and self._known else None

    def _check_binding(self, mechanism: str, binding: bytes, kind: bytes | None) -> None:
        if (mechanism == PLUS) != (kind is not None):
            raise _malformed()
        if kind not in (None, b"tls-server-end-point"):
            raise ProtocolViolation("unsupported SCRAM channel-binding type")
        if binding == b"y" and PLUS in self.mechanisms:
            # Somebody between client and server has removed it from the list of mechanisms.
            raise InvalidAuthorization(
                "SCRAM channel binding negotiation error",
                detail="The client supports SCRAM channel binding but thinks the server does not.",
            )


def _initial(response: bytes) -> tuple[str, bytes]:
    """Split a SASLInitialResponse into the mechanism and the message."""
    name, nul, rest = response.partition(b"\0")
    size, message = int.from_bytes(rest[:4], "big"), rest[4:]
    if not nul or len(rest) < 4 or size != len(message):
        raise _malformed()
    return name.decode("ascii", "replace"), message


def _decoded(text: bytes) -> bytes:
    try:
        return b64decode(text, validate=True)
    except binascii.Error:
        raise _malformed() from None


def _malformed() -> ProtocolViolation:
    return ProtocolViolation("malformed SCRAM message")
