"""Grouping sets through the gate: one release, its cost, its intervals, and a target's choice."""

from __future__ import annotations

import pytest

from tests.gate.asking import Connect, ask, spent

ROLLUP = (
    "SELECT grouping(sex) AS g, count(*) AS n, dp_interval_high(n) - count(*) AS h FROM person "
    "GROUP BY ROLLUP (sex)"
)


SETS = "GROUPING SETS ((state, sex), (state), (sex))"


WIDER_AND_NARROWER = ({"epsilon": 0.1}, {"half_width": 30}, {"half_width": 25}, {"epsilon": 0.3})
FROM_HISTORY = ({"epsilon": 0.1}, {"half_width": 30, "source": "history"}, {"source": "auto"})


@pytest.mark.parametrize(
    ("by", "settings"),
    [
        ("CUBE (state, sex)", WIDER_AND_NARROWER),
        (SETS, FROM_HISTORY),
        pytest.param("CUBE (state, sex)", FROM_HISTORY, marks=pytest.mark.slow),
        pytest.param(SETS, WIDER_AND_NARROWER, marks=pytest.mark.slow),
        ("ROLLUP (state, sex)", ({"half_width": 30}, {"epsilon": 0.1})),
        ("ROLLUP (state, sex)", ({"epsilon": 0.1}, {"epsilon": 0.2}, {"half_width": 40})),
    ],
)
def test_the_same_statement_adds_up_at_every_setting(
    connect: Connect, by: str, settings: tuple[dict[str, object], ...]
) -> None:
    """The setting decides which sets are released and which are summed up."""
    connection = connect(budget={"epsilon": 100})
    sql = (
        "SELECT CASE grouping(state) WHEN 0 THEN coalesce(state, 'none') END,"
        " CASE grouping(sex) WHEN 0 THEN sex END,"
        f" count(*) AS n, dp_interval_low(n), dp_interval_high(n) FROM person GROUP BY {by}"
    )
    widths: dict[tuple[str | None, str | None], int] = {}
    for one in settings:
        rows = ask(connection, sql, **one)
        cells = [row for row in rows if None not in row[:2]]
        for state, sex, n, low, high in rows:
            assert n == sum(c[2] for c in cells if state in (None, c[0]) and sex in (None, c[1]))
            assert low <= n <= high
            narrowest = widths.get((state, sex), high - low)
            assert high - low <= narrowest + 2  # its ends are rounded
            widths[state, sex] = min(high - low, narrowest)
        before = spent(connection)
        assert connection.execute(sql).fetchall() == rows
        assert spent(connection) == before


@pytest.mark.parametrize("budget", [{"epsilon": 9}, {"rho": 9, "delta": 1e-9}])
def test_groupings_without_a_choice_are_asked_as_they_are(
    connect: Connect, budget: dict[str, float]
) -> None:
    connection = connect(budget=budget, attributes={"sex": {"values": ["F"]}})
    for by in ("ROLLUP (sex)", "CUBE (sex)", "GROUPING SETS ((sex), ())"):
        rows = connection.sql(f"SELECT sex, count(*) FROM person GROUP BY {by}").fetchall()
        assert {sex for sex, _ in rows} == {"F", None}
        assert len({count for _, count in rows}) == 1
