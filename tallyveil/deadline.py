"""One deadline per statement: how long it may take, and whether it was cancelled.

The thread that executes a statement enters its `Deadline`. All code that it runs for the statement,
in any room, calls `check` where it is safe to stop: between two pieces of work of at most some
hundredths of a second, and before anything is charged. Nothing else tests for time or cancels.

Charged answers are drawn and recorded inside `unlimited`, so that no charge is wasted.

Where a statement can be stopped it can also wait for others: `check` waits for the turn that
`taking` gave the thread, if any. So `check` must not be called under a lock.
Time spent waiting for a turn does not count against the gate's limit, only against the session's.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from typing import Final, Protocol, TypeVar

from tallyveil.errors import QueryCanceled, StatementError, StatementTooComplex

__all__ = [
    "Deadline",
    "Phase",
    "canceled",
    "check",
    "current",
    "distinct",
    "doing",
    "portions",
    "remaining",
    "stoppable",
    "taking",
    "uncounted",
    "unlimited",
]

T = TypeVar("T")
H = TypeVar("H", bound=Hashable)

PORTION: Final = 1_000
"""The number of values that C handles in a fifth of a millisecond, while no other thread runs."""


_LOAD: Final = (
    "The limit is elapsed time: if other statements used the processor meanwhile, ask again."
)


class Phase(Enum):
    """A phase of a statement: its name, and the hint if it takes too long."""

    PLANNING = (
        "planning or evaluating the statement",
        "Mention fewer attributes, simplify the expressions, or ask in several statements.",
    )
    ANSWERING = (
        "deciding how to answer the statement",
        "Ask for fewer groups or aggregates in one statement. What has been paid for is"
        " remembered.",
    )
    OTHERS = (
        "waiting for another statement that buys the same counts",
        "Ask again: what it has bought is answered from history, free.",
    )
    LEDGER = (
        "waiting for the ledger",
        "Another statement or another program has locked the ledger's file. Ask again, and tell the"
        " custodian if that goes on.",
    )
    ROWS = (
        "the query over the noisy rows",
        "Simplify what is done with the aggregates: joins, windows and sorting. What has been"
        " paid for is remembered, so that another query over them is free.",
    )
    CATALOGS = (
        "the question about the catalogs",
        "Name the tables and columns that it is about, and join fewer catalogs in one statement.",
    )


class Turn(Protocol):
    def waits(self) -> bool:
        """Return False if the thread may go on. Otherwise wait a little and return True: the
        caller must then ask again."""


def _never() -> bool:
    return False


class Deadline:
    """When a statement must end: after the gate's ``limit`` or the session's own ``timeout``,
    whichever is less, both in seconds from now.

    `check` and `over` call ``cancelled``; `over` may do so from any thread.
    """

    def __init__(
        self,
        limit: float = math.inf,
        timeout: float = math.inf,
        cancelled: Callable[[], bool] = _never,
    ) -> None:
        now = time.monotonic()
        self._limit, self._timeout = now + limit, now + timeout
        self._cancelled = cancelled
        self._interrupted = False
        self.phase = Phase.PLANNING

    @property
    def end(self) -> float:
        """On the monotonic clock."""
        return min(self._limit, self._timeout)

    def postpone(self, seconds: float) -> None:
        """Extend the gate's limit by the time spent waiting for a turn."""
        self._limit += seconds

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """The time spent inside does not count against the gate's limit."""
        before, start = self._limit, time.monotonic()
        self._limit = math.inf
        try:
            yield
        finally:
            self._limit = before + time.monotonic() - start

    def cancel(self) -> None:
        """Make the next `check` raise QueryCanceled. Any thread may call this."""
        self._interrupted = True

    def check(self) -> None:
        """Raise QueryCanceled after a cancel or the session's timeout, and StatementTooComplex
        after the gate's limit.
        """
        if self._interrupted or self._cancelled():
            raise canceled()
        if not time.monotonic() < self.end:
            raise self._late()

    def over(self) -> bool:
        """Whether `check` would raise."""
        return self._interrupted or self._cancelled() or not time.monotonic() < self.end

    def remaining(self) -> float:
        """Seconds until the end; negative after it."""
        return self.end - time.monotonic()

    @contextmanager
    def entered(self) -> Iterator[Deadline]:
        """Inside, this thread works for the statement, and `check` tests this deadline."""
        token = _current.set(self)
        try:
            yield self
        finally:
            _current.reset(token)

    def _late(self) -> StatementError:
        if self._timeout < self._limit:
            return QueryCanceled(
                "canceling statement due to statement timeout",
                hint="SET statement_timeout = 0 leaves only the server's own limit.",
            )
        what, hint = self.phase.value
        return StatementTooComplex(
            f"{what} took longer than the time limit", hint=f"{hint} {_LOAD}"
        )


def canceled() -> QueryCanceled:
    return QueryCanceled("canceling statement due to user request")


_ENDLESS: Final = Deadline()
_current: Final[ContextVar[Deadline]] = ContextVar("deadline", default=_ENDLESS)


def current() -> Deadline | None:
    """The deadline of the statement that this thread works for, or None without one."""
    found = _current.get()
    return None if found is _ENDLESS else found


@contextmanager
def doing(phase: Phase) -> Iterator[None]:
    """Inside, the statement that this thread works for is in this phase."""
    found = _current.get()
    before, found.phase = found.phase, phase
    try:
        yield
    finally:
        found.phase = before


_turn: Final[ContextVar[Turn | None]] = ContextVar("turn", default=None)


def check() -> None:
    """Wait while it is the turn of others. Raises what `Deadline.check` raises. A thread that works
    for no statement is never stopped.
    """
    found, turn = _current.get(), _turn.get()
    found.check()
    if turn is None:
        return
    start = time.monotonic()
    while turn.waits():
        now = time.monotonic()
        found.postpone(now - start)
        start = now
        found.check()


@contextmanager
def taking(turn: Turn | None) -> Iterator[None]:
    """Inside, `check` waits for ``turn``; with None it does not wait."""
    token = _turn.set(turn)
    try:
        yield
    finally:
        _turn.reset(token)


def portions(values: Sequence[T]) -> Iterable[Sequence[T]]:
    """The values in slices. A call that handles all values at once, such as `set` or `dict.update`,
    would keep every other thread of the process waiting. Between two slices the others can run,
    also if this thread holds a lock.
    """
    if len(values) <= PORTION:
        return (values,) if len(values) else ()
    return (values[start : start + PORTION] for start in range(0, len(values), PORTION))


def distinct(values: Sequence[H]) -> set[H]:
    """The set of the values. It is made in `portions`."""
    found = set[H]()
    for some in portions(values):
        found.update(some)
    return found


def stoppable(values: Iterable[T], portion: int = PORTION) -> Iterator[T]:
    """Yield the values, calling `check` before each ``portion`` of them, so not under a lock."""
    for number, value in enumerate(values):
        if not number % portion:
            check()
        yield value


def remaining() -> float:
    """Seconds until this thread's statement must end; infinite without a statement."""
    return _current.get().remaining()


@contextmanager
def uncounted() -> Iterator[None]:
    """Inside, only a cancel or the session's timeout stops the thread: for answers that are charged
    and recorded, whose estimates take bounded work."""
    with _current.get().uncounted():
        yield


@contextmanager
def unlimited() -> Iterator[None]:
    """Inside, `check` neither stops the thread nor waits for a turn: for work already charged."""
    with taking(None), _ENDLESS.entered():
        yield
