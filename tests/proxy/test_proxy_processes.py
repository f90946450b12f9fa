"""Several processes on one port: who accepts whom, counted, cancelled, replaced and ended."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import select
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tallyveil.events import LOGGER
from tallyveil.proxy import ServerLimits
from tallyveil.proxy.admission.connection_slots import ConnectionSlots, shared_file
from tallyveil.proxy.interruption import CancelKeys, Interruption, worker_of
from tallyveil.proxy.processes import WorkerFailed, WorkerSupervisor
from tallyveil.proxy.protocol import messages as m
from tallyveil.proxy.protocol_errors import TooManyConnections
from tests.programs import FORKING, Program, start
from tests.proxy.raw_client import RawClient
from tests.wire.waiting import until

if sys.platform != "linux":
    pytest.skip("reads /proc; and Windows cannot pass sockets on", allow_module_level=True)


class House:
    """The supervisor's process; ``pids`` are those of its workers by number."""

    def __init__(self, process: Program) -> None:
        self.process = process
        self.port = 0
        self.pids: dict[int, int] = {}

    def until(self, wanted: str) -> Any:
        """What is said of the next event of this name."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event, fields = json.loads(line)
            if event == "worker ready":
                self.pids[fields["worker"]] = fields["process"]
            if event == wanted:
                return fields
        raise AssertionError(f"no {wanted}")


SUPERVISED = FORKING + "from tests.proxy.supervised import main; main()"


@contextmanager
def supervised(count: int, *limits: str) -> Iterator[House]:
    with start(SUPERVISED, count, *limits, stdout=subprocess.PIPE) as process:
        house = House(process)
        try:
            house.port = house.until("port")
            yield house
        finally:
            process.kill()
    until(lambda: not any(map(runs, house.pids.values())))


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with supervised(2, "max_connections=8", "max_user_connections=6") as made:
        yield made


@contextmanager
def clients(house: House, count: int, user: str = "alice") -> Iterator[list[RawClient]]:
    with ExitStack() as opened:
        made = [opened.enter_context(RawClient(house.port)) for _ in range(count)]
        for each in made:
            each.start(user)
        yield made


def test_clients_are_dealt_out_evenly(house: House) -> None:
    with clients(house, 6) as made:
        numbers = sorted(worker_of(client.key[0]) for client in made)
        assert numbers == [1, 1, 1, 2, 2, 2]
        for client in made:
            assert client.ask("select 1")[-1] == ("Z", "I")


def cancel(house: House, pid: int, secret: bytes) -> None:
    """By a connection of its own, which any worker may get."""
    with RawClient(house.port) as other:
        other.send(m.CancelRequest(pid, secret))
        assert other.at_end()


def test_a_cancel_reaches_the_connection_it_names_in_any_process(house: House) -> None:
    with clients(house, 2) as made:
        for client in [*made, *made]:
            client.send(m.Query(b"select wait"))
            pid, secret = client.key
            cancel(house, pid, bytes(reversed(secret)))  # of another secret: nothing happens
            cancel(house, pid ^ 1 << 20, secret)
            cancel(house, pid ^ 63, secret)  # of no worker there is
            assert not readable(client, 0.1)
            while not readable(client, 0.1):  # it may come before the statement does
                cancel(house, pid, secret)
            (error,) = [fields for kind, fields in client.until("Z") if kind == "E"]
            assert error["C"] == "57014"


def readable(client: RawClient, seconds: float) -> bool:
    return bool(select.select([client.socket], [], [], seconds)[0])


def test_keys_of_a_process_name_it_and_tell_nothing_else() -> None:
    keys = CancelKeys(5)
    given = [keys.give(Interruption()) for _ in range(500)]
    assert {worker_of(pid) for pid, _ in given} == {5}
    assert all(0 < pid < 1 << 31 for pid, _ in given)
    assert len({pid >> 6 for pid, _ in given}) > 490
    assert len({secret for _, secret in given}) == 500
    pid, secret = given[0]
    assert keys.find(pid, secret) is not None
    assert keys.find(pid, given[1][1]) is None
    assert keys.take_back(pid)
    assert not keys.take_back(pid)
    assert keys.find(pid, secret) is None


def test_places_are_counted_over_all_processes_and_given_back(house: House) -> None:
    for _ in range(2):
        patiently(house, 6)
        with clients(house, 6), RawClient(house.port) as seventh:
            assert refusal(seventh, "alice") == 'too many connections for user "alice"'
            with clients(house, 2, "bob"), RawClient(house.port) as ninth:
                assert refusal(ninth, "carol") == "sorry, too many clients already"


def test_a_place_that_another_process_gives_back_just_then_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = ServerLimits(max_connections=1)
    file = shared_file()
    ours, others = (ConnectionSlots(limits, number, file) for number in (1, 2))
    others.take("alice", "db")
    monkeypatch.setattr("time.sleep", lambda _: None)
    with pytest.raises(TooManyConnections):
        ours.take("bob", "db")
    monkeypatch.setattr("time.sleep", lambda _: others.give("alice"))
    assert ours.take("bob", "db") == "db"
    os.close(file)


def patiently(house: House, count: int) -> None:
    """A worker notices a little later that its client has gone."""

    def enter() -> bool:
        with ExitStack() as opened:
            made = [opened.enter_context(RawClient(house.port)) for _ in range(count)]
            for each in made:
                each.send(m.Startup(3 << 16, (("user", "alice"),)))
            return all(each.read()[0] == "R" for each in made)

    until(enter)


def refusal(client: RawClient, user: str) -> str:
    client.send(m.Startup(3 << 16, (("user", user),)))
    (error,) = [fields for kind, fields in client.until("E") if kind == "E"]
    assert error["C"] == "53300"
    return str(error["M"])


def test_a_worker_that_dies_is_replaced_and_the_others_notice_nothing(house: House) -> None:
    before = dict(house.pids)
    patiently(house, 6)
    with clients(house, 6) as made:
        dying = [client for client in made if worker_of(client.key[0]) == 1]
        others = [client for client in made if client not in dying]
        os.kill(before[1], signal.SIGKILL)
        ended = house.until("worker ended")
        assert (ended["worker"], ended["status"]) == (1, -signal.SIGKILL)
        assert all(client.at_end() for client in dying)
        assert all(client.ask("select 1")[-1] == ("Z", "I") for client in others)
        # Their places are free at once, with those who are left.
        with clients(house, len(dying)) as later:
            assert {worker_of(client.key[0]) for client in later} == {2}
        house.until("worker ready")
    until(lambda: serves(house, {1, 2}))
    assert (house.pids[1] == before[1], house.pids[2] == before[2]) == (False, True)


def test_a_worker_that_hangs_keeps_nobody_out() -> None:
    """The other one accepts clients even where that has more."""
    with supervised(2) as house:
        until(lambda: serves(house, {1, 2}))
        os.kill(house.pids[1], signal.SIGSTOP)
        try:
            with clients(house, 2) as made:
                assert {worker_of(client.key[0]) for client in made} == {2}
        finally:
            os.kill(house.pids[1], signal.SIGCONT)


def test_a_signal_ends_all_processes_soon() -> None:
    with supervised(1) as house, clients(house, 2) as made:
        for client in made:
            client.send(m.Query(b"select wait"))
        house.process.terminate()
        assert house.process.wait(60) == 0
        for client in made:
            (error,) = [fields for kind, fields in client.until("E") if kind == "E"]
            assert (error["C"], error["S"]) == ("57P01", "FATAL")
        assert not any(map(runs, house.pids.values()))


def test_a_statement_that_ends_with_its_supervisor_was_not_cancelled_by_its_user() -> None:
    with supervised(1) as house, clients(house, 1) as (client,):
        client.send(m.Query(b"select wait"))
        os.kill(house.process.pid, signal.SIGKILL)
        (error,) = [fields for kind, fields in client.until("E") if kind == "E"]
        assert (error["C"], error["S"]) == ("57P01", "FATAL")
        assert "administrator command" in error["M"]
        assert client.at_end()


def serves(house: House, numbers: set[int]) -> bool:
    with clients(house, 2) as made:
        return {worker_of(client.key[0]) for client in made} == numbers


LATE = """
import json, sys
from tests.proxy.supervised import work
job = json.load(sys.stdin)
if job["worker"] == 2:
    open(job["allowed"]).close()  # waits until the other end is opened
work(job, int(sys.argv[1]))
"""


def test_clients_that_come_while_workers_start_are_dealt_out_evenly(tmp_path: Path) -> None:
    """The first is ready long before the second."""
    first = asyncio.Event()

    class Heard(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.getMessage() == "worker ready":
                first.set()

    def begin(port: int) -> list[RawClient]:
        """The operating system accepts them."""
        return [opened.enter_context(RawClient(port)) for _ in range(6)]

    def numbers(made: list[RawClient]) -> list[int]:
        for client in made:
            client.start("alice")
        return sorted(worker_of(client.key[0]) for client in made)

    async def run() -> list[int]:
        allowed = tmp_path / "allowed"
        os.mkfifo(allowed)
        job = {"allowed": str(allowed)}
        command = [sys.executable, "-c", LATE]
        supervisor = WorkerSupervisor(command, job, 2, "127.0.0.1", 0, ServerLimits())
        starting = asyncio.create_task(supervisor.start())
        await asyncio.wait_for(first.wait(), 200)
        made = await asyncio.to_thread(begin, supervisor.port)
        await asyncio.to_thread(lambda: allowed.open("w").close())
        await starting
        try:
            return await asyncio.to_thread(numbers, made)
        finally:
            await supervisor.close()

    handler, before = Heard(), LOGGER.level
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    try:
        with ExitStack() as opened:
            assert asyncio.run(run()) == [1, 1, 1, 2, 2, 2]
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(before)


SHORT_LIVED = """
import os, sys
sys.stdin.read()
os.write(int(sys.argv[1]), b"\\1")
"""


def events_of(code: str, most: int) -> list[dict[str, Any]]:
    """What a supervisor of one worker, which runs ``code``, says until it said so much."""
    said: list[dict[str, Any]] = []
    enough = asyncio.Event()

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append({"event": record.getMessage(), **getattr(record, "fields", {})})
            if len(said) == most:
                enough.set()

    async def run() -> None:
        command = [sys.executable, "-c", code]
        supervisor = WorkerSupervisor(command, {}, 1, "127.0.0.1", 0, ServerLimits())
        await supervisor.start()
        try:
            await asyncio.wait_for(enough.wait(), 60)
        finally:
            await supervisor.close()

    handler = Kept()
    LOGGER.addHandler(handler)
    before = LOGGER.level
    LOGGER.setLevel(logging.INFO)  # else it goes by what it told others
    try:
        asyncio.run(run())
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(before)
    return said


def test_the_pause_before_a_worker_is_replaced_grows() -> None:
    ended = [e for e in events_of(SHORT_LIVED, 7) if e["event"] == "worker ended"]
    assert [event["pause"] for event in ended] == [0.5, 1.0, 2.0]


def test_a_worker_that_cannot_begin_ends_the_start() -> None:
    with pytest.raises(WorkerFailed):
        events_of("raise SystemExit(1)", 1)


def runs(pid: int) -> bool:
    """Whether there is such a process, those left out that only wait to be asked how they ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_half_open_sockets_keep_nobody_out(house: House) -> None:
    with ExitStack() as opened:
        for _ in range(300):
            one = opened.enter_context(RawClient(house.port))
            one.socket.sendall(struct.pack("!i", 100))
        with clients(house, 2) as made:
            for client in made:
                assert client.ask("select 1")[-1] == ("Z", "I")
