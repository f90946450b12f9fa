"""The login of a client: encryption, the startup message, certificates and passwords.

The table in `conversation` defines the order of the messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tallyveil.proxy.admission.scram import Exchange
from tallyveil.proxy.admission.tls import Channel
from tallyveil.proxy.interruption import LONGEST_SECRET
from tallyveil.proxy.protocol import backend
from tallyveil.proxy.protocol import messages as m
from tallyveil.proxy.protocol_errors import (
    InvalidAuthorization,
    InvalidPassword,
    ProtocolViolation,
    UnsupportedProtocol,
)

if TYPE_CHECKING:
    from tallyveil.proxy.server import Server

__all__ = ["Login", "LoginRequest"]

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


def _read_startup(message: m.Startup) -> LoginRequest:
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


class Login:
    """The login of one client. ``channel`` is its TLS, or None if it has not requested TLS."""

    def __init__(self, host: Server) -> None:
        self.channel: Channel | None = None
        self._host = host
        self._request: LoginRequest | None = None
        self._exchange: Exchange | None = None
        self._address = ""
        self._encryption_requests: set[type[m.Message]] = set()

    @property
    def user(self) -> str:
        """The user name of the startup message, not yet proved; empty before that message."""
        return "" if self._request is None else self._request.user

    @property
    def request(self) -> LoginRequest:
        """Exists from the startup message on. Raises ProtocolViolation before."""
        if self._request is None:
            raise ProtocolViolation("expected a startup message first")
        return self._request

    @property
    def challenges(self) -> bool:
        """Whether the client must prove a password."""
        return self._host.auth.challenges(self._certified)

    def encrypt(self, message: m.Message) -> Iterator[bytes]:
        """Answer an SSLRequest or GSSENCRequest. Each may come once, and none within TLS."""
        if self.channel is not None or type(message) in self._encryption_requests:
            raise ProtocolViolation("encryption was already requested")
        self._encryption_requests.add(type(message))
        if isinstance(message, m.SSLRequest) and self._host.tls is not None:
            self.channel = self._host.tls.channel()
            yield backend.ENCRYPTION_ACCEPTED
        else:
            yield backend.ENCRYPTION_REFUSED

    def greet(self, message: m.Startup, address: str) -> Iterator[bytes]:
        """Answer the startup message. Raises ConnectionRefused if the client may not log in."""
        request = self._request = _read_startup(message)
        self._address = address
        if self.channel is None and self._host.needs_tls(address):
            raise InvalidAuthorization(
                "connections from other machines must use TLS",
                hint="Connect with sslmode=require, or verify-full and the server's certificate.",
            )
        self._host.auth.check(request.user, self._certified)
        if request.negotiates:
            version = min(request.version, VERSION)
            yield backend.negotiate_version(version, request.unsupported)

    def challenge(self) -> bytes:
        """Begin SCRAM: the message that lists its mechanisms."""
        end_point = None if self.channel is None else self.channel.end_point
        self._exchange = self._host.auth.exchange(self.user, end_point)
        return backend.sasl(self._exchange.mechanisms)

    def begin_proof(self, message: m.Credentials) -> bytes:
        return backend.sasl_continue(self._proof().begin(message.data))

    def finish_proof(self, message: m.Credentials) -> bytes:
        """The last message of SCRAM. Raises InvalidPassword if the proof is wrong."""
        last = self._proof().finish(message.data)
        if last is None:
            self._host.failures.add(self._address)
            raise InvalidPassword(f'password authentication failed for user "{self.user}"')
        return backend.sasl_final(last)

    def _proof(self) -> Exchange:
        if self._exchange is None:
            raise ProtocolViolation("no password was requested")
        return self._exchange

    @property
    def _certified(self) -> str | None:
        return None if self.channel is None else self.channel.certified
