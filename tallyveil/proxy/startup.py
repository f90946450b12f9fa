"""The first words of a connection: what a Startup message asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tallyveil.errors import TallyveilError
from tallyveil.proxy.errors import InvalidAuthorization, ProtocolViolation, UnsupportedProtocol
from tallyveil.proxy.messages import Startup

__all__ = ["VERSION", "Request", "read_startup"]

VERSION: Final = 3 << 16 | 2
"""Protocol 3.2, the newest one spoken here. What it adds to 3.0 is longer keys to cancel by."""

_KEY: Final = 4
_LONG_KEY: Final = 32

_WORD: Final = re.compile(r"(?:\\.|[^\s\\])+")
_RESERVED: Final = frozenset({"user", "database", "options", "replication"})


@dataclass(frozen=True, slots=True)
class Request:
    """Who wants which database, with which settings, in the order given.

    ``unsupported`` are protocol options to decline, ``version`` is the protocol asked for.
    """

    user: str
    database: str
    settings: tuple[tuple[str, str], ...]
    unsupported: tuple[str, ...]
    version: int = VERSION

    @property
    def negotiates(self) -> bool:
        """Whether the client has to be told what is spoken here."""
        return self.version > VERSION or bool(self.unsupported)

    @property
    def key_size(self) -> int:
        """Bytes of the secret to cancel by."""
        return _LONG_KEY if self.version >= VERSION else _KEY


def _options(text: str) -> Iterator[tuple[str, str]]:
    """The settings of ``options``: ``-c name=value``, ``-cname=value``, ``--name=value``.

    Words are separated by white space; a backslash takes the next character as it is.
    """
    words = iter(re.sub(r"\\(.)", r"\1", w) for w in _WORD.findall(text))
    for word in words:
        if word == "-c":
            word = next(words, "")
        elif word.startswith(("-c", "--")):
            word = word[2:]
        else:
            raise ProtocolViolation(
                f"invalid command-line argument in options: {word}",
                hint="Write settings as -c name=value.",
            )
        name, equals, value = word.partition("=")
        if not name or not equals:
            raise ProtocolViolation(
                f"invalid command-line argument in options: {word}",
                hint="Write settings as -c name=value.",
            )
        # PostgreSQL takes --work-mem for work_mem, too.
        yield name.replace("-", "_"), value


def read_startup(message: Startup) -> Request:
    """Raises a ConnectionRefused or TallyveilError that ends the connection."""
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
        raise _no_replication()
    settings: list[tuple[str, str]] = list(_options(given.get("options", "")))
    unsupported = []
    for name, value in message.parameters:
        if name.startswith("_pq_."):
            unsupported.append(name)
        elif name not in _RESERVED:
            settings.append((name, value))
    return Request(
        user, given.get("database") or user, tuple(settings), tuple(unsupported), message.version
    )


def _no_replication() -> TallyveilError:
    return UnsupportedProtocol(
        "replication is not supported", hint="Connect without the replication parameter."
    )
