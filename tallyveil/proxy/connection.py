"""One socket: bytes from the event loop to a `Conversation`, and its answers back.

The event loop reads, cuts messages and writes, and answers what needs no part of the gate. From
there on a worker thread pulls the answers, a buffer's worth at a time, and hands each back to the
loop. While a worker is busy, later messages stay in
the reader up to ``read_ahead`` and then in the client; while the client does not read, no worker
is occupied by it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, Protocol, cast

from tallyveil.errors import TallyveilError
from tallyveil.events import report
from tallyveil.proxy.backend import BLOCKING
from tallyveil.proxy.codec import Reader
from tallyveil.proxy.conversation import Conversation, Host, Phase
from tallyveil.proxy.errors import AdminShutdown, ProtocolViolation
from tallyveil.proxy.interruption import Interruption
from tallyveil.proxy.limits import Limits
from tallyveil.proxy.messages import Message
from tallyveil.proxy.scheduler import Scheduler

__all__ = ["Connection", "Owner"]

_AT_ONCE: Final = 64
"""Answers in a row that the event loop gives, which is kept from other connections meanwhile."""


class Owner(Host, Protocol):
    """What a connection needs of its server. What it reports is reported on the event loop."""

    limits: Limits
    workers: Scheduler

    def opened(self, connection: Connection, address: str) -> bool:
        """A socket from ``address``. False if there is no place for one more."""
        ...

    def entered(self, connection: Connection) -> None:
        """Its client has logged in."""
        ...

    def lost(self, connection: Connection) -> None: ...


class Connection(asyncio.Protocol):
    """Lives on the event loop; only `_work` and `_close_session` run on a worker."""

    def __init__(self, owner: Owner, loop: asyncio.AbstractEventLoop) -> None:
        self.interruption = Interruption()
        self.closed: asyncio.Future[None] = loop.create_future()
        self._owner = owner
        self._loop = loop
        self._reader = Reader()
        self._conversation = Conversation(owner, self.interruption)
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._answers: Iterator[bytes] | None = None
        self._working = False
        self._may_write = True
        self._leaving = False
        self._entered = False

    # What the event loop reports

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)
        self._conversation.address = address = _address(transport)
        if not self._owner.opened(self, address):
            transport.abort()
            return
        raw = transport.get_extra_info("socket")
        if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        transport.set_write_buffer_limits(high=self._owner.limits.write_ahead)
        self._timer = self._loop.call_later(self._owner.limits.startup_timeout, transport.abort)

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        self._advance()

    def eof_received(self) -> bool:
        # No client of PostgreSQL half-closes; who stops sending has left.
        return False

    def pause_writing(self) -> None:
        self._may_write = False

    def resume_writing(self) -> None:
        self._may_write = True
        self._advance()

    def connection_lost(self, exc: Exception | None) -> None:
        self._abandon()
        self._stop_timer()
        self._transport = None
        if self._entered:
            self._report("disconnected")
        if not self._working:
            self._retire()

    @property
    def awaited(self) -> bool:
        """Whether its client has still to send something before anything can happen."""
        return not self._working

    def drop(self) -> None:
        """Close it at once, without a word."""
        if self._transport is not None:
            self._transport.abort()

    def shut_down(self) -> None:
        """The server is closing: stop what runs, and say so."""
        self._leaving = True
        self._abandon()
        if not self._working:
            self._leave()

    def _abandon(self) -> None:
        self.interruption.abandon()
        self._owner.workers.hurry(self.interruption)

    def _report(self, event: str) -> None:
        who = self._conversation
        report(event, user=who.user, address=who.address, connection=who.pid)

    # What happens next

    def _advance(self) -> None:
        """Go on with the answer at hand, or with the messages that have come since."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._working or not self._may_write:
            if len(self._reader) > self._owner.limits.read_ahead:
                transport.pause_reading()
            return
        if self._answers is None and not self._take_messages():
            if not transport.is_closing():
                transport.resume_reading()
            return
        if self._answers is not None and not self._answer_at_once(self._answers):
            self.interruption.expect()
            self._working = True
            self._submit(partial(self._work, self._answers))

    def _answer_at_once(self, answers: Iterator[bytes]) -> bool:
        """Write what needs no worker; False if there is more to answer."""
        parts: list[bytes] = []
        part: bytes | None = None
        for part in itertools.islice(answers, _AT_ONCE):
            if part is BLOCKING:
                break
            parts.append(part)
        more = part is BLOCKING or len(parts) == _AT_ONCE
        self._write(b"".join(parts))
        if not more:
            self._answers = None
            self._settle()
        return not more

    def _take_messages(self) -> bool:
        """Start answering what has come; False if that is no whole message yet."""
        messages = self._messages()
        if not messages:
            return False
        self._answers = self._conversation.respond(messages)
        return True

    def _messages(self) -> list[Message | TallyveilError]:
        messages: list[Message | TallyveilError] = []
        try:
            while (message := self._reader.next()) is not None:
                messages.append(message)
        except ProtocolViolation as error:
            messages.append(error)
        return messages

    def _submit(self, work: Callable[[], None]) -> None:
        self._owner.workers.submit(self._conversation.user, self.interruption, work)

    def _work(self, answers: Iterator[bytes]) -> None:
        """On a worker: the next part of the answers, joined into one write."""
        parts: list[bytes] = []
        size, more, sound = 0, True, False
        try:
            while more and size < self._owner.limits.write_ahead:
                part = next(answers, None)
                more = part is not None
                if part:
                    parts.append(part)
                    size += len(part)
            sound = True
        finally:
            self._tell(self._worked, b"".join(parts), more, sound)

    def _tell(self, what: Callable[..., None], *arguments: object) -> None:
        """On a worker: have the event loop do it."""
        with contextlib.suppress(RuntimeError):  # the server, and its loop, have ended meanwhile
            self._loop.call_soon_threadsafe(what, *arguments)

    def _worked(self, data: bytes, more: bool, sound: bool) -> None:
        self._working = False
        if self._transport is None:
            self._retire()
            return
        if not sound:
            self._transport.abort()
            return
        self._write(data)
        if not more:
            self._answers = None
            self.interruption.settle()
        if self._leaving:
            self._leave()
            return
        self._settle()
        self._advance()

    def _settle(self) -> None:
        """Follow the conversation: to larger messages once authenticated, or to the end."""
        if self._conversation.phase is Phase.CLOSED:
            self._close()
        elif self._conversation.authenticated and self._timer is not None:
            self._stop_timer()
            self._owner.entered(self)
            self._entered = True
            self._report("connected")
            self._reader.message_limit = self._owner.limits.max_message

    # How it ends

    def _write(self, data: bytes) -> None:
        if data and self._transport is not None:
            self._transport.write(data)

    def _leave(self) -> None:
        farewell = AdminShutdown("terminating connection due to administrator command")
        self._write(self._conversation.farewell(farewell))
        self._close()

    def _close(self) -> None:
        """Close once the rest is written; who does not read it is cut off."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        transport.close()
        self._stop_timer()
        self._timer = self._loop.call_later(self._owner.limits.close_timeout, transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _retire(self) -> None:
        """Nothing runs for this connection any more: give its session and its place back."""
        self._answers = None
        self._owner.lost(self)
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
            self._tell(self._retired)

    def _retired(self) -> None:
        if not self.closed.done():
            self.closed.set_result(None)


def _address(transport: asyncio.Transport) -> str:
    """Of the other end, without its port; empty where it has none."""
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) and peer else ""
