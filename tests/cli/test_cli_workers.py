"""`tallyveil serve --workers 2`: two processes agree on what is known and on what is left."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tallyveil.cli.serving.security import read_user_file
from tallyveil.proxy.interruption import worker_of
from tests.programs import FORKING, TALLYVEIL, run, start
from tests.wire.waiting import until

Client = psycopg.Connection[tuple[Any, ...]]

POLICY = """
[server]
workers = 2
[source]
url = "people.csv"
[tables.person]
from = "people"
budget = { epsilon = 1.0 }
[tables.person.attributes]
age = { range = [0, 99] }
[defaults]
epsilon = 0.02
"""


class House:
    """The server, and what it says."""

    def __init__(self, policy: Path) -> None:
        self.policy = policy
        self.users = policy.with_suffix(".users")
        self.events: list[dict[str, Any]] = []
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        options = ("--port", "0", "--log-format", "json", "--catalog", "off")
        self.process = start(FORKING + TALLYVEIL, "serve", policy, *options, **pipes)
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()
        assert self.process.stdout is not None
        found = re.search(r"127.0.0.1:(\d+)", self.process.stdout.readline())
        assert found is not None, self.events
        self.port = int(found[1])

    def _listen(self) -> None:
        assert self.process.stderr is not None
        self.events.extend(map(json.loads, self.process.stderr))

    def said(self, event: str) -> list[dict[str, Any]]:
        return [each for each in self.events if each["event"] == event]

    def client(self, user: str = "alice", password: str = "first") -> Client:
        return psycopg.connect(
            f"postgresql://{user}:{password}@127.0.0.1:{self.port}/people", autocommit=True
        )

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(60)
        said = self.process.stdout.read()
        self._listener.join()
        self.process.communicate()
        assert (self.process.returncode, said) == (0, "closed\n")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("workers")
    ages = "\n".join(str(i % 100) for i in range(1_000))
    (folder / "people.csv").write_text(f"age\n{ages}\n")
    policy = folder / "policy.toml"
    policy.write_text(POLICY)
    read_user_file(policy.with_suffix(".users"), create=True).add("alice", "first", replace=False)
    with contextlib.closing(House(policy)) as made:
        yield made


def test_a_start_that_fails_is_said_once(tmp_path: Path) -> None:
    """As with one process: here by the first worker, a Python of its own, for all."""
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY)
    found = run(TALLYVEIL, "serve", policy, "--port", "0", timeout=100)
    assert found.returncode == 1
    assert found.stdout == ""
    assert found.stderr.count("there is no file") == 1
    assert found.stderr.startswith("ERROR 58030: source.url")


def worker(client: Client) -> int:
    return worker_of(client.info.backend_pid)


@contextmanager
def one_each(house: House, most: int = 2) -> Iterator[tuple[Client, Client]]:
    """A connection to each of the two, of the first ``most``: the supervisor still counts those
    that have just been closed, so that two in a row may go to one worker."""
    with contextlib.ExitStack() as opened:
        found: dict[int, Client] = {}
        for _ in range(most):
            client = opened.enter_context(house.client())
            found.setdefault(worker(client), client)
        assert found.keys() == {1, 2}
        yield found[1], found[2]


def spent(client: Client) -> float:
    (row,) = client.execute("SELECT spent FROM dp.budget").fetchall()
    return float(row[0])


def charges(house: House) -> int:
    ledger = house.policy.with_suffix(".ledger.sqlite")
    with contextlib.closing(sqlite3.connect(ledger)) as connection:
        return int(connection.execute("SELECT count(*) FROM charge").fetchone()[0])


COUNT = """
    SELECT count(*) AS n, dp_interval_low(n), dp_interval_high(n) FROM person WHERE age < 30
"""


def test_what_one_buys_the_other_finds(house: House) -> None:
    with one_each(house) as (one, two):
        bought = one.execute(COUNT).fetchall()
        assert spent(one) == spent(two) == 0.02
        for client in (two, one, two):  # also from the bytes that were sent before
            assert client.execute(COUNT).fetchall() == bought
        assert spent(two) == 0.02
        two.execute("SET dp.source = fresh")
        two.execute("SET dp.epsilon = 0.1")
        two.execute(COUNT)
        two.execute("RESET ALL")
        (better,) = one.execute(COUNT).fetchall()
        assert better[2] - better[1] < bought[0][2] - bought[0][1]
        assert two.execute(COUNT).fetchall() == [better]
        assert spent(one) == spent(two) == 0.12


def test_together_they_spend_the_budget_and_no_more_though_one_is_killed(house: House) -> None:
    """Different questions to both, until each client is refused: what is left pays for so many."""
    with house.client() as client:
        left = round((1 - spent(client)) / 0.02)
    before = charges(house)
    questions = iter(range(1, 100))
    seen: dict[int, int] = {}
    some = threading.Event()
    lost: list[int] = []

    def ask() -> None:
        while True:
            with contextlib.suppress(psycopg.OperationalError), house.client() as client:
                client.execute("SET dp.source = fresh")
                number = worker(client)
                try:
                    for age in questions:
                        sql = f"SELECT count(*) FROM person WHERE age < {age}"
                        ((seen[age],),) = client.execute(sql.encode()).fetchall()
                        if len(seen) > 10:
                            some.set()
                except psycopg.errors.ConfigurationLimitExceeded:
                    return
                except psycopg.OperationalError:
                    lost.append(number)

    with ThreadPoolExecutor(4) as threads:
        asking = [threads.submit(ask) for _ in range(4)]
        assert some.wait(60)
        (first,) = [e for e in house.said("worker ready") if e["worker"] == 1]
        os.kill(first["process"], signal.SIGKILL)
    for each in asking:
        each.result()
    assert set(lost) <= {1}
    until(lambda: len(house.said("worker ready")) == 3)
    (ended,) = house.said("worker ended")
    assert (ended["worker"], ended["status"]) == (1, -signal.SIGKILL)

    assert charges(house) == before + left
    assert left - 4 <= len(seen) <= left
    until(lambda: both(house))
    with one_each(house, 5) as clients:
        for client in clients:
            assert spent(client) == 1.0
            for age in seen:
                sql = f"SELECT count(*) FROM person WHERE age < {age}"
                assert len(client.execute(sql.encode()).fetchall()) == 1
            client.execute("SET dp.source = fresh")
            with pytest.raises(psycopg.errors.ConfigurationLimitExceeded):
                client.execute("SELECT count(*) FROM person WHERE age < 50")
            assert spent(client) == 1.0


def both(house: House, password: str = "first") -> bool:
    with house.client(password=password) as one, house.client(password=password) as two:
        return worker(one) != worker(two)


def budget(client: Client) -> float:
    return float(client.execute("SELECT budget FROM dp.budget").fetchall()[0][0])


def test_a_budget_that_is_raised_holds_in_all_workers_also_in_one_that_starts_later(
    house: House,
) -> None:
    house.policy.write_text(POLICY.replace("epsilon = 1.0", "epsilon = 1.5"))
    with one_each(house, 5) as clients:
        assert [budget(client) for client in clients] == [1.0, 1.0]
    house.process.send_signal(signal.SIGHUP)
    until(lambda: len(house.said("budgets reloaded")) == 2)
    with one_each(house, 5) as clients:
        assert [budget(client) for client in clients] == [1.5, 1.5]
    # What is written to the file, and not read yet, is not in force in a worker that is replaced.
    house.policy.write_text(POLICY.replace("epsilon = 1.0", "epsilon = 1.75"))
    ready = [e for e in house.said("worker ready") if e["worker"] == 2]
    os.kill(ready[-1]["process"], signal.SIGKILL)
    until(lambda: len([e for e in house.said("worker ready") if e["worker"] == 2]) > len(ready))
    until(lambda: both(house))
    with one_each(house, 5) as clients:
        assert [budget(client) for client in clients] == [1.5, 1.5]
    assert {e["budget"] for e in house.said("budget changed")} == {"epsilon 1.5"}
    with contextlib.closing(sqlite3.connect(house.policy.with_suffix(".ledger.sqlite"))) as ledger:
        recorded = ledger.execute("SELECT declared FROM budget ORDER BY id").fetchall()
    assert [json.loads(declared)["budget"] for (declared,) in recorded] == ["1", "3/2"]


def test_users_are_read_anew_by_all(house: House) -> None:
    before = len(house.said("users reloaded"))
    read_user_file(house.users).add("alice", "second", replace=True)
    house.process.send_signal(signal.SIGHUP)
    until(lambda: len(house.said("users reloaded")) == before + 2)
    with pytest.raises(psycopg.OperationalError, match="password"):
        house.client()
    until(lambda: both(house, "second"))


def test_users_that_are_gone_let_nobody_in(house: House) -> None:
    """The file is beside the policy unless it says otherwise, and without one all are believed:
    not where there was one when the server started."""
    house.users.rename(house.users.with_suffix(".away"))
    house.process.send_signal(signal.SIGHUP)
    until(lambda: len(house.said("users not reloaded")) == 2)
    for _ in range(2):
        with pytest.raises(psycopg.OperationalError, match="password"):
            house.client("eve", "any")


def test_noise_drawn_together_is_drawn_once_for_all_workers(tmp_path: Path) -> None:
    """Both are asked at once, and again after a restart: groups agree with what is exact, and are
    the same, and are paid for once."""
    ages = [i * i % 100 for i in range(1_000)]
    (tmp_path / "people.csv").write_text("age\n" + "\n".join(map(str, ages)) + "\n")
    policy = tmp_path / "policy.toml"
    exact = "SELECT age / 20, count(*) FROM person GROUP BY 1"
    budget = "budget = { epsilon = 1.0 }"
    table = f'{budget}\nneighbours = "replace"\ninvariants = [{{ sql = "{exact}" }}]'
    policy.write_text(POLICY.replace(budget, table))
    read_user_file(policy.with_suffix(".users"), create=True).add("alice", "first", replace=False)
    sql = "SELECT age / 20 AS part, age / 5 AS fifth, count(*) FROM person GROUP BY ROLLUP (1, 2)"
    answers: list[set[tuple[Any, ...]]] = []

    def ask(client: Client) -> set[tuple[Any, ...]]:
        client.execute("SET dp.mechanism = conditioned")
        return set(client.execute(sql).fetchall())

    for _ in range(2):
        with contextlib.closing(House(policy)) as house, one_each(house) as clients:
            with ThreadPoolExecutor(2) as threads:
                answers += threads.map(ask, clients)
            assert spent(clients[0]) == spent(clients[1]) == 0.02
    first, *others = answers
    assert len(others) == 3
    assert all(other == first for other in others)
    counts = {part: n for part, fifth, n in first if fifth is None}
    assert counts == {None: 1_000} | {part: sum(a // 20 == part for a in ages) for part in range(5)}
    for part in range(5):
        assert sum(n for p, fifth, n in first if p == part and fifth is not None) == counts[part]
    assert sorted(n for p, fifth, n in first if fifth is not None) != sorted(
        sum(age // 5 == fifth for age in ages) for fifth in range(20)
    )
