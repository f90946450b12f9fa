"""One connection as a state machine: messages in, bytes out, no I/O.

The table at the end of this file lists the states and the messages that each admits; all else is
what a message means. `Conversation.respond` is lazy, so that its caller decides how far to run
ahead of a client that reads slowly. It yields `backend.BLOCKING` before it calls the gate, which
may block: from there on its caller must run it off the event loop.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from tallyveil import events
from tallyveil.errors import FeatureNotSupported, QueryCanceled, TallyveilError
from tallyveil.gate import GateSession
from tallyveil.proxy.admission.login import Login
from tallyveil.proxy.admission.tls import Channel, Tls
from tallyveil.proxy.execution import extended, simple
from tallyveil.proxy.execution.catalog_session import CatalogSession
from tallyveil.proxy.execution.executor import Executor
from tallyveil.proxy.execution.named_objects import NamedObjects
from tallyveil.proxy.interruption import Interruption
from tallyveil.proxy.protocol import backend
from tallyveil.proxy.protocol import messages as m
from tallyveil.proxy.protocol_errors import ProtocolViolation
from tallyveil.proxy.server_state import ServerState

__all__ = ["Conversation", "ProtocolPhase"]

_log = logging.getLogger(__name__)


class ProtocolPhase(enum.Enum):
    STARTING = "before the startup message"
    CHALLENGED = "waiting for the first message of SCRAM"
    PROVING = "waiting for the proof of the password"
    READY = "authenticated"
    SKIPPING = "after an error in the extended protocol, until Sync"
    CLOSED = "nothing more is sent"


class Conversation:
    """The state of one client's connection, and the answers to its messages.

    ``address`` is the client's; ``pid`` is the process id it gets once it is admitted, else 0.
    """

    def __init__(self, server: ServerState, interruption: Interruption) -> None:
        self.address = ""
        self.login = Login(server)
        self.phase = ProtocolPhase.STARTING
        self.session: GateSession | None = None
        self.pid = 0
        self._server = server
        self._interruption = interruption
        self._holding = server.holding()
        self._executor: Executor | None = None
        self._proved = False
        self._stopped: QueryCanceled | None = None

    @property
    def authenticated(self) -> bool:
        return self._executor is not None

    @property
    def user(self) -> str:
        """The authenticated user; empty before that."""
        return self.login.user if self._executor else ""

    @property
    def analyst(self) -> str:
        """Whose time its work takes: the user's once the login is proved, nobody's before. A login
        may wait for a place."""
        return self.login.user if self._proved else ""

    @property
    def executor(self) -> Executor:
        """Exists from authentication on; before, the table admits no message that needs it."""
        if self._executor is None:
            raise ProtocolViolation("expected a startup message first")
        return self._executor

    def respond(self, messages: Iterable[m.Message | TallyveilError]) -> Iterator[bytes]:
        """Yield the answers in order, and `backend.BLOCKING` before one that may take time.

        An error among ``messages`` is one of reading them: it ends the connection.
        """
        for message in messages:
            if self.phase is ProtocolPhase.CLOSED or self._interruption.gone:
                return
            if isinstance(message, TallyveilError):
                yield backend.error_response(message, fatal=True)
                self.phase = ProtocolPhase.CLOSED
            else:
                yield from self._step(message)

    @property
    def channel(self) -> Channel | None:
        """The TLS channel for all bytes from now on, or None if the client has not begun TLS."""
        return self.login.channel

    def begin_tls(self, tls: Tls) -> None:
        """The client has begun a TLS handshake without an SSLRequest."""
        self.login.channel = tls.channel(direct=True)

    def final_error(self, error: TallyveilError) -> bytes:
        """The last message when the server ends the connection; empty if it is closed already. If
        that stopped a statement, it reports what the statement was charged."""
        silent = self.phase is ProtocolPhase.CLOSED
        if self._stopped is not None:
            error = type(error)(error.message, detail=self._stopped.detail)
        self.phase = ProtocolPhase.CLOSED
        return b"" if silent else backend.error_response(error, fatal=True)

    def release(self) -> GateSession | None:
        """Release all that is stored for the client. Returns its session, which the caller must
        close, or None if it has none."""
        if self._executor is not None:
            self._executor.objects.forget()
        self._holding.give_all()
        session, self.session = self.session, None
        return session

    def _step(self, message: m.Message) -> Iterator[bytes]:
        step = _TABLE[self.phase].get(type(message))
        if step is None:
            error = ProtocolViolation(f"unexpected {type(message).__name__} message")
            yield backend.error_response(error, fatal=True)
            self.phase = ProtocolPhase.CLOSED
            return
        fatal = step.failed is ProtocolPhase.CLOSED
        try:
            yield from step.handle(self, message)
            self.phase = step.done or self.phase
        except TallyveilError as error:
            self._report(error)
            if isinstance(error, QueryCanceled) and self._interruption.gone:
                self._stopped = error  # not by a user: `final_error` says why
            else:
                yield backend.error_response(error, fatal=fatal)
            self._fail(step)
        except Exception as error:  # noqa: BLE001
            # A defect of ours. The exception's arguments may hold anything, so only its type is
            # reported, and only to the log. The client's connection stays open.
            _log.error("internal error: %s in %s", type(error).__name__, type(message).__name__)
            yield backend.internal_error(fatal=fatal)
            self._fail(step)
        if step.ready and self.phase is ProtocolPhase.READY and self._stopped is None:
            yield self._ready()

    def _report(self, error: TallyveilError) -> None:
        fields: Any = {"sqlstate": error.sqlstate, "error": type(error).__name__}
        if self._executor is None:
            user, address = self.login.user, self.address
            warning = logging.WARNING
            events.report("login failed", level=warning, user=user, address=address, **fields)
        else:
            user, latest = self.user, self._executor.latest
            events.report("refused", user=user, connection=self.pid, **fields, statement=latest)

    def _fail(self, step: _Transition) -> None:
        self.phase = step.failed
        if self._executor is not None:
            self._executor.fail()

    def _ready(self) -> bytes:
        executor = self.executor
        if not executor.transaction.open:
            executor.end(committed=True)
        return executor.changes() + backend.ready_for_query(executor.transaction.status)

    def _encrypt(self, message: m.Message) -> Iterator[bytes]:
        return self.login.encrypt(message)

    def _cancel(self, message: m.CancelRequest) -> Iterator[bytes]:
        self._server.cancel(message.pid, message.secret)
        return iter(())

    def _start(self, message: m.Startup) -> Iterator[bytes]:
        yield from self.login.greet(message, self.address)
        if self.login.challenges:
            yield self.login.challenge()
            self.phase = ProtocolPhase.CHALLENGED
        else:
            yield from self._admit()
            self.phase = ProtocolPhase.READY

    def _begin_proof(self, message: m.Credentials) -> Iterator[bytes]:
        yield self.login.begin_proof(message)

    def _finish_proof(self, message: m.Credentials) -> Iterator[bytes]:
        yield self.login.finish_proof(message)
        yield from self._admit()

    def _admit(self) -> Iterator[bytes]:
        server, stop, request = self._server, self._interruption, self.login.request
        self._proved = True
        yield backend.BLOCKING
        self.pid, secret, database = server.admit(stop, request)
        self._holding.analyst = request.user
        session = self.session = server.open_session(request.user, request.database)
        session.connected(self.pid)
        catalog = None
        if server.catalog is not None:
            catalog = CatalogSession(server.catalog, session, stop, request.user, database)
        objects = NamedObjects(self._holding)
        executor = Executor(session, stop, objects, server.replies, catalog)
        for name, value in request.settings:
            session.set(name, value)
        yield backend.AUTHENTICATION_OK
        yield executor.changes()
        yield backend.backend_key(self.pid, secret)
        self._executor = executor

    def _call_function(self, message: m.Message) -> Iterator[bytes]:
        raise FeatureNotSupported(
            "the function call protocol is not supported", hint="Call the function in a SELECT."
        )

    def _nothing(self, message: m.Message) -> Iterator[bytes]:
        return iter(())


class _Transition(NamedTuple):
    """The handler of a message, the phase after it, and whether ReadyForQuery ends the answer.

    ``done`` is the phase after success, or None if the handler sets it; ``failed`` the one after
    an error.
    """

    handle: Callable[[Conversation, Any], Iterator[bytes]]
    done: ProtocolPhase | None
    failed: ProtocolPhase
    ready: bool = False


def _by_executor(
    answer: Callable[[Executor, Any], Iterator[bytes]],
) -> Callable[[Conversation, m.Message], Iterator[bytes]]:
    def handle(conversation: Conversation, message: m.Message) -> Iterator[bytes]:
        return answer(conversation.executor, message)

    return handle


_R, _S, _C = ProtocolPhase.READY, ProtocolPhase.SKIPPING, ProtocolPhase.CLOSED

_IGNORED: Final = _Transition(Conversation._nothing, _S, _S)
_END: Final = _Transition(Conversation._nothing, _C, _C)

_WHEN_READY: Final[dict[type[m.Message], _Transition]] = {
    m.Query: _Transition(_by_executor(simple.query), _R, _R, ready=True),
    m.FunctionCall: _Transition(Conversation._call_function, _R, _R, ready=True),
    m.Parse: _Transition(_by_executor(extended.parse), _R, _S),
    m.Bind: _Transition(_by_executor(extended.bind), _R, _S),
    m.Describe: _Transition(_by_executor(extended.describe), _R, _S),
    m.Execute: _Transition(_by_executor(extended.execute), _R, _S),
    m.Close: _Transition(_by_executor(extended.close), _R, _S),
    m.Flush: _Transition(Conversation._nothing, _R, _R),
    m.CopyMessage: _Transition(Conversation._nothing, _R, _R),
    m.Sync: _Transition(Conversation._nothing, _R, _R, ready=True),
    m.Terminate: _END,
}

_TABLE: Final[dict[ProtocolPhase, dict[type[m.Message], _Transition]]] = {
    ProtocolPhase.STARTING: {
        m.SSLRequest: _Transition(Conversation._encrypt, ProtocolPhase.STARTING, _C),
        m.GSSENCRequest: _Transition(Conversation._encrypt, ProtocolPhase.STARTING, _C),
        m.CancelRequest: _Transition(Conversation._cancel, _C, _C),
        m.Startup: _Transition(Conversation._start, None, _C, ready=True),
    },
    ProtocolPhase.CHALLENGED: {
        m.Credentials: _Transition(Conversation._begin_proof, ProtocolPhase.PROVING, _C),
        m.Terminate: _END,
    },
    ProtocolPhase.PROVING: {
        m.Credentials: _Transition(Conversation._finish_proof, _R, _C, ready=True),
        m.Terminate: _END,
    },
    ProtocolPhase.READY: _WHEN_READY,
    ProtocolPhase.SKIPPING: dict.fromkeys(_WHEN_READY, _IGNORED)
    | {m.Sync: _WHEN_READY[m.Sync], m.Terminate: _END},
    ProtocolPhase.CLOSED: {},
}
