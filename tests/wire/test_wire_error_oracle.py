"""Errors and refusals say the same whatever the data: they are no oracle about a person."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

# Each would raise in a database only if some record made it; here the public domain decides.
PROBES = [
    "SELECT count(*) FROM person WHERE 1/((age-67)+(pid-7)*1000) > 0",
    "SELECT count(*) FROM person WHERE age = 67 AND 1/(pid - 7) > 0",
    "SELECT count(*) FROM person WHERE CASE WHEN age = 67 AND pid = 7 THEN 1/0 ELSE 1 END = 1",
    "SELECT count(*) FROM person WHERE CAST(CASE WHEN pid = 7 THEN 'x' ELSE '1' END AS int) = 1",
    "SELECT sum(CASE WHEN age = 67 THEN 9223372036854775807 ELSE 1 END) FROM person",
    "SELECT sum(age * 100000000) FROM person WHERE pid = 7",
    "SELECT count(*) FROM person WHERE sqrt(age - 67) > 1",
    "SELECT count(*) FROM person WHERE ln(pid - 7) > 1",
    "SELECT state, count(*) FROM person WHERE age % (pid - 7) = 1 GROUP BY state",
]

TABLES = {
    "without": "SELECT 'AL' AS state, 30 AS age, 'F' AS sex, 1 AS income, true AS married, "
    "3 AS pid",
    "with": "SELECT 'AL' AS state, 67 AS age, 'F' AS sex, 1 AS income, true AS married, 7 AS pid",
    "empty": "SELECT 'AL' AS state, 1 AS age, 'F' AS sex, 1 AS income, true AS married, 7 AS pid "
    "WHERE false",
}


def outcome(house: Any, sql: str) -> tuple[Any, ...]:
    """All a client can tell besides the noisy values themselves."""
    notices: list[str] = []
    with house.connect() as connection:
        connection.add_notice_handler(lambda d: notices.append(d.message_primary or ""))
        try:
            cursor = connection.execute(sql)
            said: tuple[Any, ...] = (cursor.statusmessage, len(cursor.fetchall()))
        except psycopg.Error as error:
            diag = error.diag
            said = (error.sqlstate, diag.message_primary, diag.message_detail, diag.message_hint)
    return (*said, notices, house.spent())


@pytest.mark.parametrize("probe", PROBES)
def test_the_data_do_not_show(
    serve: Callable[..., Any], source: Any, tmp_path: Any, probe: str
) -> None:
    outcomes = set()
    for name, rows in TABLES.items():
        source.execute(f"CREATE OR REPLACE TABLE people AS {rows}")
        house = serve()
        outcomes.add(repr(outcome(house, probe)))
        house.gate.close()
        for file in tmp_path.glob("tallyveil.ledger*"):
            file.unlink()
        assert name in TABLES
    assert len(outcomes) == 1
