"""Window functions where SQL allows none: PostgreSQL's SQLSTATE, free."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

NUMBERS = "(SELECT state, count(*) AS n FROM person GROUP BY state) t"
MISPLACED = [
    f"SELECT lag(n) OVER (ORDER BY rank() OVER ()) FROM {NUMBERS}",
    f"SELECT sum(sum(n) OVER ()) OVER () FROM {NUMBERS}",
    f"SELECT n FROM {NUMBERS} WHERE rank() OVER () = 1",
    f"SELECT state, sum(n) FROM {NUMBERS} GROUP BY state HAVING rank() OVER () = 1",
    "SELECT state, count(*) FROM person GROUP BY state HAVING rank() OVER () = 1",
    f"SELECT t.n FROM {NUMBERS} JOIN (SELECT 1 AS x) u ON rank() OVER () = 1",
    f"SELECT sum(n) FROM {NUMBERS} GROUP BY rank() OVER ()",
    f"SELECT n FROM {NUMBERS} LIMIT rank() OVER ()",
    f"SELECT sum(rank() OVER ()) FROM {NUMBERS}",
]


@pytest.mark.parametrize("sql", MISPLACED)
def test_a_misplaced_window_is_refused_as_postgresql_does(
    free_house: Any, postgres: psycopg.Connection[Any], sql: str
) -> None:
    def refused(connection: psycopg.Connection[Any]) -> psycopg.Error:
        with pytest.raises(psycopg.Error) as caught, connection.transaction():
            connection.execute(sql.encode())
        return caught.value

    with postgres.transaction(force_rollback=True):
        postgres.execute("CREATE TEMPORARY TABLE person (state text)")
        expected = refused(postgres)
    with free_house.connect() as connection:
        found = refused(connection)
    assert found.sqlstate == expected.sqlstate
    assert "window function" in str(found.diag.message_primary)
    assert free_house.spent() == 0
