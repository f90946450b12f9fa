"""Who is there: encryption, the startup message, certificates and passwords; until one is let in.

What comes in which order is the table in `conversation`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tallyveil.proxy import backend
from tallyveil.proxy import messages as m
from tallyveil.proxy.errors import InvalidAuthorization, InvalidPassword, ProtocolViolation
from tallyveil.proxy.scram import Exchange
from tallyveil.proxy.startup import VERSION, Request, read_startup
from tallyveil.proxy.tls import Channel

if TYPE_CHECKING:
    from tallyveil.proxy.conversation import Host

__all__ = ["Login"]


class Login:
    """One client's. ``channel`` is the TLS it has asked for."""

    def __init__(self, host: Host) -> None:
        self.channel: Channel | None = None
        self._host = host
        self._request: Request | None = None
        self._exchange: Exchange | None = None
        self._asked: set[type[m.Message]] = set()

    @property
    def user(self) -> str:
        """Who the client says to be; the empty name before that."""
        return "" if self._request is None else self._request.user

    @property
    def request(self) -> Request:
        """Exists from the startup message on."""
        if self._request is None:
            raise ProtocolViolation("expected a startup message first")
        return self._request

    @property
    def challenges(self) -> bool:
        """Whether a password will be asked for."""
        return self._host.auth.challenges(self._certified)

    def encrypt(self, message: m.Message) -> Iterator[bytes]:
        """To an SSLRequest or GSSENCRequest: each may come once, and none within TLS."""
        if self.channel is not None or type(message) in self._asked:
            raise ProtocolViolation("encryption was asked for already")
        self._asked.add(type(message))
        if isinstance(message, m.SSLRequest) and self._host.tls is not None:
            self.channel = self._host.tls.channel()
            yield backend.ENCRYPTION_ACCEPTED
        else:
            yield backend.ENCRYPTION_REFUSED

    def greet(self, message: m.Startup, address: str) -> Iterator[bytes]:
        request = self._request = read_startup(message)
        if self.channel is None and self._host.needs_tls(address):
            raise InvalidAuthorization(
                "connections from other machines must use TLS",
                hint="Connect with sslmode=require, or verify-full and the server's certificate.",
            )
        self._host.auth.check(request.user, self._certified)
        if request.negotiates:
            spoken = min(request.version, VERSION)
            yield backend.negotiate_version(spoken, request.unsupported)

    def challenge(self) -> bytes:
        end_point = None if self.channel is None else self.channel.end_point
        self._exchange = self._host.auth.exchange(self.user, end_point)
        return backend.sasl(self._exchange.mechanisms)

    def begin_proof(self, message: m.Credentials) -> bytes:
        return backend.sasl_continue(self._proof().begin(message.data))

    def finish_proof(self, message: m.Credentials) -> bytes:
        last = self._proof().finish(message.data)
        if last is None:
            raise InvalidPassword(f'password authentication failed for user "{self.user}"')
        return backend.sasl_final(last)

    def _proof(self) -> Exchange:
        if self._exchange is None:
            raise ProtocolViolation("no password was asked for")
        return self._exchange

    @property
    def _certified(self) -> str | None:
        return None if self.channel is None else self.channel.certified
