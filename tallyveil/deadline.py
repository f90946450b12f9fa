"""One deadline per statement: how long it may take, and whether somebody has cancelled it.

Whoever executes a statement enters its `Deadline`; all that runs for it in this thread, in whatever
room, calls `check` where it is safe to stop: between two pieces of work of at most some hundredths
of a second, and before anything is charged. Time and cancels are looked at in no other way.

What has been charged is drawn and recorded inside `unlimited`, so that nothing is paid for in vain.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Protocol

from tallyveil.errors import QueryCanceled, StatementError, StatementTooComplex

__all__ = ["Deadline", "canceled", "check", "current", "held", "remaining", "unlimited"]

# How long a thread waits for a lock before it looks whether it is to stop.
_PAUSE: Final = 0.05


class Lock(Protocol):
    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...

    def release(self) -> None: ...


def _never() -> bool:
    return False


class Deadline:
    """The end of a statement's time: after the gate's ``limit`` or the session's own ``timeout``,
    whichever is less, both in seconds from now.

    ``cancelled`` is asked by `check`, in the thread of the statement.
    """

    def __init__(
        self,
        limit: float = math.inf,
        timeout: float = math.inf,
        cancelled: Callable[[], bool] = _never,
    ) -> None:
        self.end: Final = time.monotonic() + min(limit, timeout)
        self._by_session: Final = timeout < limit
        self._cancelled = cancelled
        self._interrupted = False

    def cancel(self) -> None:
        """From any thread: the next `check` raises QueryCanceled."""
        self._interrupted = True

    def check(self) -> None:
        """Raises QueryCanceled after a cancel or the session's timeout, and StatementTooComplex
        after the gate's limit.
        """
        if self._interrupted or self._cancelled():
            raise canceled()
        if not time.monotonic() < self.end:
            raise self._late()

    def remaining(self) -> float:
        """Seconds; negative once it is over."""
        return self.end - time.monotonic()

    @contextmanager
    def entered(self) -> Iterator[Deadline]:
        """Inside, this thread works for the statement, and `check` looks at this deadline."""
        token = _current.set(self)
        try:
            yield self
        finally:
            _current.reset(token)

    def _late(self) -> StatementError:
        if self._by_session:
            return QueryCanceled(
                "canceling statement due to statement timeout",
                hint="SET statement_timeout = 0 for no limit but the server's.",
            )
        return StatementTooComplex(
            "planning or evaluating the statement took longer than the time limit",
            hint="Mention fewer attributes, simplify the expressions, or ask in several"
            " statements. What has been paid for is remembered.",
        )


def canceled() -> QueryCanceled:
    return QueryCanceled("canceling statement due to user request")


_ENDLESS: Final = Deadline()
_current: Final[ContextVar[Deadline]] = ContextVar("deadline", default=_ENDLESS)


def current() -> Deadline | None:
    """The deadline of the statement that this thread works for."""
    found = _current.get()
    return None if found is _ENDLESS else found


def check() -> None:
    """Raises what `Deadline.check` raises; nothing where this thread works for no statement."""
    _current.get().check()


def remaining() -> float:
    """Seconds until the deadline of the statement this thread works for; infinite without one."""
    return _current.get().remaining()


@contextmanager
def unlimited() -> Iterator[None]:
    """Inside, nothing is stopped: for what has been paid for."""
    token = _current.set(_ENDLESS)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def held(lock: Lock) -> Iterator[None]:
    """The lock, held inside; who waits for it can be stopped. Raises what `check` raises."""
    while not lock.acquire(timeout=_PAUSE):
        check()
    try:
        yield
    finally:
        lock.release()
