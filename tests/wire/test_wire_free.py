"""What must cost nothing, and what is never given back."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg import errors, generators, pq

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
