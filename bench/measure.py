"""Timing and reporting for benchmarks."""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

__all__ = ["clocked", "percentiles", "report", "target"]

T = TypeVar("T")


def clocked(times: list[float], call: Callable[..., T], *arguments: object) -> T:
    """Call it, and add to ``times`` the milliseconds that took."""
    start = time.perf_counter()
    result = call(*arguments)
    times.append((time.perf_counter() - start) * 1e3)
    return result


def percentiles(times: Iterable[float]) -> dict[str, float]:
    """The median and the 99th percentile of times in milliseconds, and how many there are."""
    ordered = sorted(times)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return {
        "p50_ms": round(statistics.median(ordered), 3),
        "p99_ms": round(p99, 3),
        "n": len(ordered),
    }


def report(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


def target(name: str, value: float, *, least: float = -math.inf, most: float = math.inf) -> None:
    """What a figure is to be, and whether it is."""
    bounds = {k: v for k, v in (("least", least), ("most", most)) if math.isfinite(v)}
    report(case="target", target=name, value=round(value, 3), **bounds, met=least <= value <= most)
