"""Messages between a supervisor and a worker: a JSON object per line, some with an open socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeAlias

__all__ = ["LinkMessage", "WorkerLink"]

LinkMessage: TypeAlias = dict[str, Any]

_READ: Final = 1 << 16
_SOCKETS: Final = 16


class WorkerLink:
    """One end of the link. Runs on the event loop.

    It calls ``receive`` with each message and the socket that came with it, and ``lost`` once,
    when the other process has closed its end or died.
    """

    def __init__(
        self,
        end: socket.socket,
        loop: asyncio.AbstractEventLoop,
        receive: Callable[[LinkMessage, socket.socket | None], None],
        lost: Callable[[], None],
    ) -> None:
        self._end: Final = end
        self._loop: Final = loop
        self._receive: Final = receive
        self._lost: Final = lost
        self._waiting: deque[tuple[bytes, socket.socket | None]] = deque()
        self._drained: Callable[[], None] = _nothing
        self._read = b""
        self._sockets: deque[socket.socket] = deque()
        self._open = True
        end.setblocking(False)
        loop.add_reader(end, self._readable)

    @property
    def full(self) -> bool:
        """Whether messages wait because the other process does not read fast enough."""
        return bool(self._waiting)

    def when_drained(self, call: Callable[[], None]) -> None:
        """Call ``call`` whenever the link stops being `full`."""
        self._drained = call

    def send(self, message: LinkMessage, passed: socket.socket | None = None) -> None:
        """Send a message, and optionally a socket, which is then closed here. If the link is lost,
        only closes the socket."""
        if not self._open:
            _close(passed)
            return
        line = json.dumps({**message, "socket": passed is not None}).encode() + b"\n"
        self._waiting.append((line, passed))
        if len(self._waiting) == 1:
            self._write()

    def close(self) -> None:
        if not self._open:
            return
        self._open = False
        self._loop.remove_reader(self._end)
        self._loop.remove_writer(self._end)
        with contextlib.suppress(OSError):  # the other process has closed it
            self._end.shutdown(socket.SHUT_RDWR)
        self._end.close()
        for _, passed in self._waiting:
            _close(passed)
        for unread in self._sockets:
            unread.close()

    def _write(self) -> None:
        while self._waiting:
            line, passed = self._waiting[0]
            try:
                files = [] if passed is None else [passed.fileno()]
                sent = socket.send_fds(self._end, [line], files)
            except (BlockingIOError, InterruptedError):
                self._loop.add_writer(self._end, self._writable)
                return
            except OSError:
                self._fail()
                return
            _close(passed)  # the other process has it
            if sent < len(line):
                self._waiting[0] = line[sent:], None
            else:
                self._waiting.popleft()

    def _writable(self) -> None:
        self._loop.remove_writer(self._end)
        self._write()
        if self._open and not self._waiting:
            self._drained()

    def read_rest(self) -> None:
        """Receive the remaining messages of the other process, which has ended."""
        while self._open and self._readable():
            pass

    def _readable(self) -> bool:
        """Receive what has arrived. Returns False if that is nothing."""
        try:
            data, files, _, _ = socket.recv_fds(self._end, _READ, _SOCKETS)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            data, files = b"", []
        self._sockets.extend(socket.socket(fileno=number) for number in files)
        if not data:
            self._fail()
            return False
        *lines, self._read = (self._read + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            with_socket = message.pop("socket")
            self._receive(message, self._sockets.popleft() if with_socket else None)
        return True

    def _fail(self) -> None:
        if self._open:
            self.close()
            self._lost()


def _close(passed: socket.socket | None) -> None:
    if passed is not None:
        passed.close()


def _nothing() -> None:
    pass
