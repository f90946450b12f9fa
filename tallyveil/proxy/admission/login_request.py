"""The startup message: the user, the database and the settings that a client asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tallyveil.proxy.interruption import LONGEST_SECRET
from tallyveil.proxy.protocol import messages as m
from tallyveil.proxy.protocol_errors import (
    InvalidAuthorization,
    ProtocolViolation,
    UnsupportedProtocol,
)

__all__ = ["VERSION", "LoginRequest", "read_startup"]

VERSION: Final = 3 << 16 | 2
"""Protocol 3.2, the newest supported version. It adds longer cancel keys to 3.0."""

_KEY: Final = 4

_WORD: Final = re.compile(r"(?:\\.|[^\s\\])+")
_RESERVED: Final = frozenset({"user", "database", "options", "replication"})


@dataclass(frozen=True, slots=True)
class LoginRequest:
    """The user, the database and the settings of a startup message, in the order given.

    ``unsupported`` are the protocol options to decline, ``version`` is the protocol requested.
    """

    user: str
    database: str
    settings: tuple[tuple[str, str], ...]
    unsupported: tuple[str, ...]
    version: int = VERSION

    @property
    def negotiates(self) -> bool:
        """Whether the client must be sent the supported protocol version."""
        return self.version > VERSION or bool(self.unsupported)

    @property
    def key_size(self) -> int:
        """Bytes of the secret for cancel requests."""
        return LONGEST_SECRET if self.version >= VERSION else _KEY


def _options(text: str) -> Iterator[tuple[str, str]]:
    """Yield the settings of ``options``: ``-c name=value``, ``-cname=value``, ``--name=value``.

    White space separates words; a backslash escapes the next character. Raises ProtocolViolation
    for any other word.
    """
    words = iter(re.sub(r"\\(.)", r"\1", w) for w in _WORD.findall(text))
    for word in words:
        setting = ""
        if word == "-c":
            setting = next(words, "")
        elif word.startswith(("-c", "--")):
            setting = word[2:]
        name, equals, value = setting.partition("=")
        if not name or not equals:
            raise ProtocolViolation(
                f"invalid command-line argument in options: {setting or word}",
                hint="Write settings as -c name=value.",
            )
        # PostgreSQL reads --work-mem as work_mem, too.
        yield name.replace("-", "_"), value


def read_startup(message: m.Startup) -> LoginRequest:
    """Read a startup message. Raises ConnectionRefused if it must end the connection."""
    major, minor = divmod(message.version, 1 << 16)
    if major != 3:
        raise UnsupportedProtocol(
            f"unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.2"
        )
    given = dict(message.parameters)
    user = given.get("user", "")
    if not user:
        raise InvalidAuthorization("no PostgreSQL user name specified in startup packet")
    if given.get("replication", "false").lower() not in ("false", "off", "no", "0"):
        raise UnsupportedProtocol(
            "replication is not supported", hint="Connect without the replication parameter."
        )
    settings: list[tuple[str, str]] = list(_options(given.get("options", "")))
    unsupported = []
    for name, value in message.parameters:
        if name.startswith("_pq_."):
            unsupported.append(name)
        elif name not in _RESERVED:
            settings.append((name, value))
    return LoginRequest(
        user, given.get("database") or user, tuple(settings), tuple(unsupported), message.version
    )
