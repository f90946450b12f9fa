"""A repeated statement is answered from what was sent before, exactly as long as that holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tallyveil.gate.interface import Statement
from tallyveil.proxy.execution.executor import Executor

SQL = "SELECT count(*) FROM person WHERE age < 40"


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that reached the gate."""
    found: list[str] = []
    ask = Executor.ask

    def watched(self: Executor, statement: Statement, *rest: Any) -> Any:
        found.append(statement.sql)
        return ask(self, statement, *rest)

    monkeypatch.setattr(Executor, "ask", watched)
    return found


def hearing(connection: psycopg.Connection[Any]) -> list[str]:
    heard: list[str] = []
    connection.add_notice_handler(lambda said: heard.append(said.message_primary or ""))
    return heard


@pytest.mark.parametrize("prepare", [True, False])
def test_a_repeated_count_needs_no_gate_and_says_the_same(
    house: Any, ran: list[str], prepare: bool
) -> None:
    with house.connect() as connection:
        heard = hearing(connection)
        rows = [connection.execute(SQL, prepare=prepare).fetchall() for _ in range(5)]
        assert rows == rows[:1] * 5
    # The first is bought, and the second says that it is free.
    assert ran.count(SQL) == 2
    assert len(heard) == 5
    assert heard[1:] == heard[1:2] * 4 != heard[:1] * 4


def test_what_others_buy_is_heard_of_at_once(serve: Callable[..., Any], ran: list[str]) -> None:
    """By the same server, and by another on the same ledger."""
    one, two = serve(), serve()
    with one.connect() as connection:
        heard = hearing(connection)
        for _ in range(3):
            connection.execute(SQL)
        for age, house, before, after in ((50, one, "2.95", "2.9"), (60, two, "2.9", "2.85")):
            with psycopg.connect(house.address("bob"), autocommit=True) as bob:
                bob.execute(f"SELECT count(*) FROM person WHERE age < {age}")
            connection.execute(SQL)
            assert f"; {before} of 3 remains" in heard[-2]
            assert f"; {after} of 3 remains" in heard[-1]
    assert ran.count(SQL) == 4


def test_settings_change_what_is_answered(house: Any) -> None:
    sql = f"{SQL.replace('count(*)', 'count(*) AS n, dp_interval_high(n)')}"
    with house.connect() as connection:
        narrow = [connection.execute(sql).fetchone() for _ in range(3)][-1]
        connection.execute("SET dp.confidence = 0.999")
        wide = connection.execute(sql).fetchone()
        connection.execute("RESET dp.confidence")
        assert wide[0] == narrow[0]
        assert wide[1] > narrow[1]
        assert connection.execute(sql).fetchone() == narrow


@pytest.mark.parametrize(
    ("sql", "kept"),
    [
        ("SELECT 1", True),
        (SQL, True),
        ("SELECT state, count(*) FROM person GROUP BY state", True),
        ("SELECT now()", False),
        ("SELECT count(*) FROM person WHERE date '2024-01-01' < current_date", False),
        ("SELECT current_user", False),
        ("SELECT current_setting('timezone')", False),
        ("SELECT * FROM dp.budget", False),
        ("EXPLAIN SELECT count(*) FROM person", False),
        ("SHOW timezone", False),
    ],
)
def test_what_depends_on_more_than_the_ledger_is_not_kept(
    house: Any, ran: list[str], sql: str, kept: bool
) -> None:
    with house.connect() as connection:
        for _ in range(4):
            connection.execute(sql, prepare=False).fetchall()
    assert (ran.count(sql) < 4) is kept


def test_a_fresh_answer_is_never_one_that_was_kept(house: Any) -> None:
    with house.connect() as connection:
        for _ in range(3):
            connection.execute(SQL)
        connection.execute("SET dp.source = fresh")
        spent = house.spent()
        answers = {connection.execute(SQL).fetchone() for _ in range(6)}
        assert len(answers) > 1
        assert house.spent() == pytest.approx(spent + 6 * 0.05)


def test_passwords_and_names_keep_their_own(serve: Callable[..., Any], ran: list[str]) -> None:
    """Another analyst asks the gate, however often the same was asked."""
    house = serve()
    for user in ("alice", "bob"):
        with psycopg.connect(house.address(user), autocommit=True) as connection:
            for _ in range(3):
                connection.execute(SQL)
    assert ran.count(SQL) == 3
