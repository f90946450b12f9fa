"""Which running statements may compute: light ones at once, heavy ones in turn.

Python runs one thread at a time, so statements that all compute at once slow each other down, and
a short one waits for all the others at each of its steps. Therefore

- an analyst who has used little processor time lately is light, and never waits;
- the others are heavy: only as many compute as there are places. After a slice of time a heavy
  statement gives its place to the waiting analyst who has used least;
- while a light statement runs, the heavy ones pause, but never for longer than twice the time
  they have worked since the last pause;
- while other connections send messages, a long statement rests for a moment every now and then.
  NumPy releases Python's lock in each larger operation and takes it back before a waiting thread
  has woken, and since the lock was released, that thread waits for another switch interval.

A statement waits in `Turn.waits`, which `deadline.check` calls: where it can be stopped, it can
wait.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from typing import Final

from tallyveil.locks import check_none_held

__all__ = ["Turn", "Turns"]

LIGHT: Final = 0.4
"""Seconds of processor time that an analyst may have used lately and still be light."""

HALF_LIFE: Final = 1.0
"""The half-life of recorded processor time, in seconds."""

LONG: Final = 0.005
"""Seconds of processor time after which one statement is long, however little its analyst has used
before. `Turns` notices it at the next check of time; what has been charged is not checked, so a
statement must become long before its charge."""

LASTING: Final = 0.05
"""Seconds of processor time after which a statement may have made many objects."""

SLICE: Final = 0.1
LOOK: Final = 0.01
"""Seconds: how long a statement keeps its place while others wait; between two checks of time."""

WORK: Final = 0.001
REST: Final = 0.0001
"""Seconds: how long a long statement works between two rests or pauses, and how long it rests."""

HEARD: Final = 1.0
"""Seconds for which a connection that has sent a message counts as one that sends messages."""

PAUSE: Final = 0.05
"""Seconds between two checks of a waiting statement for a cancel."""

PATIENCE: Final = 10.0
"""Seconds after which a statement goes on without a free place: the statements that have one may
need something that this one holds."""


class Turns:
    """The places for heavy statements, and the processor time each analyst has used lately."""

    def __init__(
        self,
        places: int,
        ended: Callable[[], None] = lambda: None,
        beside: Callable[[bool], None] = lambda heavy: None,
        lasts: Callable[[], None] = lambda: None,
    ) -> None:
        """``ended`` is called after each heavy statement. ``beside`` is called with True when a
        statement becomes long or a heavy one begins and there was none, and with False when the
        last of them has ended. ``lasts`` is called when a statement has lasted for some time."""
        self._ended, self._beside, self._lasts = ended, beside, lasts
        self._heavy = self._long = self._lasting = 0
        self._free = places
        self._lock = threading.Lock()
        self._quiet = threading.Condition(self._lock)
        self._light = 0
        self._waiting: dict[str, deque[Turn]] = {}
        self._used: dict[str, tuple[float, float]] = {}
        # Who sent a message last, and who did so last of all others; and when.
        self._heard: tuple[Hashable, float] = (None, -math.inf)
        self._heard_before: tuple[Hashable, float] = self._heard

    @property
    def busy(self) -> bool:
        """Whether a statement is running that is heavy, or has lasted for some time."""
        return self._heavy > 0 or self._lasting > 0

    def begin(self, analyst: str, owner: Hashable = None) -> Turn:
        """Begin a turn: the calling thread works for ``analyst``, on the connection ``owner``, from
        now on."""
        return Turn(self, analyst, owner)

    def heard(self, owner: Hashable) -> None:
        """The connection has sent a message. For the event loop alone."""
        last = self._heard
        if last[0] is not owner:
            self._heard_before = last
        self._heard = owner, time.monotonic()

    def _others_send(self, owner: Hashable, now: float) -> bool:
        """Whether other connections have sent messages lately."""
        last, before = self._heard, self._heard_before
        when = before[1] if last[0] is owner else last[1]
        return now - when < HEARD

    def _count(self, *, light: int = 0, heavy: int = 0, long: int = 0, lasting: int = 0) -> None:
        with self._lock:
            self._lasting += lasting
            self._light += light
            self._heavy += heavy
            before, self._long = self._long, self._long + long
            if bool(self._long) is not bool(before):
                self._beside(bool(self._long))
            if not self._light:
                self._quiet.notify_all()

    def _uses(self, analyst: str, seconds: float) -> float:
        """Add to the processor time an analyst has used lately, and return the sum in seconds."""
        now = time.monotonic()
        with self._lock:
            used = self._lately(analyst, now) + seconds
            self._used[analyst] = used, now
            if len(self._used) > 1_000:
                self._used = {a: u for a, u in self._used.items() if now - u[1] < 20 * HALF_LIFE}
        return used

    def _lately(self, analyst: str, now: float) -> float:
        used, when = self._used.get(analyst, (0.0, now))
        return used * math.exp2((when - now) / HALF_LIFE)

    def _ask(self, turn: Turn) -> bool:
        """Take a free place and return True, or queue for one and return False."""
        with self._lock:
            if self._free > 0:
                self._free -= 1
                return True
            turn.granted.clear()
            self._waiting.setdefault(turn.analyst, deque()).append(turn)
        return False

    def _withdraw(self, turn: Turn, *, taking: bool) -> None:
        """Leave the queue. With ``taking``, take a place nevertheless, beyond their number."""
        with self._lock:
            if turn.granted.is_set():
                if not taking:
                    self._free += 1
                    self._assign_free()
                return
            queue = self._waiting[turn.analyst]
            queue.remove(turn)
            if not queue:
                del self._waiting[turn.analyst]
            self._free -= taking

    def _give_back(self) -> None:
        with self._lock:
            self._free += 1
            self._assign_free()

    def _assign_free(self) -> None:
        """Give a free place to the waiting analyst who has used least."""
        if self._free <= 0 or not self._waiting:
            return
        self._free -= 1
        now = time.monotonic()
        analyst = min(self._waiting, key=lambda a: self._lately(a, now))
        queue = self._waiting[analyst]
        queue.popleft().granted.set()
        if not queue:
            del self._waiting[analyst]

    def _rest(self, seconds: float) -> None:
        """Pause until no light statement runs, at most for ``seconds``."""
        with self._lock:
            if self._light:
                self._quiet.wait(seconds)


class Turn:
    """One thread's work for one analyst. Only that thread uses it, except for ``granted``."""

    def __init__(self, turns: Turns, analyst: str, owner: Hashable) -> None:
        self.analyst: Final = analyst
        self._owner: Final = owner
        self.granted: Final = threading.Event()
        self._turns = turns
        self._placed = False
        self._queued_at: float | None = None
        self._checked_at = self._paused_at = self._placed_at = time.monotonic()
        self._began_at = self._cpu = time.thread_time()
        self._heavy = self._long = turns._uses(analyst, 0.0) > LIGHT
        self._lasting = False
        self._rested_at = self._checked_at
        turns._count(light=not self._heavy, heavy=self._heavy, long=self._long)

    def waits(self) -> bool:
        """Return False if the thread may go on. Otherwise wait a little and return True: it is the
        turn of others, and the caller must ask again.
        """
        check_none_held()
        if self._queued_at is not None:
            return self._keep_waiting(self._queued_at)
        now = time.monotonic()
        if self._long and now - self._rested_at > WORK:
            if self._turns._others_send(self._owner, now):
                time.sleep(REST)
                now = time.monotonic()
            self._rested_at = now
        if self._placed and self._turns._light and now - self._paused_at > WORK:
            self._turns._rest(2 * (now - self._paused_at))
            self._paused_at = time.monotonic()
        if now - self._checked_at < LOOK and (not self._heavy or self._placed):
            return False
        self._checked_at = now
        self._account()
        if not self._heavy:
            return False
        if not self._placed:
            return self._request_place(now)
        if now - self._placed_at > SLICE and self._turns._waiting:
            self._placed = False
            self._turns._give_back()
            return self._request_place(now)
        self._paused_at = now
        return False

    def end(self) -> None:
        """End the turn: the thread has finished its work for the analyst."""
        self._account()
        if self._queued_at is not None:
            self._turns._withdraw(self, taking=False)
        elif self._placed:
            self._turns._give_back()
        self._turns._count(
            light=-(not self._heavy),
            heavy=-self._heavy,
            long=-self._long,
            lasting=-self._lasting,
        )
        if self._heavy:
            self._turns._ended()

    def _account(self) -> None:
        """Record the processor time used. The turn becomes long, and heavy, if that is too much."""
        cpu = time.thread_time()
        used = self._turns._uses(self.analyst, cpu - self._cpu)
        self._cpu = cpu
        heavy = self._heavy or used > LIGHT
        long = self._long or heavy or cpu - self._began_at > LONG
        if not self._lasting and cpu - self._began_at > LASTING:
            self._lasting = True
            self._turns._count(lasting=1)
            self._turns._lasts()
        became_heavy, became_long = heavy - self._heavy, long - self._long
        if became_heavy or became_long:
            self._heavy, self._long = heavy, long
            self._turns._count(light=-became_heavy, heavy=became_heavy, long=became_long)

    def _request_place(self, now: float) -> bool:
        if self._turns._ask(self):
            return self._resume(now)
        self._queued_at = now
        return True

    def _keep_waiting(self, queued_at: float) -> bool:
        granted = self.granted.wait(PAUSE)
        now = time.monotonic()
        if not granted:
            if now - queued_at < PATIENCE:
                return True
            self._turns._withdraw(self, taking=True)
        self._queued_at = None
        return self._resume(now)

    def _resume(self, now: float) -> bool:
        self._placed = True
        self._placed_at = self._checked_at = self._paused_at = now
        return False
