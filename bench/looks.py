"""How long a statement's thread computes between two looks at its deadline, by its own clock:
whatever else the machine does, a cancel is seen after at most so long."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias
from unittest.mock import patch

import numpy as np

from tallyveil import deadline
from tallyveil.gate import GateSession
from tallyveil.rewriter.engine.watchdog import Watchdog

__all__ = ["Kind", "Looks", "looking", "warm_memory"]

Kind: TypeAlias = Literal["python", "charged", "duckdb"]
"""What is at work: Python and what it calls; what is charged, and so is drawn and recorded first;
DuckDB, which looks by itself once it has a plan."""

_KINDS: Final[tuple[Kind, ...]] = ("python", "charged", "duckdb")
_WARM: Final = 150_000_000  # numbers


@dataclass
class Looks:
    """``longest`` are seconds of the processor between two looks."""

    longest: dict[Kind, float] = field(default_factory=lambda: dict.fromkeys(_KINDS, 0.0))
    _last: float = field(default_factory=time.thread_time)
    _thread: int = field(default_factory=threading.get_ident)
    _evaluating: int = 0
    _paid: int = 0

    def look(self, kind: Kind = "python") -> None:
        now = time.thread_time()
        self.longest[kind] = max(self.longest[kind], now - self._last)
        self._last = now

    def cancelled(self) -> bool:
        """Asked at each look of the statement, and by the watchdog's thread."""
        if threading.get_ident() == self._thread:
            self.look("duckdb" if self._evaluating else "python")
        return False

    def milliseconds(self) -> dict[str, float]:
        return {f"{kind}_gap_ms": round(1000 * gap, 1) for kind, gap in self.longest.items()}


@contextmanager
def looking(session: GateSession) -> Iterator[Looks]:
    """Inside, the looks of what this thread does for the session are timed."""
    looks = Looks()
    enter, leave, unlimited = Watchdog.enter, Watchdog.leave, deadline.unlimited

    def entering(self: Watchdog, *arguments: Any) -> None:
        looks.cancelled()
        looks._evaluating += 1
        enter(self, *arguments)

    def leaving(self: Watchdog, *arguments: Any) -> None:
        leave(self, *arguments)
        looks.look("duckdb")
        looks._evaluating -= 1

    @contextmanager
    def paid() -> Iterator[None]:
        looks.look("charged" if looks._paid else "python")
        looks._paid += 1
        try:
            with unlimited():
                yield
        finally:
            looks.look("charged")
            looks._paid -= 1

    with (
        patch.object(Watchdog, "enter", entering),
        patch.object(Watchdog, "leave", leaving),
        patch.object(deadline, "unlimited", paid),
        session.limited(looks.cancelled),
    ):
        try:
            yield looks
        finally:
            looks.look()


def warm_memory() -> None:
    """Touch memory once and give it back: a virtual machine may be slow to get what it has never
    had, 2 ms a megabyte, and that is no work of ours."""
    np.ones(_WARM)
