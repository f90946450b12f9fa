"""Delays for addresses from which wrong passwords come, so that passwords cannot be guessed fast.

The delay comes before anything is read of a connection, whether its password is right or wrong. If
only wrong ones were answered late, a client would know from the first tenth of a second, and leave.
"""

from __future__ import annotations

import ipaddress
import math
import threading
import time
from collections.abc import Callable
from typing import Final

__all__ = ["FailedLogins"]

STEP: Final = 0.1
"""Seconds that each wrong password adds to the delay."""

HALF_LIFE: Final = 30.0
"""Seconds after which half of them are forgotten."""

MOST: Final = 10_000
"""The most addresses that are remembered. Beyond it, those of the shortest delay are forgotten."""


class FailedLogins:
    """The wrong passwords of late by address, or by network of 64 bits for IPv6. Threads may share
    it. No delay is longer than ``longest`` seconds."""

    def __init__(self, longest: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._longest, self._clock = longest, clock
        self._lock = threading.Lock()
        self._failed: dict[str, tuple[float, float]] = {}

    def add(self, address: str) -> None:
        """A wrong password has come from ``address``."""
        network, now = _network(address), self._clock()
        with self._lock:
            if len(self._failed) >= MOST and network not in self._failed:
                found = sorted(self._failed, key=lambda one: self._lately(one, now))
                for forgotten in found[: MOST // 2]:
                    del self._failed[forgotten]
            self._failed[network] = self._lately(network, now) + 1, now

    def delay(self, address: str) -> float:
        """The seconds that a connection from ``address`` must wait; 0 without wrong passwords."""
        with self._lock:
            failed = self._lately(_network(address), self._clock())
        return min(self._longest, STEP * failed)

    def _lately(self, network: str, now: float) -> float:
        failed, when = self._failed.get(network, (0.0, now))
        return failed * math.exp2((when - now) / HALF_LIFE)


def _network(address: str) -> str:
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:  # a client without an address
        return address
    mapped = getattr(found, "ipv4_mapped", None)
    if found.version == 4 or mapped is not None:
        return str(mapped or found)
    return str(ipaddress.ip_network((found, 64), strict=False))
