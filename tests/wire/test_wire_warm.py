"""What the shell warms up is free over the wire, also for a server that is running already."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from tallyveil.cli.app import app
from tallyveil.cli.demo_data import copy_example, write_people
from tallyveil.gate import Gate
from tallyveil.policy import load_policy
from tallyveil.proxy import Server, ServerThread

WARM = ("person", "--strategy", "marginals:2", "--attributes", "sex,education", "--epsilon", "0.5")
BY_BOTH = "SELECT education, sex, count(*) AS n FROM person GROUP BY education, sex"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    write_people(tmp_path / "people.parquet", 2_000)
    return copy_example(tmp_path)


@pytest.fixture
def connection(policy: Path) -> Iterator[psycopg.Connection[Any]]:
    gate = Gate(load_policy(policy))
    thread = ServerThread(Server(gate.session, port=0))
    thread.start()
    address = f"postgresql://alice@127.0.0.1:{thread.port}/people"
    with psycopg.connect(address, autocommit=True) as connected:
        yield connected
    thread.close()
    gate.close()


def warm(policy: Path) -> None:
    found = CliRunner().invoke(app, ["warm", str(policy), *WARM, "--yes"])
    assert found.exit_code == 0, found.stderr


def the_budget(connection: psycopg.Connection[Any]) -> tuple[Any, ...]:
    row = connection.execute("SELECT spent, remaining FROM dp.budget").fetchone()
    assert row is not None
    return tuple(row)


@pytest.mark.parametrize("running", [False, True])
def test_questions_are_free_and_say_so(
    policy: Path, running: bool, request: pytest.FixtureRequest
) -> None:
    if not running:
        warm(policy)
    connection = request.getfixturevalue("connection")
    if running:
        assert the_budget(connection) == (0, 3)
        warm(policy)
    assert the_budget(connection) == (0.5, 2.5)
    notices: list[str] = []
    connection.add_notice_handler(lambda notice: notices.append(str(notice.message_primary)))
    rows = connection.execute(BY_BOTH).fetchall()
    by_sex = dict(connection.execute("SELECT sex, count(*) FROM person GROUP BY sex").fetchall())
    total = connection.execute("SELECT count(*) FROM person WHERE sex <> 'F'").fetchone()
    assert total is not None
    assert len(rows) == 8 * 4
    assert len(by_sex) == 4
    assert all(notice.startswith("answered from history, free; interval ±") for notice in notices)
    assert len(notices) == 3
    plan = "\n".join(line for (line,) in connection.execute(f"EXPLAIN {BY_BOTH}").fetchall())
    assert "to buy: 0" in plan
    assert "Cost: nothing" in plan
    assert the_budget(connection) == (0.5, 2.5)


def test_the_same_again_is_the_same(policy: Path, connection: psycopg.Connection[Any]) -> None:
    warm(policy)
    first = connection.execute(BY_BOTH).fetchall()
    assert connection.execute(BY_BOTH).fetchall() == first
    connection.execute("SET dp.source = history")
    assert connection.execute(BY_BOTH).fetchall() == first


def test_what_was_not_warmed_up_costs(policy: Path, connection: psycopg.Connection[Any]) -> None:
    warm(policy)
    connection.execute("SELECT count(*) FROM person WHERE age < 30")
    assert the_budget(connection)[0] > 0.5
