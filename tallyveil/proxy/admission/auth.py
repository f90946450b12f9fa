"""Who may connect: everybody, or those who prove a password or have a certificate.

Passwords are proved by SCRAM (see `scram`) and never travel. A name that nobody has gets the same
dialogue, in the same time, as a wrong password.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from tallyveil.proxy.admission.scram import Exchange, Verifier
from tallyveil.proxy.errors import InvalidAuthorization, ProtocolViolation

__all__ = ["Authentication", "Clientcert", "Trust", "Users"]

Clientcert: TypeAlias = Literal["cert", "verify-full"]
"""What a client's certificate is good for: in place of a password, or needed beside it."""


class Trust:
    """Whoever connects is who they say."""

    def challenges(self, certified: str | None) -> bool:
        """Whether a password is asked for, of a client whose certificate names ``certified``."""
        return False

    def check(self, user: str, certified: str | None) -> None:
        """Raises InvalidAuthorization if the certificate does not let them be ``user``."""

    def exchange(self, user: str, end_point: bytes | None) -> Exchange:
        """The proof of the password, bound to the TLS connection where it has an end point."""
        raise ProtocolViolation("no password was asked for")


class Users:
    """A verifier for each user. The mapping is copied; what it holds never shows.

    ``secret`` makes up what unknown users are asked: keep it, so that it stays the same when the
    server restarts. ``clientcert`` says what certificates are for, None takes none.
    """

    def __init__(
        self,
        verifiers: Mapping[str, Verifier],
        secret: bytes | None = None,
        clientcert: Clientcert | None = None,
    ) -> None:
        self._secret: Final = secret or secrets.token_bytes(32)
        self._verifiers: Final = dict(verifiers)
        # An unknown user is like one of the others, so that lengths and iterations tell nothing.
        self._models: Final = tuple(self._verifiers.values()) or (Verifier.of(""),)
        self._clientcert: Final = clientcert

    def challenges(self, certified: str | None) -> bool:
        return self._clientcert != "cert" or certified is None

    def check(self, user: str, certified: str | None) -> None:
        if certified is None:
            if self._clientcert == "verify-full":
                raise InvalidAuthorization(
                    "connection requires a valid client certificate",
                    hint="Connect over TLS with sslcert and sslkey.",
                )
        elif self._clientcert is not None and certified != user:
            raise InvalidAuthorization(f'certificate authentication failed for user "{user}"')

    def exchange(self, user: str, end_point: bytes | None) -> Exchange:
        name = user.encode("utf-8", "surrogateescape")
        draw = int.from_bytes(hmac.digest(self._secret, b"model:" + name, "sha256")[:8], "big")
        likeness = self._models[draw % len(self._models)].likeness(self._secret, user)
        verifier = self._verifiers.get(user)
        return Exchange(verifier or likeness, verifier is not None, end_point)

    def __repr__(self) -> str:
        return f"Users({len(self._verifiers)})"


Authentication: TypeAlias = Trust | Users
