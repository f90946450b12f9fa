"""Evaluating attributes apart gives what evaluating them together gives: rows, order and all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.errors import DivisionByZero, InvalidParameterValue
from tallyveil.policy import Domain, parse_policy
from tallyveil.rewriter import Column, Plan, PublicDatabase, Rewriter
from tallyveil.rewriter.domain import evaluate
from tallyveil.rewriter.domain.components import Component, LinearQuery

ATTRIBUTES: dict[str, Any] = {
    "a": {"range": [0, 3]},
    "b": {"values": ["x", "y"], "nullable": True},
    "c": {"range": [-2, 2], "nullable": True},
    "d": {"values": [True, False]},
}


def domain_of(attributes: dict[str, Any]) -> Domain:
    table = {"budget": {"epsilon": 1}, "attributes": attributes}
    return parse_policy({"tables": {"t": table}}).tables["t"].domain


@pytest.fixture(scope="module")
def database() -> Iterator[PublicDatabase]:
    database = PublicDatabase([domain_of(ATTRIBUTES)])
    yield database
    database.close()


def plan(sql: str, database: PublicDatabase, domain: Domain | None = None) -> Plan:
    rewriter = Rewriter({"t": domain or domain_of(ATTRIBUTES)}, frozenset())
    return rewriter.plan(sql, "postgres", database.cursor())


def together(asked: LinearQuery, free: Any) -> tuple[Component, ...]:
    parts = [*([asked.where] if asked.where else []), *asked.keys, *asked.coefficients.values()]
    mentioned = {c.name for part in parts for c in part.find_all(evaluate.exp.Column)}
    keys, coefficients = dict(enumerate(asked.keys)), dict(asked.coefficients)
    grouped = bool(keys)
    return (
        Component(
            asked.domain, frozenset(mentioned), asked.where, keys, coefficients, grouped=grouped
        ),
    )


def matrix(column: Column, order: Any) -> list[tuple[bytes, int]]:
    keys = [*column.named_rows]
    return [keys[row] for row in (range(column.height) if order is None else order.tolist())]


def shown(planned: Plan) -> Any:
    """Everything the gate sees of a plan, except for how its columns are factored."""
    return [
        (
            table.keys,
            table.height,
            [
                (
                    output.type,
                    planned.workloads["t"].columns[output.column].multiplier,
                    matrix(planned.workloads["t"].columns[output.column], output.rows),
                )
                for output in table.outputs
            ],
        )
        for table in planned.noisy
    ]


@pytest.fixture(autouse=True, scope="module")
def apart_however_small() -> Iterator[None]:
    """Keep components apart that the rewriter would ask about together."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tallyveil.rewriter.domain.components.SMALL", 0)
        yield


CONDITIONS = [
    "a > 1", "a IN (0, 3)", "b = 'x'", "b IS NULL", "c >= 0", "d", "NOT d", "a = c", "a + c > 1",
    "(b = 'y' OR d)", "1 = 0", "TRUE", "c IS NULL OR a = 0", "(a > 0 AND b = 'x')", "a > 9",
]  # fmt: skip
KEYS = ["a", "b", "c", "d", "a % 2", "a + c", "CASE WHEN d THEN c ELSE 0 END", "b IS NULL", "'k'"]
OUTPUTS = [
    "count(*)", "count(b)", "sum(a)", "sum(c)", "sum(a * c)", "avg(c)", "sum(2)",
    "sum(CASE WHEN d THEN a ELSE -a END)", "2 * count(*) - sum(a)", "sum(c * 0.25)",
    "count(*) FILTER (WHERE a = 1 AND b = 'x')", "sum(a) FILTER (WHERE c > 0 AND d)",
    "sum(CASE WHEN d AND b = 'x' THEN a ELSE 0 END)", "count(CASE WHEN a > 1 THEN c END)",
    "avg(CASE WHEN d THEN c END)", "sum(CASE WHEN b = 'x' THEN 1 ELSE 0 END)",
    "sum(CASE WHEN d THEN a ELSE CAST(NULL AS double precision) END)",
    "sum(CASE WHEN a = 1 THEN c ELSE 1 END)", "count(CASE WHEN d THEN c ELSE 0 END)",
    "sum(CASE WHEN a = 1 THEN c WHEN d THEN 2 ELSE 0 END)", "sum(CASE a WHEN 1 THEN c END)",
    "sum(c) FILTER (WHERE a > 0 AND d AND c < 2)", "count(c) FILTER (WHERE b = 'x')", "sum(a / 2)",
]  # fmt: skip


@st.composite
def statements(draw: st.DrawFn) -> str:
    def some(choices: list[str], most: int, least: int = 0) -> list[str]:
        return draw(st.lists(st.sampled_from(choices), min_size=least, max_size=most, unique=True))

    keys = some(KEYS, 3)
    outputs = some(OUTPUTS, 3, 0 if keys else 1)
    items = [f"{item} AS i{n}" for n, item in enumerate([*keys, *outputs])]
    sql = f"SELECT {', '.join(items)} FROM t"
    if conditions := some(CONDITIONS, 4):
        sql += " WHERE " + " AND ".join(conditions)
    if keys:
        sql += " GROUP BY " + ", ".join(str(n + 1) for n in range(len(keys)))
    return sql


@given(statements(), st.sampled_from([0, 12, 5000]))
def test_apart_is_together(database: PublicDatabase, sql: str, few: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluate, "_FEW_CELLS", few)
        apart = shown(plan(sql, database))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluate, "components", together)
        assert apart == shown(plan(sql, database))


def factored(planned: Plan) -> list[list[tuple[str, ...]]]:
    return [[f.axes for f in column.factors] for column in planned.workloads["t"].columns]


@pytest.mark.parametrize(
    ("sql", "axes"),
    [
        ("SELECT count(*) FROM t", [[]]),
        ("SELECT count(*) FROM t WHERE a = 1 AND (b = 'x' AND d)", [[("a",), ("b",), ("d",)]]),
        ("SELECT count(*) FROM t WHERE a = 1 OR b = 'x'", [[("a", "b")]]),
        ("SELECT a, sum(c) FROM t WHERE d GROUP BY a", [[("a",), ("c",), ("d",)]]),
        ("SELECT b, sum(a * c) FROM t GROUP BY b", [[("a", "c"), ("b",)]]),
        ("SELECT a + c, b, count(*) FROM t GROUP BY 1, 2", [[("a", "c"), ("b",)]]),
        ("SELECT count(*) FILTER (WHERE a = 1 AND d) FROM t", [[("a",), ("d",)]]),
        ("SELECT count(*) FROM t WHERE a >= 0 AND d", [[("d",)]]),
        ("SELECT sum(CASE WHEN d AND c > 0 THEN a END) FROM t", [[("a",), ("c",), ("d",)]]),
        ("SELECT count(CASE WHEN d AND b = 'x' THEN 1 END) FROM t", [[("b",), ("d",)]]),
    ],
)  # fmt: skip
def test_what_is_kept_apart(database: PublicDatabase, sql: str, axes: Any) -> None:
    assert factored(plan(sql, database)) == axes


def test_groups_come_in_the_domains_order_though_their_attributes_interleave(
    database: PublicDatabase,
) -> None:
    (table,) = plan("SELECT a + c, b, count(*) FROM t GROUP BY 1, 2", database).noisy
    assert table.outputs[0].rows is not None
    pairs = list(
        zip(*(table.keys.column(name).to_pylist() for name in ("__k0", "__k1")), strict=True)
    )
    assert pairs[:4] == [(-2, "x"), (-1, "x"), (0, "x"), (1, "x")]


def test_the_value_decides_the_type_and_not_a_filter_elsewhere(database: PublicDatabase) -> None:
    (table,) = plan("SELECT sum(c * 0.25) FILTER (WHERE a > 1) FROM t", database).noisy
    assert not pa.types.is_integer(table.outputs[0].type)


def test_an_error_is_the_domains(database: PublicDatabase) -> None:
    with pytest.raises(DivisionByZero):
        plan("SELECT count(*) FROM t WHERE d AND 1 / a > 0", database)


WIDE: dict[str, Any] = {f"w{n}": {"range": [0, 999]} for n in range(4)}


def test_a_limit_is_on_what_an_expression_ties_together_and_on_groups() -> None:
    domain = domain_of(WIDE)
    database = PublicDatabase([domain], time_limit=60.0)
    whole = "SELECT count(*) FROM t WHERE " + " AND ".join(f"{name} < 7" for name in WIDE)
    assert plan(whole, database, domain).workloads["t"].columns[0].size == 10**12
    with pytest.raises(InvalidParameterValue, match="combines 1000000000 cells") as caught:
        plan("SELECT count(*) FROM t WHERE w0 = 1 AND w1 + w2 < w3", database, domain)
    assert caught.value.detail == "It mentions w1 (1000) × w2 (1000) × w3 (1000)."
    sums = "SELECT w0, sum(w1 * w2), sum(w2 * w3), count(*) FROM t WHERE w3 < 2 GROUP BY 1"
    assert [f.axes for f in plan(sums, database, domain).workloads["t"].columns[0].factors] == [
        ("w0",),
        ("w1", "w2"),
        ("w3",),
    ]
    with pytest.raises(InvalidParameterValue, match="has 1000000 groups"):
        plan("SELECT w0, w1, count(*) FROM t GROUP BY 1, 2", database, domain)
    database.close()


def test_a_column_remembers_its_rows_across_ways_to_write_them(database: PublicDatabase) -> None:
    one = plan("SELECT count(*) FROM t WHERE a = 1 AND b = 'x'", database)
    other = plan("SELECT count(*) FROM t WHERE NOT (a <> 1 OR b IS DISTINCT FROM 'x')", database)
    groups = plan("SELECT b, a, count(*) FROM t GROUP BY 1, 2", database)
    (key,) = one.workloads["t"].columns[0].row_keys
    assert other.workloads["t"].columns[0].row_keys == (key,)
    assert key in groups.workloads["t"].columns[0].row_keys
    assert np.prod(groups.workloads["t"].columns[0].height) == 12


TOGETHER_WITH_COUNTS = (
    "count(*)",
    "count(*), sum(c)",
    "sum(c), count(*)",
    "count(c), count(*)",
    "avg(c), count(*)",
    "count(*) FILTER (WHERE b = 'x'), count(*)",
    "sum(c) FILTER (WHERE a < 2), count(*)",
    "count(*), sum(c) FILTER (WHERE b = 'x' OR a < 2)",
)


@pytest.mark.parametrize("group", ["", " GROUP BY b", " GROUP BY b, a"])
def test_a_plan_is_the_same_whatever_was_planned_before(
    database: PublicDatabase, group: str
) -> None:
    """Statements share the cells that pass their condition, and not what is counted of them."""
    before = Rewriter({"t": domain_of(ATTRIBUTES)})
    for items in (*TOGETHER_WITH_COUNTS, *reversed(TOGETHER_WITH_COUNTS)):
        sql = f"SELECT {items} FROM t WHERE (a < 3 OR b = 'x') AND d{group}"
        ours, theirs = (
            rewriter.plan(sql, "postgres", database.cursor())
            for rewriter in (before, Rewriter({"t": domain_of(ATTRIBUTES)}))
        )
        for one, other in zip(ours.noisy, theirs.noisy, strict=True):
            assert one.keys.equals(other.keys)
            assert [o.type for o in one.outputs] == [o.type for o in other.outputs]
        assert ours.workloads.keys() == theirs.workloads.keys()
        for name, workload in ours.workloads.items():
            expected = theirs.workloads[name].columns
            found = [(matrix(c, None), c.multiplier) for c in workload.columns]
            assert found == [(matrix(c, None), c.multiplier) for c in expected]
