"""Threads and turns are dealt out between analysts, whatever one of them asks for."""

from __future__ import annotations

import gc
import itertools
import math
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tallyveil import deadline
from tallyveil.deadline import Deadline
from tallyveil.errors import QueryCanceled
from tallyveil.proxy import Server, ServerLimits, ServerThread, housekeeping
from tallyveil.proxy.housekeeping import beside_long, short_pauses
from tallyveil.proxy.protocol import messages as m
from tallyveil.proxy.scheduler import Scheduler
from tallyveil.proxy.turns import HEARD, LONG, Turn, Turns
from tests.proxy.fake_session import Sessions
from tests.proxy.raw_client import RawClient


class Gated:
    """Pieces of work that wait until they are let go."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.started: list[str] = []
        self.go = threading.Event()
        self._changed = threading.Condition()

    def submit(self, analyst: str, owner: str) -> None:
        self.scheduler.submit(analyst, owner, lambda: self._work(owner))

    def _work(self, owner: str) -> None:
        with self._changed:
            self.started.append(owner)
            self._changed.notify_all()
        self.go.wait(10)

    def wait_for(self, *owners: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: set(owners) <= set(self.started), 10)


@pytest.fixture
def gated() -> Iterator[Gated]:
    found = Gated(Scheduler(2, 2, Turns(1)))
    yield found
    found.go.set()
    found.scheduler.stop()


def test_an_analyst_without_a_thread_gets_one_though_another_has_all(gated: Gated) -> None:
    for number in range(10):
        gated.submit("greedy", f"g{number}")
    gated.wait_for("g0", "g1")
    gated.submit("other", "o")
    gated.submit("third", "t")
    gated.wait_for("o", "t")
    assert len(gated.started) == 4


def test_what_was_cancelled_waits_for_no_thread(gated: Gated) -> None:
    for number in range(10):
        gated.submit("greedy", f"g{number}")
    gated.wait_for("g0", "g1")
    gated.scheduler.hurry("g7")
    gated.wait_for("g7")
    gated.scheduler.hurry("unknown")
    assert len(gated.started) == 3


def test_everything_is_done_once_even_after_the_end(gated: Gated) -> None:
    for number in range(50):
        gated.submit(f"analyst {number % 3}", f"{number}")
    gated.scheduler.stop()
    gated.go.set()
    gated.wait_for(*map(str, range(50)))
    assert len(gated.started) == 50


def test_work_that_fails_takes_no_thread_along(
    gated: Gated, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ValueError("a value nobody may read")

    for number in range(5):
        gated.scheduler.submit("a", f"fails {number}", fail)
    gated.submit("a", "works")
    gated.wait_for("works")
    assert "ValueError" in caplog.text
    assert "nobody may read" not in caplog.text


def heavy(turns: Turns, *analysts: str) -> list[Turn]:
    """Turns of analysts who have used much."""
    found = [turns.begin(analyst) for analyst in analysts]
    for turn in found:
        turns._uses(turn.analyst, 100.0)
        turn._account()
    return found


def in_thread(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_a_heavy_statement_gives_its_place_to_who_has_used_less() -> None:
    """With one place, each of two goes on only where the other has, three times."""
    turns, order = Turns(1), list[str]()

    def work(name: str) -> None:
        (turn,) = heavy(turns, name)
        with Deadline(60).entered(), deadline.taking(turn):
            while len(order) < 6:
                deadline.check()
                if order[-1:] != [name]:
                    order.append(name)
        turn.end()

    for thread in [in_thread(partial(work, name)) for name in "ab"]:
        thread.join(60)
    assert "".join(order)[:6] in ("ababab", "bababa")


def test_waiting_for_a_turn_can_be_cancelled_and_does_not_use_up_the_time() -> None:
    turns = Turns(1)
    first, second = heavy(turns, "a", "b")
    assert not first.waits()
    cancelled = threading.Event()
    found: list[Exception] = []

    def wait() -> None:
        limit = Deadline(0.2, cancelled=cancelled.is_set)
        try:
            with limit.entered(), deadline.taking(second):
                deadline.check()
        except QueryCanceled as error:
            found.append(error)

    waiting = in_thread(wait)
    waiting.join(0.5)
    assert waiting.is_alive()
    cancelled.set()
    waiting.join(10)
    assert len(found) == 1
    second.end()
    first.end()
    assert not turns._waiting


def test_what_has_been_paid_for_waits_for_no_turn() -> None:
    turns = Turns(1)
    busy, payer = heavy(turns, "a", "b")
    assert not busy.waits()
    with Deadline(30).entered(), deadline.taking(payer), deadline.unlimited():
        deadline.check()
    payer.end()
    busy.end()


def test_places_are_given_back_whoever_ends_how() -> None:
    turns = Turns(2)
    for _ in range(3):
        open_ones = heavy(turns, *"abcd")
        for turn in open_ones:
            turn.waits()
        for turn in open_ones:
            turn.end()
    assert (turns._free, turns._light, turns._waiting) == (2, 0, {})


def test_threads_switch_sooner_while_a_heavy_statement_is_under_way() -> None:
    with short_pauses():
        turns, usual = Turns(2, beside=beside_long), sys.getswitchinterval()
        first, second = turns.begin("a"), turns.begin("b")
        assert sys.getswitchinterval() == usual
        for turn in (first, second):
            turns._uses(turn.analyst, 10.0)
            turn._account()
        first.end()
        assert sys.getswitchinterval() < usual / 10
        second.end()
        assert sys.getswitchinterval() == usual


def test_threads_switch_sooner_beside_a_long_statement_of_a_light_analyst() -> None:
    with short_pauses():
        turns, usual = Turns(2, beside=beside_long), sys.getswitchinterval()
        first, second = turns.begin("a"), turns.begin("b")
        first._account()
        assert sys.getswitchinterval() == usual
        first._began_at -= 2 * LONG
        first._account()
        first._account()
        assert sys.getswitchinterval() < usual / 10
        assert (turns._light, turns._heavy) == (2, 0)
        first.end()
        assert sys.getswitchinterval() == usual
        second.end()
    assert (turns._light, turns._heavy, turns._long) == (0, 0, 0)


def test_a_long_statement_rests_while_other_connections_send_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rests: list[float] = []
    turns = Turns(2)
    turn = turns.begin("a", "its connection")
    turn._long = True

    def rested() -> bool:
        """Whether it rests once it has worked for long enough."""
        before, turn._rested_at = len(rests), -math.inf
        assert not turn.waits()
        return len(rests) > before

    monkeypatch.setattr("tallyveil.proxy.turns.time.sleep", rests.append)
    assert not rested()
    turns.heard("its connection")
    assert not rested()
    turns.heard("another")
    assert rested()
    turns.heard("its connection")
    assert rested()
    turns._heard_before = "another", turns._heard_before[1] - HEARD
    assert not rested()
    turns.heard("another")
    turn._long = False
    assert not rested()
    turn.end()


def test_a_heavy_statement_pauses_at_its_next_check_while_a_light_one_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not only hundredths of a second later; for a time that is bounded by what it has worked."""
    pauses: list[float] = []
    turns = Turns(1)
    monkeypatch.setattr(turns, "_rest", pauses.append)
    (working,) = heavy(turns, "a")
    for _ in range(2):
        assert not working.waits()
    assert not pauses
    light = turns.begin("b")
    for _ in range(3):
        working._paused_at -= 0.002  # it has worked
        assert not working.waits()
        assert not working.waits()
    assert len(pauses) == 3
    assert max(pauses) < 5
    light.end()
    assert not working.waits()
    assert len(pauses) == 3
    working.end()


def test_nothing_is_tidied_up_between_heavy_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither memory is given back, nor what is young collected as a whole."""
    looks: list[None] = []
    tidied: list[int] = []
    collected: list[None] = []
    done = threading.Event()

    def given() -> None:
        tidied.append(len(looks))
        done.set()

    def busy() -> bool:
        looks.append(None)
        if len(looks) < 6:
            keeper.due()  # one has begun and ended since
        return False

    monkeypatch.setattr(gc, "collect", lambda: collected.append(None))
    monkeypatch.setattr(gc, "get_count", lambda: (0, 0, 1))
    monkeypatch.setattr(housekeeping, "DELAY", 0.001)
    monkeypatch.setattr(housekeeping, "LOOK", 0.001)
    monkeypatch.setattr(housekeeping, "give_back", given)
    keeper = housekeeping.Housekeeping(busy)
    keeper.start()
    keeper.due()
    assert done.wait(10)
    done.clear()
    keeper.due()
    assert done.wait(10)
    keeper.close()
    assert tidied == [6, 7]
    assert len(collected) == 2


def test_garbage_is_collected_in_steps_while_long_statements_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each before there is much: to wait for their end would make one collection of all of it."""
    made, collected, counts = 0, threading.Event(), list[int]()

    def busy() -> bool:
        nonlocal made
        made += 1
        return True

    def collect() -> None:
        nonlocal made
        counts.append(made)
        made = 0
        if len(counts) == 3:
            collected.set()

    monkeypatch.setattr(gc, "collect", collect)
    monkeypatch.setattr(gc, "get_count", lambda: (0, 0, made))
    monkeypatch.setattr(gc, "get_objects", None)  # it breaks what other threads are making
    monkeypatch.setattr(housekeeping, "LOOK", 0.001)
    keeper = housekeeping.Housekeeping(busy)
    keeper.start()
    keeper.watch()
    assert collected.wait(10)
    keeper.close()
    assert counts[:3] == [housekeeping.STEP] * 3


def test_what_collections_leave_is_visited_again_when_there_is_twice_as_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Most of it lives long, but syntax trees that a cache has dropped are garbage. How much there
    is, is counted only when there may be so much: half of it is less than the bound says."""
    aside, young, visited = 0, 0, list[int]()
    collections = housekeeping.ASIDE // 5 // 7_000

    def freeze() -> None:
        nonlocal aside, young
        aside, young = aside + young, 0

    def unfreeze() -> None:
        nonlocal aside, young
        visited.append(aside)
        # A quarter is garbage.
        aside, young = 0, young + aside * 3 // 4

    monkeypatch.setattr(gc, "collect", lambda: None)
    monkeypatch.setattr(gc, "freeze", freeze)
    monkeypatch.setattr(gc, "unfreeze", unfreeze)
    monkeypatch.setattr(gc, "get_freeze_count", lambda: aside)
    monkeypatch.setattr(gc, "get_threshold", lambda: (700, 10, 1 << 30))
    monkeypatch.setattr(gc, "get_count", lambda: (0, 0, collections))
    monkeypatch.setattr(gc, "get_objects", None)
    keeper = housekeeping.Housekeeping(lambda: False)
    for _ in range(60):
        young += collections * 3_500
        keeper._collect()
    assert 0 <= visited[0] - housekeeping.ASIDE <= collections * 3_500
    assert [after > before for before, after in itertools.pairwise(visited)] == [True, True]


def test_connections_of_one_analyst_keep_no_other_waiting(sessions: Sessions) -> None:
    server = Server(sessions, port=0, limits=ServerLimits(threads=2, analyst_threads=2))
    clients: list[RawClient] = []
    with ServerThread(server):
        for _ in range(6):
            clients.append(RawClient(server.port))
            clients[-1].start("greedy")
        for client in clients:
            client.send(m.Query(b"select wait()"))
        assert sessions.all[0].started.wait(5)
        with RawClient(server.port) as other:
            other.start("other")
            assert other.ask("select 1")[-1] == ("Z", "I")
            # One that waits for a thread is cancelled at once.
            other.send(m.Query(b"select 1"))
            with RawClient(server.port) as canceller:
                canceller.send(m.CancelRequest(*clients[5].key))
            (code,) = [f["C"] for kind, f in clients[5].until("Z") if kind == "E"]
            assert code == "57014"
    for client in clients:
        client.socket.close()
