"""What must cost nothing, and what is never given back."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg import generators, pq

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
