"""Who may connect: everybody, or users with a password or a certificate.

Clients prove passwords by SCRAM (see `scram`) and never send them. An unknown user gets the same
messages, in the same time, as a known user with a wrong password.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from tallyveil.proxy.admission.scram import Exchange, Verifier
from tallyveil.proxy.protocol_errors import InvalidAuthorization, ProtocolViolation

__all__ = ["Authentication", "Clientcert", "Trust", "Users"]

Clientcert: TypeAlias = Literal["cert", "verify-full"]
"""What a client's certificate does: it replaces the password, or is required in addition to it."""


class Trust:
    """Accepts any user name."""

    def challenges(self, certified: str | None) -> bool:
        """Whether a client whose certificate names ``certified`` must prove a password."""
        return False

    def check(self, user: str, certified: str | None) -> None:
        """Raise InvalidAuthorization if the certificate does not allow a login as ``user``."""

    def exchange(self, user: str, end_point: bytes | None) -> Exchange:
        """Begin the SCRAM exchange, bound to the TLS connection if that has an end point."""
        raise ProtocolViolation("no password was requested")


class Users:
    """Users with a verifier each. The mapping is copied; its contents are never shown.

    All must have the same number of iterations and the same length of salt, or ValueError is
    raised: clients are sent both, so an unknown user could not look like every known one, whoever
    came and went.

    ``secret`` generates the challenges for unknown users: pass the same one at each start, so that
    these challenges survive a restart. ``clientcert`` is the use of certificates; None ignores
    them.
    """

    def __init__(
        self,
        verifiers: Mapping[str, Verifier],
        secret: bytes | None = None,
        clientcert: Clientcert | None = None,
    ) -> None:
        self._secret: Final = secret or secrets.token_bytes(32)
        self._verifiers: Final = dict(verifiers)
        if len({verifier.parameters for verifier in self._verifiers.values()}) > 1:
            raise ValueError("the verifiers differ in their iterations or their length of salt")
        self._model: Final = next(iter(self._verifiers.values()), Verifier.of(""))
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
        likeness = self._model.likeness(self._secret, user)
        verifier = self._verifiers.get(user)
        return Exchange(verifier or likeness, verifier is not None, end_point)

    def __repr__(self) -> str:
        return f"Users({len(self._verifiers)})"


Authentication: TypeAlias = Trust | Users
