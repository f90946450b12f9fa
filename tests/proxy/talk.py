"""A conversation without a socket, for tests of the state machine."""

from __future__ import annotations

from typing import Any

from tallyveil.errors import TallyveilError
from tallyveil.proxy.admission.auth import Authentication, Trust
from tallyveil.proxy.admission.failures import FailedLogins
from tallyveil.proxy.admission.login_request import LoginRequest
from tallyveil.proxy.admission.tls import Tls
from tallyveil.proxy.client_memory import ConnectionMemory, ServerMemory
from tallyveil.proxy.conversation import Conversation
from tallyveil.proxy.execution.replies import Replies
from tallyveil.proxy.interruption import Interruption
from tallyveil.proxy.protocol import messages as m
from tallyveil.proxy.protocol_errors import TooManyConnections
from tests.proxy.fake_session import FakeSession, Sessions
from tests.proxy.raw_client import split

STARTUP = m.Startup(3 << 16, (("user", "alice"), ("database", "demo")))


class FakeHost:
    def __init__(self, auth: Authentication | None = None, full: bool = False) -> None:
        self.auth: Authentication = auth or Trust()
        self.tls: Tls | None = None
        self.open_session = Sessions()
        self.full = full
        self.replies = Replies()
        self.catalog = None
        self.memory = ServerMemory(1 << 26)
        self.failures = FailedLogins(1.0)
        self.cancelled: list[tuple[int, bytes]] = []

    def holding(self) -> ConnectionMemory:
        return ConnectionMemory(self.memory, 1 << 25)

    def needs_tls(self, address: str) -> bool:
        return address == "192.0.2.1"

    def admit(self, interruption: Interruption, request: LoginRequest) -> tuple[int, bytes, str]:
        if self.full:
            raise TooManyConnections("sorry, too many clients already")
        return 7, bytes(range(97, 97 + request.key_size)), request.database

    def cancel(self, pid: int, secret: bytes) -> None:
        self.cancelled.append((pid, secret))


class Talk:
    """A conversation with the answers split into messages."""

    def __init__(self, host: FakeHost | None = None) -> None:
        self.host = host or FakeHost()
        self.interruption = Interruption()
        self.conversation = Conversation(self.host, self.interruption)

    def __call__(self, *messages: m.Message | TallyveilError) -> list[tuple[str, Any]]:
        return split(b"".join(self.conversation.respond(messages)))

    def kinds(self, *messages: m.Message) -> str:
        return "".join(kind for kind, _ in self(*messages))

    @property
    def session(self) -> FakeSession:
        return self.host.open_session.last


def query(sql: str) -> m.Query:
    return m.Query(sql.encode())


def parse(sql: str, name: str = "", types: tuple[int, ...] = ()) -> m.Parse:
    return m.Parse(name, sql.encode(), types)


def bind(
    *values: bytes | None,
    portal: str = "",
    statement: str = "",
    formats: tuple[int, ...] = (),
    results: tuple[int, ...] = (),
) -> m.Bind:
    return m.Bind(portal, statement, formats, values, results)


def error_of(answer: list[tuple[str, Any]]) -> dict[str, str]:
    (fields,) = [fields for kind, fields in answer if kind == "E"]
    return dict(fields)
