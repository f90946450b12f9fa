"""The threads that statements run on, shared fairly between analysts.

Each analyst has a queue. A free thread takes from the queues in turn. An analyst has at most a
share of the threads. An analyst without any gets one at once, if necessary beyond their number: so
an analyst with many connections keeps no other analyst waiting. `turns` decides which threads
compute.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Final, TypeAlias

from tallyveil import deadline
from tallyveil.proxy.turns import Turns

__all__ = ["Scheduler"]

Work: TypeAlias = Callable[[], None]

IDLE: Final = 5.0
"""Seconds after which a thread without work ends."""

_log = logging.getLogger(__name__)


class Scheduler:
    """At most ``threads`` threads, beyond which each analyst without a thread gets one.

    An analyst has at most ``share`` at a time. ``turns`` decides which of them compute.
    """

    def __init__(self, threads: int, share: int, turns: Turns) -> None:
        self._threads: Final = threads
        self._share: Final = share
        self._turns: Final = turns
        self._ready = threading.Condition()
        self._queues: OrderedDict[str, OrderedDict[Hashable, Work]] = OrderedDict()
        self._assigned: deque[tuple[str, Hashable, Work]] = deque()
        self._running: Counter[str] = Counter()
        self._idle = 0
        self._stopped = False

    @property
    def busy(self) -> bool:
        """Whether anything runs or is about to."""
        return bool(self._running)

    def submit(self, analyst: str, owner: Hashable, work: Work) -> None:
        """Queue ``work`` for an analyst. An ``owner`` has at most one piece of work queued."""
        with self._ready:
            self._queues.setdefault(analyst, OrderedDict())[owner] = work
            self._deal()

    def hurry(self, owner: Hashable) -> None:
        """Run the work queued for ``owner`` at once, before all other work. It has become short,
        such as reporting that it was cancelled.
        """
        with self._ready:
            for analyst, queue in self._queues.items():
                if owner in queue:
                    self._assign(analyst, owner, self._remove(analyst, owner))
                    return

    def heard(self, owner: Hashable) -> None:
        """``owner`` has sent a message."""
        self._turns.heard(owner)

    def stop(self) -> None:
        """Let the threads end once no work is left."""
        with self._ready:
            self._stopped = True
            self._ready.notify_all()

    def join(self, seconds: float) -> None:
        """After `stop`: wait until nothing runs, at most for ``seconds``."""
        with self._ready:
            self._ready.wait_for(lambda: not self._running, seconds)

    def _deal(self) -> None:
        """Assign to threads all work that may run now."""
        while (analyst := self._next()) is not None:
            owner = next(iter(self._queues[analyst]))
            self._assign(analyst, owner, self._remove(analyst, owner))

    def _next(self) -> str | None:
        """The next analyst whose work may run now, or None."""
        free = self._running.total() < self._threads
        for analyst in self._queues:
            running = self._running[analyst]
            if not running or (free and running < self._share):
                return analyst
        return None

    def _remove(self, analyst: str, owner: Hashable) -> Work:
        """Remove and return the owner's work; the analyst's queue moves behind all others."""
        queue = self._queues.pop(analyst)
        work = queue.pop(owner)
        if queue:
            self._queues[analyst] = queue
        return work

    def _assign(self, analyst: str, owner: Hashable, work: Work) -> None:
        self._running[analyst] += 1
        self._assigned.append((analyst, owner, work))
        if self._idle >= len(self._assigned):
            self._ready.notify()
        else:
            threading.Thread(target=self._run, name="tallyveil-worker").start()

    def _run(self) -> None:
        """The loop of a worker thread."""
        while (found := self._await()) is not None:
            analyst, owner, work = found
            turn = self._turns.begin(analyst, owner)
            try:
                with deadline.taking(turn):
                    work()
            except Exception as error:  # noqa: BLE001
                # A defect of ours. The exception's arguments may hold anything, so only its type is
                # logged.
                _log.error("internal error: %s in a worker", type(error).__name__)
            finally:
                turn.end()
                del found, owner, work
                self._done(analyst)

    def _await(self) -> tuple[str, Hashable, Work] | None:
        """The next piece of work, or None if this thread is to end."""
        with self._ready:
            self._idle += 1
            try:
                self._ready.wait_for(lambda: self._assigned or self._stopped, IDLE)
                return self._assigned.popleft() if self._assigned else None
            finally:
                self._idle -= 1

    def _done(self, analyst: str) -> None:
        with self._ready:
            self._running[analyst] -= 1
            if not self._running[analyst]:
                del self._running[analyst]
            self._deal()
            if self._stopped:
                self._ready.notify_all()
