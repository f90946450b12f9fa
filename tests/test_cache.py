"""What is computed once and kept."""

from __future__ import annotations

import gc
import threading
import weakref

from tallyveil.cache import Recent, cached_property


class Slow:
    """Its value takes as long as it is told to."""

    def __init__(self, ready: threading.Event) -> None:
        self.began = threading.Event()
        self._ready = ready
        self.computed = 0

    @cached_property
    def value(self) -> int:
        self.began.set()
        assert self._ready.wait(60)
        self.computed += 1
        return self.computed


def test_a_property_is_computed_once() -> None:
    """Also where a subclass has a property of the same name."""
    ready = threading.Event()
    ready.set()
    one, other = Slow(ready), Slow(ready)
    assert (one.value, one.value, other.value) == (1, 1, 1)
    assert one.computed == other.computed == 1
    assert isinstance(Slow.__dict__["value"], cached_property)
    assert Slow.value is Slow.__dict__["value"]


def test_threads_do_not_wait_for_a_property_of_another_object() -> None:
    """The thread that computes it may wait for its turn until the others have had theirs."""
    ready, at_once = threading.Event(), threading.Event()
    at_once.set()
    waiting, other = Slow(ready), Slow(at_once)
    threads = [
        threading.Thread(target=lambda one=one: one.value, daemon=True) for one in (waiting, other)
    ]
    threads[0].start()
    assert waiting.began.wait(60)
    threads[1].start()
    threads[1].join(60)
    assert (other.computed, waiting.computed) == (1, 0)
    ready.set()
    threads[0].join(60)
    assert waiting.computed == 1


class Thing:
    pass


def test_the_latest_results_of_each_object_are_kept() -> None:
    """So that two settings that alternate are computed once each, and no object's displace
    another's."""
    recent, made = Recent[Thing, int](2), list[int]()

    def get(thing: Thing, number: int) -> int:
        def make() -> int:
            made.append(number)
            return number

        return recent.get(thing, number, make)

    one, other = Thing(), Thing()
    for number in (1, 2, 1, 2, 1):
        assert get(one, number) == number
        assert get(other, number + 10) == number + 10
    assert made == [1, 11, 2, 12]
    assert [get(one, number) for number in (3, 1, 2)] == [3, 1, 2]
    assert made[4:] == [3, 2]
    kept = weakref.ref(one)
    del one
    gc.collect()
    assert kept() is None
