"""A total whose groups were estimated from more answers than are solved together stays known."""

from __future__ import annotations

from typing import Any

import duckdb

from tests.gate.asking import Connect, ask, spent

GROUPS, SIZE = 8, 118
"""The groups by c and d are 111,392 cells: more than one system may have."""
ATTRIBUTES = {
    "g": {"range": [0, GROUPS - 1]},
    **{key: {"range": [0, SIZE - 1]} for key in ("c", "d")},
}
COUNT = "count(*) AS n, dp_interval_low(n), dp_interval_high(n), dp_stddev(n)"


def test_a_total_of_groups_that_are_not_solved_together_stays_known(
    connect: Connect, source: duckdb.DuckDBPyConnection
) -> None:
    """In another process too, and free of charge."""
    source.execute(
        f"CREATE TABLE many AS SELECT i % {GROUPS} AS g, i % {SIZE} AS c, i * 7 % {SIZE} AS d"
        " FROM range(3000) t(i)"
    )
    table: dict[str, Any] = {"from": "many", "attributes": ATTRIBUTES, "budget": {"epsilon": 50.0}}
    connection = connect(defaults={"epsilon": 10.0}, **table)
    for g in range(GROUPS):
        ask(connection, f"SELECT c, d, count(*) FROM person WHERE g = {g} GROUP BY c, d")
        ask(connection, f"SELECT count(*) FROM person WHERE g = {g}", source="history")
        connection.execute("RESET ALL")
    paid = spent(connection)
    sql = f"SELECT grouping(g < 4, g) AS whole, {COUNT} FROM person GROUP BY ROLLUP ((g < 4), g)"
    [before] = [row[1:] for row in ask(connection, sql, epsilon=0.05) if row[0] == 3]
    assert spent(connection) == paid
    connection.close()
    again = connect(defaults={"epsilon": 10.0}, **table)
    for settings in ({"source": "history"}, {"source": "auto", "epsilon": 0.05}):
        [row] = ask(again, f"SELECT {COUNT} FROM person", **settings)
        assert row == before
    assert spent(again) == paid
