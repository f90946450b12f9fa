"""One socket: bytes from the event loop to a `Conversation`, and its answers back.

The event loop reads, splits the bytes into messages, writes, and answers what does not need the
gate. A worker thread computes all other answers, a buffer's worth at a time, and passes each
buffer back to the loop. While a worker is busy, later messages stay in the reader up to
``read_ahead`` bytes and then in the client. While a client does not read, it occupies no worker.
The `ClientSocket` handles the socket and TLS.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, cast

from tallyveil.events import report
from tallyveil.proxy.admission.tls import HANDSHAKE
from tallyveil.proxy.client_socket import ClientSocket
from tallyveil.proxy.conversation import Conversation, ProtocolPhase
from tallyveil.proxy.interruption import Interruption
from tallyveil.proxy.protocol.backend import BLOCKING
from tallyveil.proxy.protocol.message_reader import MessageReader
from tallyveil.proxy.protocol_errors import ConnectionFailure, ConnectionRefused, IdleTimeout
from tallyveil.proxy.server_state import ServerState

__all__ = ["ClientConnection"]

_AT_ONCE: Final = 64
"""The most answers in a row that the event loop computes, since other connections wait for it."""

_IDLE: Final = IdleTimeout("terminating connection due to idle-session timeout")
_ENDED: Final = ConnectionFailure("the client closed its stream, and the answers took too long")


class ClientConnection(asyncio.Protocol):
    """One client's connection. It runs on the event loop; only `_work` and `_close_session` run on
    a worker. It is ``working`` while a worker answers its messages; otherwise it can only proceed
    once its client sends something."""

    def __init__(self, server: ServerState, loop: asyncio.AbstractEventLoop) -> None:
        self.interruption = Interruption()
        self.closed: asyncio.Future[None] = loop.create_future()
        self._server = server
        self._loop = loop
        self._reader = MessageReader()
        self._conversation = Conversation(server, self.interruption)
        self._timer: asyncio.TimerHandle | None = None
        self._answers: Iterator[bytes] | None = None
        self.working = False
        self._may_write = True
        self._held: bytes | None = None
        self._leaving: ConnectionRefused | None = None
        self._ended = False
        self._entered = self._lost = False

    # What the event loop reports

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        limits = self._server.limits
        stream = cast(asyncio.Transport, transport)
        client = self._socket = ClientSocket(stream, self._loop, limits, self._reader.feed)
        self._conversation.address = client.address
        if not self._server.opened(self, client.address):
            client.transport.abort()
            return
        client.receive = self._begin
        delay = self._server.failures.delay(client.address)
        if delay > 0:
            self._held = b""
            self._loop.call_later(delay, self._read_held)
        self._timer = self._loop.call_later(limits.startup_timeout, client.transport.abort)

    def data_received(self, data: bytes) -> None:
        self._socket.received = True
        self._server.workers.heard(self.interruption)
        if self._held is not None:
            self._held += data
            self._socket.transport.pause_reading()
            return
        self._socket.receive(data)
        if self._socket.ended:
            self._end_of_stream()
        self._advance()

    def eof_received(self) -> bool:
        self._end_of_stream()
        self._advance()
        return True

    def pause_writing(self) -> None:
        self._may_write = False
        self._socket.stalled(self._give_up)

    def resume_writing(self) -> None:
        self._may_write = True
        self._socket.flowing()
        self._advance()

    def connection_lost(self, exc: Exception | None) -> None:
        self._abandon()
        self._stop_timer()
        self._socket.lost()
        self._lost = True
        if self._entered:
            self._report("disconnected")
        if not self.working:
            self._retire()

    def drop(self) -> None:
        """Close the socket at once, without a message."""
        self._socket.transport.abort()

    def look(self) -> None:
        """End the connection if it is idle. The server calls this at regular intervals."""
        busy = self.working or not (self._may_write and self._entered)
        if self._socket.idle(busy=busy):
            self._leave(_IDLE)

    def stop(self, final_error: ConnectionRefused) -> None:
        """Cancel what runs, send ``final_error``, and close."""
        self._leaving = final_error
        self._abandon()
        if not self.working:
            self._leave(final_error)

    def _end_of_stream(self) -> None:
        """The client sends no more, but may still read: answer the messages that are complete.
        It may also have vanished, so this gets only as long as reading a last answer may take."""
        if not self._ended:
            self._ended = True
            self._stop_timer()
            timeout = self._server.limits.close_timeout
            self._timer = self._loop.call_later(timeout, self.stop, _ENDED)

    def _abandon(self) -> None:
        self.interruption.abandon()
        self._server.workers.hurry(self.interruption)

    def _report(self, event: str, **fields: Any) -> None:
        who = self._conversation
        report(event, user=who.user, address=who.address, connection=who.pid, **fields)

    def _give_up(self) -> None:
        self._report("dropped", reason="the client does not read its answer")
        self.drop()

    # How it begins

    def _read_held(self) -> None:
        """The delay after wrong passwords from this address is over."""
        held, self._held = self._held, None
        if held and not self._socket.transport.is_closing():
            self.data_received(held)

    def _begin(self, data: bytes) -> None:
        """Receive the first bytes: a startup packet, or a TLS handshake."""
        self._socket.receive = self._reader.feed
        tls = self._server.tls
        if tls is not None and data[0] == HANDSHAKE:
            self._conversation.begin_tls(tls)
            self._settle_in()
        self._socket.receive(data)

    def _settle_in(self) -> None:
        """Begin TLS if the client wants it; once it is authenticated, accept larger messages."""
        channel = self._conversation.channel
        if channel is not None and not self._socket.encrypted:
            self._socket.encrypt(channel)
        if self._conversation.authenticated:
            if not self._ended:
                self._stop_timer()
            self._server.entered(self)
            self._entered = True
            self._report("connected", tls=self._socket.encrypted)
            self._reader.message_limit = self._server.limits.max_message

    # What happens next

    def _advance(self) -> None:
        """Continue the current answer, or begin to answer the messages that have arrived since."""
        transport = self._socket.transport
        while not transport.is_closing():
            if self.working or not self._may_write:
                if len(self._reader) > self._server.limits.read_ahead:
                    transport.pause_reading()
                return
            if self._answers is None and not self._take_messages():
                if self._ended:
                    self._close()
                else:
                    transport.resume_reading()
                return
            if self._answers is not None and not self._answer_at_once(self._answers):
                self.interruption.expect()
                self.working = True
                self._submit(partial(self._work, self._answers))

    def _answer_at_once(self, answers: Iterator[bytes]) -> bool:
        """Write the answers that need no worker. Returns False if more remain."""
        parts: list[bytes] = []
        part: bytes | None = None
        for part in itertools.islice(answers, _AT_ONCE):
            if part is BLOCKING:
                break
            parts.append(part)
        more = part is BLOCKING or len(parts) == _AT_ONCE
        self._write(b"".join(parts))
        if not more:
            self._answered()
            self._settle()
        return not more

    def _answered(self) -> None:
        self._answers = None
        self.interruption.settle()

    def _take_messages(self) -> bool:
        """Begin to answer the messages received. Returns False if none is complete yet."""
        messages = list(self._reader.whole())
        if messages:
            self._answers = self._conversation.respond(messages)
        return bool(messages)

    def _submit(self, work: Callable[[], None]) -> None:
        self._server.workers.submit(self._conversation.analyst, self.interruption, work)

    def _work(self, answers: Iterator[bytes]) -> None:
        """On a worker: compute the next part of the answers and have it written at once."""
        parts: list[bytes] = []
        size, more, sound = 0, True, False
        try:
            while more and size < self._server.limits.write_ahead:
                part = next(answers, None)
                more = part is not None
                if part:
                    parts.append(part)
                    size += len(part)
            sound = True
        finally:
            self._on_loop(self._worked, b"".join(parts), more, sound)

    def _on_loop(self, callback: Callable[..., None], *arguments: object) -> None:
        """On a worker: have the event loop call ``callback``."""
        with contextlib.suppress(RuntimeError):  # the server and its loop may have ended
            self._loop.call_soon_threadsafe(callback, *arguments)

    def _worked(self, data: bytes, more: bool, sound: bool) -> None:
        self.working = False
        if self._lost:
            self._retire()
            return
        if not sound:
            self.drop()
            return
        self._write(data)
        if not more:
            self._answered()
        if self._leaving is not None:
            self._leave(self._leaving)
            return
        self._settle()
        self._advance()

    def _settle(self) -> None:
        """Close if the conversation has ended; follow its login otherwise."""
        if self._conversation.phase is ProtocolPhase.CLOSED:
            self._close()
        elif not self._entered:
            self._settle_in()

    # How it ends

    def _write(self, data: bytes) -> None:
        if data:
            self._socket.write(data)

    def _leave(self, final_error: ConnectionRefused) -> None:
        self._write(self._conversation.final_error(final_error))
        self._close()

    def _close(self) -> None:
        self._socket.close()
        self._stop_timer()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _retire(self) -> None:
        """Nothing runs for this connection any more: release its session and its place."""
        self._answers = None
        self._server.lost(self, self._conversation.pid, self._conversation.login.user)
        session = self._conversation.release()
        if session is None:
            self._retired()
        else:
            self._submit(partial(self._close_session, session.close))

    def _close_session(self, close: Callable[[], None]) -> None:
        """On a worker."""
        try:
            close()
        finally:
            self._on_loop(self._retired)

    def _retired(self) -> None:
        if not self.closed.done():
            self.closed.set_result(None)
