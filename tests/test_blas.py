"""Linear algebra runs in one thread while a solve asks for it, and as before once none does."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from tallyveil.blas import one_thread
from tallyveil.proxy.housekeeping import short_pauses
from tests.programs import run


def threads() -> set[int]:
    """The numbers of threads of all libraries of linear algebra in this process."""
    return {library["num_threads"] for library in ThreadpoolController().info()}


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    """Also on a machine with one core, and where the environment asks for one thread."""
    with threadpool_limits(2):
        assert threads() == {2}
        yield


def test_inside_there_is_one_thread() -> None:
    with one_thread(), one_thread():
        assert threads() == {1}
    assert threads() == {2}


def test_an_error_restores_the_number_too() -> None:
    with pytest.raises(ZeroDivisionError), one_thread():
        raise ZeroDivisionError
    assert threads() == {2}


@pytest.mark.parametrize("leaves_first", [0, 1])
def test_threads_that_overlap_restore_the_number_when_the_last_one_leaves(
    leaves_first: int,
) -> None:
    leave = [threading.Event(), threading.Event()]
    left = [threading.Event(), threading.Event()]
    entered = threading.Barrier(3)

    def solve(number: int) -> None:
        with one_thread():
            entered.wait()
            leave[number].wait()
        left[number].set()

    solvers = [threading.Thread(target=solve, args=(number,), daemon=True) for number in range(2)]
    for solver in solvers:
        solver.start()
    entered.wait()
    for number in (leaves_first, 1 - leaves_first):
        assert threads() == {1}
        leave[number].set()
        left[number].wait()
    assert threads() == {2}
    for solver in solvers:
        solver.join()


def test_a_process_that_serves_has_one_thread_in_all_of_its_threads() -> None:
    found: list[set[int]] = []

    def statement() -> None:
        with one_thread():
            pass
        found.append(threads())

    with short_pauses():
        for thread in [threading.Thread(target=statement) for _ in range(4)]:
            thread.start()
            thread.join()
    assert found == 4 * [{1}]
    assert threads() == {2}


SERVED = """
import os, signal
from threadpoolctl import ThreadpoolController, threadpool_limits
from tallyveil.proxy import Server, run
from tests.proxy.fake_session import Sessions

def ready(server):
    print({library["num_threads"] for library in ThreadpoolController().info()}, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)

threadpool_limits(2)
run(Server(Sessions(), port=0), ready=ready)
"""


def test_a_server_has_one_thread_once_it_listens() -> None:
    assert run(SERVED, timeout=60).stdout == "{1}\n"
