"""Who may connect: everybody, or those who know a password.

Offered are trust and passwords in clear text. Not offered are SCRAM, certificates and TLS, so a
password can be read by whoever can read the network: keep to the loopback interface, or to a
network that encrypts by itself.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from typing import Final, TypeAlias

__all__ = ["Authentication", "Passwords", "Trust"]


class Trust:
    """Whoever connects is who they say."""

    def __repr__(self) -> str:
        return "Trust()"


class Passwords:
    """A password for each user. The mapping is copied; its values never show."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        empty = [user for user, password in passwords.items() if not password]
        if empty:
            raise ValueError(f"user {empty[0]} has an empty password; leave them out instead")
        # Keyed digests have one length, so that comparing takes one time for all.
        self._key: Final = secrets.token_bytes(32)
        self._digests: Final = {
            user: self._digest(password.encode()) for user, password in passwords.items()
        }
        self._nobody: Final = secrets.token_bytes(32)

    def _digest(self, password: bytes) -> bytes:
        return hmac.digest(self._key, password, "sha256")

    def verify(self, user: str, password: bytes) -> bool:
        """Whether ``user`` exists and this is the password; one work for every answer."""
        expected = self._digests.get(user, self._nobody)
        return hmac.compare_digest(expected, self._digest(password))

    def __repr__(self) -> str:
        return f"Passwords({len(self._digests)} users)"


Authentication: TypeAlias = Trust | Passwords
