"""SIGKILL at random moments under load: the ledger holds every answer a client has seen.

Each round starts a server, lets clients ask fresh questions, kills it, and reads the ledger: no
answer a client has seen is missing from it, and what remains never grows.
"""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import threading
from fractions import Fraction
from pathlib import Path

import psycopg
import pytest

from tallyveil.accountant import Account, Accountant, Ledger
from tallyveil.accountant.codec import decode_answers, decode_columns
from tallyveil.policy import parse_policy

SERVER = Path(__file__).with_name("kill_server.py")
CLIENTS = 3


def ask(port: int, name: str, seen: dict[str, int]) -> None:
    """Ask until the server is gone; every statement is told apart by its comment."""
    try:
        with psycopg.connect(
            f"postgresql://{name}@127.0.0.1:{port}/people", autocommit=True
        ) as connection:
            connection.execute("SET dp.source = fresh")
            for number in range(100_000):
                sql = f"SELECT count(*) /* {name} {number} */ FROM person WHERE age < {number % 90}"
                row = connection.execute(sql).fetchone()
                assert row is not None
                seen[sql] = row[0]
    except psycopg.OperationalError:
        return


def one_round(directory: Path, name: str, chance: random.Random) -> dict[str, int]:
    """The answers clients saw before the server was killed."""
    seen: list[dict[str, int]] = [{} for _ in range(CLIENTS)]
    with subprocess.Popen(
        [sys.executable, str(SERVER), str(directory)], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        clients = [
            threading.Thread(target=ask, args=(port, f"{name}_{i}", seen[i]))
            for i in range(CLIENTS)
        ]
        for client in clients:
            client.start()
        threading.Event().wait(chance.uniform(0.05, 0.4))
        server.send_signal(signal.SIGKILL)
        for client in clients:
            client.join()
    return {sql: value for part in seen for sql, value in part.items()}


def recorded(path: Path) -> dict[str, int]:
    """The answers in the ledger, by statement."""
    answers = {}
    with sqlite3.connect(path) as connection:
        rows = connection.execute(
            "SELECT sql, columns, noisy FROM charge JOIN answer ON charge_id = charge.id"
        ).fetchall()
    connection.close()
    for sql, columns, noisy in rows:
        heights = [column.height for column in decode_columns(columns)[0]]
        ((value,),) = decode_answers(noisy, heights)
        answers[sql] = value
    return answers


def remaining(directory: Path) -> Fraction:
    from kill_server import TABLE

    policy = parse_policy({"tables": {"person": TABLE}}, base=directory)
    table = policy.tables["person"]
    account = Account(table.domain, "add_remove", 1, table.budget.epsilon, table.fingerprint)
    ledger = Ledger(policy.ledger)
    try:
        return Accountant(ledger, {"person": account}).balance("person").remaining
    finally:
        ledger.close()


def kill_many(directory: Path, rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SERVER.parent))
    chance = random.Random()
    total, left = 0, Fraction(100)
    for number in range(rounds):
        seen = one_round(directory, f"round{number}", chance)
        total += len(seen)
        kept = recorded(directory / "tallyveil.ledger.sqlite")
        assert {sql: kept.get(sql) for sql in seen} == seen
        now = remaining(directory)
        assert now <= left
        left = now
    assert total > 0


def test_no_seen_answer_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kill_many(tmp_path, 8, monkeypatch)


@pytest.mark.slow
def test_no_seen_answer_is_lost_in_many_kills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_many(tmp_path, 100, monkeypatch)
