"""What must cost nothing, and what is never given back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import errors, generators, pq

from tests.wire.waiting import until

SQL = b"SELECT count(*) FROM person WHERE age < 40"


def test_parse_and_describe_cost_nothing(house: Any) -> None:
    with house.connect() as connection:
        low = connection.pgconn
        low.send_prepare(b"one", SQL)
        assert _result(connection).status == pq.ExecStatus.COMMAND_OK
        low.send_describe_prepared(b"one")
        described = _result(connection)
        assert (described.nfields, described.fname(0), described.ftype(0)) == (1, b"count", 20)
        assert house.spent() == 0
        low.send_query_prepared(b"one", [])
        assert _result(connection).status == pq.ExecStatus.TUPLES_OK
        assert house.spent() == pytest.approx(0.05)


def _result(connection: psycopg.Connection[Any]) -> Any:
    (result,) = connection.wait(generators.execute(connection.pgconn))
    return result


def test_explain_costs_nothing(house: Any) -> None:
    with house.connect() as connection:
        plan = "\n".join(row[0] for row in connection.execute(f"EXPLAIN {SQL.decode()}"))
    assert "sensitivity 1 (add_remove)" in plan
    assert "Cost: epsilon 0.05 of person's budget; 3 remains, 2.95 after" in plan
    assert house.spent() == 0


def test_explain_analyze_is_refused(house: Any) -> None:
    with house.connect() as connection, pytest.raises(errors.FeatureNotSupported):
        connection.execute(f"EXPLAIN ANALYZE {SQL.decode()}")
    assert house.spent() == 0


def test_explain_execute_is_refused_with_what_to_ask_instead(house: Any) -> None:
    with house.connect() as connection:
        connection.execute(f"PREPARE counted AS {SQL.decode()}")
        with pytest.raises(errors.FeatureNotSupported, match="EXPLAIN the query itself") as caught:
            connection.execute("EXPLAIN EXECUTE counted")
    assert caught.value.diag.statement_position == "9"
    assert house.spent() == 0


def test_rollback_refunds_nothing(house: Any) -> None:
    with psycopg.connect(house.dsn) as connection:
        answer = connection.execute(SQL.decode()).fetchone()
        connection.rollback()
        assert house.spent() == pytest.approx(0.05)
        assert connection.execute(SQL.decode()).fetchone() == answer
    assert house.spent() == pytest.approx(0.05)


def test_a_failed_block_refuses_and_costs_nothing(house: Any) -> None:
    with psycopg.connect(house.dsn) as connection:
        with pytest.raises(errors.UndefinedTable):
            connection.execute("SELECT count(*) FROM nowhere")
        with pytest.raises(errors.InFailedSqlTransaction):
            connection.execute(SQL.decode())
    assert house.spent() == 0


def test_cancelled_before_execution_costs_nothing(house: Any) -> None:
    """Somebody else buys the same row; a statement cancelled while it waits for that is free."""
    started = threading.Event()
    caught: list[Exception] = []

    with house.connect() as connection:

        def ask() -> None:
            started.set()
            try:
                connection.execute(SQL.decode())
            except psycopg.Error as error:
                caught.append(error)

        asking = threading.Thread(target=ask)
        rows = _workload(house)
        with house.gate.decision.reservations.of([rows], ()):
            asking.start()
            started.wait()
            _until_waiting(house)
            connection.cancel_safe()
            _until_cancelled(house)
        asking.join()
    assert [type(error) for error in caught] == [errors.QueryCanceled]
    assert house.spent() == 0


def _workload(house: Any) -> Any:
    """What the statement asks."""
    cursor = house.gate.database.cursor()
    try:
        return house.gate.rewriter.plan(SQL.decode(), "postgres", cursor).workloads["person"]
    finally:
        cursor.close()


def _until_waiting(house: Any) -> None:
    """Until the statement's plan is made, which is the last thing before its turn."""
    until(lambda: any(SQL.decode() in str(key) for key in house.gate.plans.held()))


def _until_cancelled(house: Any) -> None:
    """A second connection has been served, so the cancel request before it has too."""
    with house.connect() as other:
        other.execute("SELECT 1")


def test_the_same_question_at_once_is_paid_once(house: Any) -> None:
    answers: list[Any] = []

    def ask() -> None:
        with house.connect() as connection:
            answers.append(connection.execute(SQL.decode()).fetchone())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(answers)) == 1
    assert house.spent() == pytest.approx(0.05)


def test_a_restart_remembers_charges_and_answers(serve: Callable[..., Any], source: Any) -> None:
    house = serve()
    with house.connect() as connection:
        answer = connection.execute(SQL.decode()).fetchone()
    house.gate.close()
    again = serve()
    assert again.spent() == pytest.approx(0.05)
    with again.connect() as connection:
        assert connection.execute(SQL.decode()).fetchone() == answer
    assert again.spent() == pytest.approx(0.05)
