"""Groups and their total agree where one statement asks both, and intervals hold what is told."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tallyveil
from tests.gate.asking import Connect
from tests.pairs import pairs_first

ROLLUP = "SELECT state, sex, count(*) FROM person GROUP BY ROLLUP (state, sex)"


def test_groups_and_their_total_agree_where_a_part_of_one_group_is_asked_too(
    connect: Connect,
) -> None:
    connection = connect(budget={"epsilon": 100})
    for age in range(10, 70, 15):
        person = f"FROM person WHERE age < {age}"
        for keys in ("state", "sex", "state, sex"):
            connection.execute(f"SELECT {keys}, count(*) {person} GROUP BY {keys}")
        part = "state = 'WY' AND sex = 'F'"
        rows = connection.execute(
            f"SELECT grouping(state), count(*), count(*) FILTER (WHERE {part}) {person}"
            " GROUP BY ROLLUP (state)"
        ).fetchall()
        assert sum(n for g, n, _ in rows if not g) == sum(n for g, n, _ in rows if g)
        rows = connection.execute(
            f"SELECT 0, count(*) {person} GROUP BY sex UNION ALL SELECT 1, count(*) {person}"
            f" UNION ALL SELECT 2, count(*) {person} AND {part}"
        ).fetchall()
        assert sum(n for g, n in rows if g == 0) == sum(n for g, n in rows if g == 1)


@pytest.mark.parametrize(
    ("value", "nonnegative"),
    [
        ("(a + 1) / 10", "on"),
        ("a * 100000000000 + b", "off"),
        ("a * 100000000000.5 + b / 8 - 7", "on"),
        pytest.param("(a + 1) / 10", "off", marks=pytest.mark.slow),
        pytest.param("a * 100000000000 + b", "on", marks=pytest.mark.slow),
        pytest.param("a * 100000000000.5 + b / 8 - 7", "off", marks=pytest.mark.slow),
    ],
)
def test_sums_of_many_digits_agree_as_counts_do(
    tmp_path: Path, value: str, nonnegative: str
) -> None:
    """Sums of 16 digits and more: of integers to the last one, of doubles up to their rounding."""
    with duckdb.connect() as source:
        source.execute(
            "CREATE TABLE people AS SELECT i * i % 3 AS a, i % 7 % 2 AS b FROM range(400000) t(i)"
        )
        attributes = {"a": {"range": [0, 2]}, "b": {"range": [0, 1]}}
        table = {"from": "people", "budget": {"epsilon": 10}, "attributes": attributes}
        policy = tallyveil.parse_policy(
            {"tables": {"person": table}, "defaults": {"epsilon": 0.01}}, base=tmp_path
        )
        with tallyveil.connect(policy, source=source) as connection:
            connection.execute(f"SET dp.nonnegative = {nonnegative}")
            for number, keys in enumerate(("a", "b", "a, b"), 1):
                connection.execute(f"SET dp.epsilon = 0.0{number}")
                connection.execute(f"SELECT {keys}, sum({value}) FROM person GROUP BY {keys}")
            connection.execute("SET dp.source = history")
            one = f"sum({value}) AS n, dp_interval_low(n), dp_interval_high(n) FROM person"
            rows = connection.execute(
                f"SELECT 'a', {one} GROUP BY a UNION ALL SELECT 'b', {one} GROUP BY b"
                f" UNION ALL SELECT 'both', {one} GROUP BY a, b UNION ALL SELECT 'all', {one}"
            ).fetchall()
            assert "need not add up" not in str(connection.notices[-1])
    [total] = [Fraction(n) for of, n, _, _ in rows if of == "all"]
    for groups in ("a", "b", "both"):
        parts = [n for of, n, _, _ in rows if of in (groups, "all")]
        lost = sum(math.ulp(n) / 2 for n in parts if isinstance(n, float))
        assert abs(sum(map(Fraction, parts)) - 2 * total) <= lost
    assert all(low <= n <= high for _, n, low, high in rows)


@pytest.mark.parametrize("value", ["a + 1", "b", "(a + 1) / 10", "6 * a - 9"])
def test_sums_agree_with_what_public_counts_say_of_them(tmp_path: Path, value: str) -> None:
    """Sums of the records of each a are public where b has no part in the value."""
    with duckdb.connect() as source:
        source.execute(
            "CREATE TABLE people AS SELECT i * i % 3 AS a, i % 7 AS b FROM range(3000) t(i)"
        )
        table = {
            "from": "people",
            "neighbours": "replace",
            "budget": {"epsilon": 10},
            "attributes": {"a": {"range": [0, 2]}, "b": {"range": [0, 6]}},
            "invariants": [{"sql": "SELECT a, count(*) FROM person GROUP BY a"}],
        }
        policy = tallyveil.parse_policy(
            {"tables": {"person": table}, "defaults": {"epsilon": 0.05}}, base=tmp_path
        )
        sums = f"sum({value}) FROM person"
        sql = (
            f"SELECT 'both', a, {sums} GROUP BY a, b UNION ALL SELECT 'a', a, {sums} GROUP BY a"
            f" UNION ALL SELECT 'b', NULL, {sums} GROUP BY b UNION ALL SELECT 'all', NULL, {sums}"
        )
        with tallyveil.connect(policy, source=source) as connection:
            rows = connection.execute(sql).fetchall()
            assert "add up" not in str(connection.notices)
        # In steps of 2^-41 the values are exact, and so are their sums.
        [total] = [n for of, _, n in rows if of == "all"]
        for groups in ("both", "a", "b"):
            assert sum(n for of, _, n in rows if of == groups) == total
        for a in range(3):
            [total] = [n for of, own, n in rows if (of, own) == ("a", a)]
            assert sum(n for of, own, n in rows if (of, own) == ("both", a)) == total


@pytest.fixture
def exact(tmp_path: Path) -> Callable[[], tallyveil.Connection]:
    """Where the number of records is public."""
    source = duckdb.connect()
    source.execute("CREATE TABLE people AS SELECT i % 2 AS sex, i % 7 AS day FROM range(3000) t(i)")
    attributes = {
        "sex": {"values": [0, 1], "other": True},
        "day": {"range": [0, 6], "clamp": True, "nullable": True},
    }
    declared: dict[str, Any] = {
        "from": "people",
        "neighbours": "replace",
        "budget": {"epsilon": 10},
        "attributes": attributes,
    }
    policy = tallyveil.parse_policy(
        {"tables": {"person": declared}, "defaults": {"epsilon": 0.1}}, base=tmp_path
    )
    return lambda: tallyveil.connect(policy, source=source)


@pytest.mark.parametrize(
    ("factors", "by", "answers"),
    pairs_first([(2, 3), (4, -6), (6, 10, 15)], ["sex", "sex, state"], ["auto", "history"]),
)
def test_multiples_of_a_count_agree_where_none_divides_all(
    connect: Connect, factors: tuple[int, ...], by: str, answers: str
) -> None:
    """The counts themselves are not asked, and the sums are not always such multiples."""
    connection = connect(budget={"epsilon": 100})
    connection.execute("SET dp.source = fresh")
    for epsilon in (0.2, 0.3, 0.35):  # so that the best estimates are no integers
        connection.execute(f"SET dp.epsilon = {epsilon}")
        connection.execute(f"SELECT {by}, count(*) FROM person GROUP BY {by}")
    connection.execute(f"SET dp.source = {answers}")
    sums = ", ".join(f"sum(CASE sex WHEN 'F' THEN {factor} ELSE 1 END)" for factor in factors)
    rows = connection.execute(f"SELECT sex, {sums} FROM person GROUP BY {by}").fetchall()
    for sex, *values in rows:
        pairs = zip(values, factors, strict=True)
        counts = {Fraction(int(n), c if sex == "F" else 1) for n, c in pairs}
        assert len(counts) == 1
        assert min(counts) * math.gcd(*factors) % 1 == 0
