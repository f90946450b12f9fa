"""The login of a client: encryption, certificates and passwords.

The table in `conversation` defines the order of the messages.
"""

from __future__ import annotations

from collections.abc import Iterator

from tallyveil.proxy.admission.login_request import VERSION, LoginRequest, read_startup
from tallyveil.proxy.admission.scram import Exchange
from tallyveil.proxy.admission.tls import Channel
from tallyveil.proxy.protocol import backend
from tallyveil.proxy.protocol import messages as m
from tallyveil.proxy.protocol_errors import (
    InvalidAuthorization,
    InvalidPassword,
    ProtocolViolation,
)
from tallyveil.proxy.server_state import ServerState

__all__ = ["Login"]


class Login:
    """The login of one client. ``channel`` is its TLS, or None if it has not requested TLS."""

    def __init__(self, server: ServerState) -> None:
        self.channel: Channel | None = None
        self._server = server
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
        return self._server.auth.challenges(self._certified)

    def encrypt(self, message: m.Message) -> Iterator[bytes]:
        """Answer an SSLRequest or GSSENCRequest. Each may come once, and none within TLS."""
        if self.channel is not None or type(message) in self._encryption_requests:
            raise ProtocolViolation("encryption was already requested")
        self._encryption_requests.add(type(message))
        if isinstance(message, m.SSLRequest) and self._server.tls is not None:
            self.channel = self._server.tls.channel()
            yield backend.ENCRYPTION_ACCEPTED
        else:
            yield backend.ENCRYPTION_REFUSED

    def greet(self, message: m.Startup, address: str) -> Iterator[bytes]:
        """Answer the startup message. Raises ConnectionRefused if the client may not log in."""
        request = self._request = read_startup(message)
        self._address = address
        if self.channel is None and self._server.needs_tls(address):
            raise InvalidAuthorization(
                "connections from other machines must use TLS",
                hint="Connect with sslmode=require, or verify-full and the server's certificate.",
            )
        self._server.auth.check(request.user, self._certified)
        if request.negotiates:
            version = min(request.version, VERSION)
            yield backend.negotiate_version(version, request.unsupported)

    def challenge(self) -> bytes:
        """Begin SCRAM: the message that lists its mechanisms."""
        end_point = None if self.channel is None else self.channel.end_point
        self._exchange = self._server.auth.exchange(self.user, end_point)
        return backend.sasl(self._exchange.mechanisms)

    def begin_proof(self, message: m.Credentials) -> bytes:
        return backend.sasl_continue(self._proof().begin(message.data))

    def finish_proof(self, message: m.Credentials) -> bytes:
        """The last message of SCRAM. Raises InvalidPassword if the proof is wrong."""
        last = self._proof().finish(message.data)
        if last is None:
            self._server.failures.add(self._address)
            raise InvalidPassword(f'password authentication failed for user "{self.user}"')
        return backend.sasl_final(last)

    def _proof(self) -> Exchange:
        if self._exchange is None:
            raise ProtocolViolation("no password was requested")
        return self._exchange

    @property
    def _certified(self) -> str | None:
        return None if self.channel is None else self.channel.certified
