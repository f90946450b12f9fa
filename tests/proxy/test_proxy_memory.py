"""A client that has the server keep as much as it will: the others, and the machine, go on."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tallyveil.gate.interface import ColumnType
from tallyveil.proxy.client_memory import OWN, ConnectionMemory, ServerMemory
from tallyveil.proxy.execution.pending_rows import PendingRows
from tallyveil.proxy.protocol import messages as m
from tallyveil.proxy.protocol_errors import OutOfMemory, TooMuchKept
from tests.programs import Program, start
from tests.proxy.memory_server import PROGRAM
from tests.proxy.raw_client import RawClient
from tests.proxy.talk import Talk, bind, error_of, parse, query

CONNECTION, SERVER = 8, 32
"""MiB that one connection, and all, may have the server keep."""

WORK = 150
"""MiB that evaluating statements, and what the C library keeps of that, may take besides."""

_NUMBERS = ", ".join(f"({n}, 'text number {n}')" for n in range(60))
LARGE = (
    f"SELECT a.n, b.n, c.t FROM (VALUES {_NUMBERS}) a(n, t), (VALUES {_NUMBERS}) b(n, t), "
    f"(VALUES {_NUMBERS}) c(n, t) LIMIT 150000"
)
"""About 6 MiB of messages; five times that as Python's values."""

Answer = list[tuple[str, Any]]


@dataclass
class Running:
    process: Program
    port: int

    def connect(self, user: str) -> RawClient:
        client = RawClient(self.port, timeout=60)
        client.start(user)
        return client

    def resident(self) -> float:
        """MiB."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE") / 2**20

    def settles_below(self, bound: float) -> bool:
        end = time.monotonic() + 30
        while self.resident() >= bound and time.monotonic() < end:
            time.sleep(0.1)
        return self.resident() < bound


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("memory")
    with start(PROGRAM, folder, CONNECTION, SERVER, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield Running(process, int(process.stdout.readline()))
        finally:
            process.terminate()


def codes(answer: Answer) -> list[str]:
    return [fields["C"] for kind, fields in answer if kind == "E"]


def first_refused(client: RawClient, texts: Iterable[str]) -> tuple[int, list[str]]:
    """Its number, and why."""
    asked = enumerate(codes(client.ask(text)) for text in texts)
    return next((number, found) for number, found in asked if found)


def hold_results(client: RawClient, most: int) -> list[str]:
    """Open portals over a large result and fetch one row of each; why the last was refused."""
    client.send(m.Query(b"BEGIN"), parse(LARGE, "large"), m.Sync())
    client.until("Z")
    client.until("Z")
    for number in range(most):
        client.send(
            bind(portal=f"p{number}", statement="large"), m.Execute(f"p{number}", 1), m.Sync()
        )
        if refused := codes(client.until("Z")):
            return refused
    return []


def hold_parameters(client: RawClient, most: int) -> list[str]:
    """Bind large arrays to portals that are never executed; why the last was refused."""
    client.send(m.Query(b"BEGIN"), parse("SELECT 1 = ANY($1::int[])", "array"), m.Sync())
    client.until("Z")
    client.until("Z")
    array = b"{" + b",".join(b"%d" % n for n in range(1000, 100_000)) + b"}"
    for number in range(most):
        client.send(bind(array, portal=f"p{number}", statement="array"), m.Sync())
        if refused := codes(client.until("Z")):
            return refused
    return []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_what_clients_have_the_server_keep_is_bounded_and_given_back(running: Running) -> None:
    with running.connect("calm") as calm, ExitStack() as opened:
        calm.ask("SELECT count(*) FROM person")
        begin = running.resident()
        greedy = [opened.enter_context(running.connect("greedy")) for _ in range(4)]
        assert hold_results(greedy[0], 10) == ["54000"]
        assert hold_parameters(greedy[1], 100) == ["54000"]
        # An analyst may take a half of what the server keeps for all.
        found = [hold_results(client, 10) for client in greedy[2:]]
        assert ["53200"] in found
        assert running.resident() - begin < SERVER + WORK
        assert codes(calm.ask("SELECT count(*) FROM person")) == []
        # Another analyst finds room, and the refused ones can go on.
        with running.connect("other") as other:
            assert codes(other.ask(LARGE)) == []
        client = greedy[0]
        client.ask("ROLLBACK")
        assert codes(client.ask("SELECT 1")) == []
        held = running.resident()
    assert held - begin > CONNECTION
    assert running.settles_below(begin + WORK / 3)


def test_the_session_goes_on_after_too_much_was_kept() -> None:
    talk = Talk()
    talk(m.Startup(3 << 16, (("user", "alice"),)))
    talk(query("begin"), parse("select wide(9000)", "wide"))
    for number in range(3):
        answer = talk(bind(portal=f"p{number}", statement="wide"), m.Execute(f"p{number}", 1))
        assert [kind for kind, _ in answer] == ["2", "D", "s"]
    refused = error_of(talk(bind(portal="p4", statement="wide"), m.Execute("p4", 1)))
    assert refused["C"] == "54000"
    assert "close their portals" in refused["H"]
    talk(m.Sync())
    talk(query("rollback"))
    assert talk.host.memory.held == 0
    assert talk(query("select 1"))[-1] == ("Z", "I")


def test_closing_gives_back_what_was_kept() -> None:
    talk = Talk()
    talk(m.Startup(3 << 16, (("user", "alice"),)))
    talk(query("begin"), parse("select wide(2000)", "wide"))
    talk(bind(portal="p", statement="wide"), m.Execute("p", 1))
    assert talk.host.memory.held > 1_500_000
    talk(m.Close("P", "p"))
    assert talk.host.memory.held == 0
    talk(bind(portal="q", statement="wide"), m.Execute("q", 1000))
    half = talk.host.memory.held
    talk(m.Execute("q", 900))
    assert 0 <= talk.host.memory.held < half
    talk(m.Execute("q", 100))
    assert talk.host.memory.held == 0
    talk(parse("select wide(2000) " + "y" * 200_000, "long"))
    assert talk.host.memory.held > 0
    talk.conversation.release()
    assert talk.host.memory.held == 0


def test_savepoints_are_kept_within_the_bound(running: Running) -> None:
    """Each takes about a kilobyte, until the block ends."""
    with running.connect("alice") as client:
        for _ in range(2):
            client.ask("BEGIN")
            names = [[f"{'x' * 50}{n}_{k}" for k in range(200)] for n in range(60)]
            texts = ("; ".join(f"SAVEPOINT {name}" for name in some) for some in names)
            number, found = first_refused(client, texts)
            assert found == ["54000"]
            assert (CONNECTION << 20) // 300_000 < number < (CONNECTION << 20) // 200_000
            assert client.ask("ROLLBACK")[0] == ("C", "ROLLBACK")


def test_of_a_long_name_no_more_is_kept_than_postgresql_does(running: Running) -> None:
    with running.connect("alice") as client:
        client.ask("BEGIN")
        first, second = (f"DECLARE {'x' * 150_000}{n} CURSOR FOR SELECT 1" for n in range(2))
        assert codes(client.ask(first)) == []
        assert codes(client.ask(second)) == ["42P03"]


def test_the_names_of_a_cursors_columns_are_kept_within_the_bound(running: Running) -> None:
    wide = ", ".join(f"{n} AS {'x' * 500}{n}" for n in range(300))
    with running.connect("alice") as client:
        client.ask("BEGIN")
        texts = (f"DECLARE c{n} CURSOR FOR SELECT {wide}" for n in range(100))
        assert first_refused(client, texts)[1] == ["54000"]


@pytest.mark.parametrize("sizes", [(1, 1, 1), (7, 500, 3000), (64,), (99, 1), (0,)])
def test_pages_are_the_whole_result(sizes: tuple[int, ...]) -> None:
    whole, paged = (PendingRows(ConnectionMemory(ServerMemory(1 << 24), 1 << 24)) for _ in range(2))
    columns = (ColumnType("n", "BIGINT"), ColumnType("t", "VARCHAR"))
    values = [(n, "x" * (n % 97)) for n in range(3700)]
    for rows in (whole, paged):
        receive = rows.begin(columns)
        receive(values[:2000])
        receive(values[2000:])
    everything = b"".join(chunk for _, chunk in whole.take())
    assert whole.fields == paged.fields
    found: list[bytes] = []
    for size in sizes:
        counts, chunks = zip(*paged.take(size), strict=True)
        assert sum(counts) == (size or 3700)
        found += chunks
    found += [chunk for _, chunk in paged.take()]
    assert b"".join(found) == everything


def test_a_little_is_every_connections_own() -> None:
    memory = ServerMemory(1 << 20)
    greedy, calm, other = (ConnectionMemory(memory, 1 << 30) for _ in range(3))
    greedy.analyst, calm.analyst, other.analyst = "greedy", "calm", "other"
    greedy.take(OWN + (1 << 19))
    with pytest.raises(OutOfMemory, match="for one analyst"):
        greedy.take(1)
    other.take(OWN + (1 << 19))
    with pytest.raises(OutOfMemory, match="for its clients"):
        calm.take(OWN + 1)
    calm.take(OWN)
    for holding in (greedy, calm, other):
        holding.give_all()
    assert memory.held == 0


def test_a_connection_has_a_bound_of_its_own() -> None:
    holding = ConnectionMemory(ServerMemory(1 << 20), 1000)
    holding.take(1000)
    with pytest.raises(TooMuchKept):
        holding.take(1)
    holding.give(1)
    holding.take(1)
