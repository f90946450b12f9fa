"""Joint codes that are derived: representatives find every pair of cells that a value can have."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import duckdb
import numpy as np
import pytest

from tallyveil.cube.coding import code
from tallyveil.cube.joint.joint_codes import Former, Pairs, pairs
from tallyveil.cube.reading import read
from tallyveil.errors import FeatureNotSupported
from tallyveil.policy import parse_policy
from tallyveil.policy.axes import AttributeDeclaration
from tallyveil.policy.domain import Attribute


def axis(**keys: Any) -> Attribute:
    tables = {"t": {"attributes": {"a": keys}, "budget": {"epsilon": 1}}}
    return parse_policy({"tables": tables}).tables["t"].domain["a"]


def derived(before: Attribute, since: Attribute, kind: str) -> tuple[set[tuple[int, int]], bool]:
    former = [Former(AttributeDeclaration(values=("a",)), before, None)]
    found, covers = pairs(since, former, before.size, "a", kind)
    return {*zip(found.new, found.old, strict=True)}, covers


def test_with_clamp_a_number_between_the_last_two_cells_was_in_the_last() -> None:
    """115.5 lay in cell 115 of 0 to 115, and is no number of 0 to 120: the cell of NULL, or of
    what is left out, came from 115 too. Whole numbers did not, whatever the labels say."""
    old, new = axis(range=[0, 115], clamp=True), axis(range=[0, 120], clamp=True)
    assert (-1, 115) in derived(old, new, "DOUBLE")[0]
    assert (-1, 115) not in derived(old, new, "INTEGER")[0]
    nullable = axis(range=[0, 120], clamp=True, nullable=True)
    found = derived(axis(range=[0, 115], clamp=True, nullable=True), nullable, "DECIMAL(9,2)")[0]
    assert {(121, 115), (121, 116), (115, 115), (116, 115)} <= found
    assert (114, 115) not in found


def test_cells_that_no_value_reaches_may_come_from_anywhere() -> None:
    """Numbers that the column cannot hold: what the representatives do not show is not excluded."""
    old, new = axis(values=[1, 300]), axis(values=[1, 2, 400])
    found, covers = derived(old, new, "UTINYINT")
    assert {(0, 0), (1, -1), (2, -1), (2, 0), (2, 1), (0, 1), (-1, 1)} <= found
    assert not covers


def test_a_pair_without_a_cell_is_the_first_of_its_code() -> None:
    own = Pairs((0, 1, 1, -1), (0, 0, 1, 2))
    codes, former = np.array([1, 1, 1, 0, -1, -1, 2]), np.array([1, 0, 2, 2, 2, -1, 0])
    assert own.cells(codes, former).tolist() == [2, 1, 1, 0, 3, -1, -1]


KINDS = {
    "DOUBLE": "(random() * 40 - 10)", "FLOAT": "CAST(random() * 40 - 10 AS FLOAT)",
    "DECIMAL(6,2)": "CAST(random() * 40 - 10 AS DECIMAL(6,2))",
    "INTEGER": "CAST(random() * 40 - 10 AS INTEGER)",
    "VARCHAR": "CAST(round(random() * 40 - 10, CAST(random() * 3 AS INTEGER)) AS VARCHAR)",
    "DATE": "DATE '2026-01-01' + CAST(random() * 40 AS INTEGER)",
    "TIMESTAMP": "TIMESTAMP '2026-01-01' + to_seconds(CAST(random() * 3e6 AS BIGINT))",
}  # fmt: skip


def drawn(draw: random.Random, kind: str) -> dict[str, Any]:
    """A declaration of numbers, of days or times, or of texts, as the column's type allows."""
    low, size = draw.randint(-3, 8), draw.randint(1, 9)
    more: dict[str, Any] = draw.choice([{}, {"nullable": True}, {"other": True}])
    if kind in ("DATE", "TIMESTAMP") and draw.random() < 0.4:
        first, hours = dt.datetime(2026, 1, draw.randint(1, 9), 10), draw.randint(1, 9)
        ends = [first, first + hours * draw.randint(1, 30) * dt.timedelta(hours=1)]
        own: dict[str, Any] = {"range": ends, "step": f"{hours} hours"}
    elif kind in ("DATE", "TIMESTAMP"):
        ends = [f"2026-01-{draw.randint(1, 9):02}", f"2026-01-{draw.randint(10, 31)}"]
        own = {"range": [np.datetime64(one).item() for one in ends]}
    elif kind == "VARCHAR" and draw.random() < 0.3:
        size = draw.randint(1, 3)
        own = {"values": draw.sample(["-1", "1", "10", "1.5", "7"], 2)}
        own |= {} if any(len(one) > size for one in own["values"]) else {"prefix": size}
    elif draw.random() < 0.3:
        own = {"bins": sorted(draw.sample(range(-4, 30), size + 1))}
    elif draw.random() < 0.4:
        step = draw.choice([0.5, 2, 1, 0.25])
        own = {"range": [2 * low, 2 * low + size * step], "step": step}
    else:
        own = {"range": [low, low + size]}
    if "other" not in more and "values" not in own and draw.random() < 0.5:
        own["clamp"] = True
    return own | more


@pytest.mark.parametrize("kind", KINDS)
def test_no_value_has_a_pair_of_cells_that_was_not_found(kind: str) -> None:
    """Thousands of values, and declarations that nobody would write."""
    draw = random.Random(kind)
    with duckdb.connect() as source:
        source.execute(f"CREATE TABLE t AS SELECT {KINDS[kind]} AS v FROM range(5000)")
        for _ in range(8):
            axes = [axis(**drawn(draw, kind)) for _ in range(2)]
            codings = [code(n, one) for n, one in enumerate(axes)]
            reads = ", ".join(f"{read(one, 'v', kind)} AS v{n}" for n, one in enumerate(axes))
            cells = ", ".join(f"coalesce(CAST({one.expression} AS INT), -1)" for one in codings)
            joins = " ".join(one.join for one in codings)
            asked = f"SELECT DISTINCT {cells} FROM (SELECT {reads} FROM t) AS record {joins}"
            every = source.execute(asked, {k: v for c in codings for k, v in c.parameters.items()})
            try:
                found, covers = derived(axes[0], axes[1], kind)
            except FeatureNotSupported:
                assert len({one.sql_type == "VARCHAR" for one in axes}) == 2  # texts and numbers
                continue
            own = {(new, old) for old, new in every.fetchall()}
            assert own - {(-1, -1)} <= found, (axes, own - found)
            assert not (covers and (-1, -1) in own)


def test_too_many_cells_are_refused_before_they_take_memory() -> None:
    many, others = axis(values=[*range(10_000, 13_000)]), axis(values=[*range(300, 3_300)])
    with pytest.raises(FeatureNotSupported, match="too many cells"):
        derived(many, others, "UTINYINT")


_DAYS = {"range": [dt.date(2020, 1, 1), dt.date(2020, 1, 4)], "other": True}
_TIMES = {"range": [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 4)], "step": "24 hours"}
_HOURS = {"range": [dt.time(0), dt.time(23)], "step": "1 hour", "other": True}


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        # 2020-01-01 and 2020-01-05 differ in ten characters, and not in seven
        ({"values": ["2020-01"], "prefix": 7}, {"values": ["2020-01-01"], "prefix": 10}, "DATE"),
        ({"values": ["12"], "prefix": 2}, {"values": ["12", "123"], "prefix": 3}, "INTEGER"),
        # 2020-01-02 23:30:00-05:00 is of that day, and of 2020-01-03 in UTC
        (_DAYS, _TIMES, "VARCHAR"),
        (_DAYS, _HOURS, "TIMESTAMP"),
        ({"values": ["1", "0"], "prefix": 1}, {"range": [5, 7], "clamp": True}, "BIGINT"),
        ({"values": ["0."], "prefix": 2}, {"bins": [-5, 2, 12]}, "VARCHAR"),
        ({"values": ["0", "1"], "nullable": True}, {"values": ["0"], "nullable": True}, "INTEGER"),
    ],
)
def test_values_that_are_read_in_different_orders_are_not_paired(
    old: dict[str, Any], new: dict[str, Any], kind: str
) -> None:
    """Some records would be in pairs of cells that no representative has."""
    with pytest.raises(FeatureNotSupported, match="is not certain"):
        derived(axis(**old), axis(**new), kind)


def test_every_value_has_a_cell_only_where_a_declaration_has_all() -> None:
    listed, fewer = axis(values=[0, 1], nullable=True), axis(values=[0], nullable=True)
    assert not derived(listed, fewer, "UTINYINT")[1]
    assert derived(listed, axis(values=[0], other=True), "UTINYINT")[1]


@pytest.mark.parametrize("kind", ["INTERVAL", "VARCHAR"])
def test_no_duration_has_a_pair_of_cells_that_was_not_found(kind: str) -> None:
    old = axis(range=["0 hours", "3 hours"], step="1 hour", clamp=True, nullable=True)
    new = axis(range=["30 minutes", "4 hours"], step="30 minutes", other=True)
    found, covers = derived(old, new, kind)
    with duckdb.connect() as connection:
        spans = "to_seconds(CAST(random() * 3e4 - 1e4 AS BIGINT)) + to_days(CAST(i % 2 AS INTEGER))"
        odd = "UNION ALL SELECT unnest(['1 month', '01:00:00', '30 minutes', '1 day'])::INTERVAL"
        connection.execute(f"CREATE TABLE t AS SELECT {spans} AS v FROM range(3000) t(i) {odd}")
        connection.execute(f"ALTER TABLE t ALTER v TYPE {kind}")
        codes = ", ".join(
            f"coalesce({code(n, one).expression}, -1)" for n, one in enumerate((new, old))
        )
        reads = ", ".join(f"{read(one, 'v', kind)} AS v{n}" for n, one in enumerate((new, old)))
        pairs_there = connection.execute(f"SELECT DISTINCT {codes} FROM (SELECT {reads} FROM t)")
        assert {*pairs_there.fetchall()} <= found
    assert covers
