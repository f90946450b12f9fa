"""Who computes, of the statements under way: light ones first, heavy ones by turns.

Python runs one thread at a time, so that statements that compute all at once slow each other, and
a short one waits for all of them at each of its steps. Therefore

- an analyst who has used little of the processor lately is light, and never waits;
- the others are heavy: so many of them compute as there are places, and who has had a slice of
  time gives the place to the analyst who has used least;
- while a light statement runs, the heavy ones rest, but never for longer than twice what they
  have worked since.

A statement waits in `Turn.waits`, which `deadline.check` calls: where it can be stopped, it can
wait.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

__all__ = ["Turn", "Turns"]

LIGHT: Final = 0.4
"""Seconds of the processor an analyst may have used lately and still be light."""

HALF_LIFE: Final = 1.0
"""Seconds after which half of what was used is forgotten."""

SLICE: Final = 0.1
LOOK: Final = 0.01
"""Seconds: how long a place is kept while others wait for it; between two looks at the time."""

PAUSE: Final = 0.05
"""Seconds after which who waits looks whether it was cancelled."""

PATIENCE: Final = 10.0
"""Seconds after which one goes on without a place: who has it may need something held here."""


class Turns:
    """The places where heavy statements compute, and what each analyst has used lately."""

    def __init__(
        self,
        places: int,
        ended: Callable[[], None] = lambda: None,
        beside: Callable[[bool], None] = lambda heavy: None,
    ) -> None:
        """``ended`` is called after each heavy statement, ``beside`` when the first one begins and
        when the last one has ended."""
        self._ended, self._beside = ended, beside
        self._heavy = 0
        self._free = places
        self._lock = threading.Lock()
        self._quiet = threading.Condition(self._lock)
        self._light = 0
        self._waiting: dict[str, deque[Turn]] = {}
        self._used: dict[str, tuple[float, float]] = {}

    @property
    def heavy(self) -> bool:
        """Whether a heavy statement is under way."""
        return self._heavy > 0

    def begin(self, analyst: str) -> Turn:
        """A turn for what the calling thread does for ``analyst`` from now on."""
        return Turn(self, analyst)

    def _count(self, *, light: int = 0, heavy: int = 0) -> None:
        with self._lock:
            self._light += light
            before, self._heavy = self.heavy, self._heavy + heavy
            if self.heavy is not before:
                self._beside(self.heavy)
            if not self._light:
                self._quiet.notify_all()

    def _uses(self, analyst: str, seconds: float) -> float:
        """Add to what an analyst has used lately; the sum."""
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
        """A place at once, or one's turn to wait for."""
        with self._lock:
            if self._free > 0:
                self._free -= 1
                return True
            turn.granted.clear()
            self._waiting.setdefault(turn.analyst, deque()).append(turn)
        return False

    def _withdraw(self, turn: Turn, *, taking: bool) -> None:
        """Wait no longer. ``taking``: have a place all the same, one more than there are."""
        with self._lock:
            if turn.granted.is_set():
                if not taking:
                    self._free += 1
                    self._hand_on()
                return
            queue = self._waiting[turn.analyst]
            queue.remove(turn)
            if not queue:
                del self._waiting[turn.analyst]
            self._free -= taking

    def _give_back(self) -> None:
        with self._lock:
            self._free += 1
            self._hand_on()

    def _hand_on(self) -> None:
        """A free place to the analyst who has used least."""
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
        """Until no light statement runs, at most so long."""
        with self._lock:
            if self._light:
                self._quiet.wait(seconds)


class Turn:
    """What one thread does for one analyst; used by that thread alone, but for ``granted``."""

    def __init__(self, turns: Turns, analyst: str) -> None:
        self.analyst: Final = analyst
        self.granted: Final = threading.Event()
        self._turns = turns
        self._placed = False
        self._asked: float | None = None
        self._looked = self._worked = self._since = time.monotonic()
        self._cpu = time.thread_time()
        self._heavy = turns._uses(analyst, 0.0) > LIGHT
        turns._count(light=not self._heavy, heavy=self._heavy)

    def waits(self) -> bool:
        """Whether it is the turn of others: then this has waited a little, and is to be called
        again. False: go on.
        """
        if self._asked is not None:
            return self._goes_on_waiting(self._asked)
        now = time.monotonic()
        if now - self._looked < LOOK and (not self._heavy or self._placed):
            return False
        self._looked = now
        self._account()
        if not self._heavy:
            return False
        if not self._placed:
            return self._asks(now)
        if now - self._since > SLICE and self._turns._waiting:
            self._placed = False
            self._turns._give_back()
            return self._asks(now)
        self._turns._rest(2 * (now - self._worked))
        self._looked = self._worked = time.monotonic()
        return False

    def end(self) -> None:
        """Nothing more is done for the analyst in this turn."""
        self._account()
        if self._asked is not None:
            self._turns._withdraw(self, taking=False)
        elif self._placed:
            self._turns._give_back()
        self._turns._count(light=-(not self._heavy), heavy=-self._heavy)
        if self._heavy:
            self._turns._ended()

    def _account(self) -> None:
        """Write down what was used; one too many becomes heavy."""
        cpu = time.thread_time()
        used = self._turns._uses(self.analyst, cpu - self._cpu)
        self._cpu = cpu
        if used > LIGHT and not self._heavy:
            self._heavy = True
            self._turns._count(light=-1, heavy=1)

    def _asks(self, now: float) -> bool:
        if self._turns._ask(self):
            return self._goes_on(now)
        self._asked = now
        return True

    def _goes_on_waiting(self, asked: float) -> bool:
        granted = self.granted.wait(PAUSE)
        now = time.monotonic()
        if not granted:
            if now - asked < PATIENCE:
                return True
            self._turns._withdraw(self, taking=True)
        self._asked = None
        return self._goes_on(now)

    def _goes_on(self, now: float) -> bool:
        self._placed = True
        self._since = self._looked = self._worked = now
        return False
