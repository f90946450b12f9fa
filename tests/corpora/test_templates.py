"""A statement planned by its like, with its own constants put in, is planned as from its text.

Statements are asked again and again with other constants, good ones, foolish ones and wrong ones,
by two rewriters of one policy: one that keeps templates, and one that plans each from its text.
The suite draws other constants each day; the long run draws many.
"""

from __future__ import annotations

import datetime as dt
import random
import time
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest

from tallyveil.errors import TallyveilError
from tallyveil.rewriter import Dialect, Plan, read_query, split, types_of
from tallyveil.rewriter.template import Templates
from tests.corpora.house import House
from tests.corpora.lab import case

_DAY = int(time.time() // 86_400)

_NUMBERS = ("0", "1", "2", "4", "7", "7", "12", "19", "20", "999", "2147483648", "05", "2.5", "1e1")
_TEXTS = (
    "AL", "AK", "F", "M", "F", "al", "", "it''s", "5", "now", "A%", "2020-01-25", "2020-02-03",
    "2020-02-30", "1999-12-31", "2020-01-25 00:00",
)  # fmt: skip

SHAPES = (
    "select count(*) from person where age < 7 and wage >= 4",
    "select count(*) from person where (age < 7 or age > -4) and not sex = 'F' and 12 >= age",
    "select count(*), count(*) from person where age between 4 and 7",
    "select state, count(*) from person where state in ('AL', 'AK') group by state order by 1",
    "select age, count(*) as n from person where age in (4, 7, 12) group by age order by age",
    "select count(*) filter (where age < 7) as a, count(*) filter (where age < 12) from person",
    "select count(*) filter (where cost < 4) a, count(*) filter (where cost < 5) b from visit",
    "select count(*) filter (where cost < 3) a, count(*) filter (where cost < 3) b from visit",
    "select young, count(*) filter (where young) as n"
    " from (select age, age < 7 as young from person) p group by age",
    "select age, count(*) as n from person where sex = 'F' group by 1 order by 2 limit 4 offset 1",
    "select sex, count(*) as n from person where age < 12 group by sex having count(*) > 4",
    "select age < 7 as young, count(*) as n from person where age < 7 group by age < 7",
    "select count(*) as n, 7 as seven, 'F' as f from person where age < 7 and sex = 'F'",
    "select sum(wage) as s, sum(wage) filter (where wage > 4) as t from person where age > 7",
    "select avg(age) as s from person where born >= DATE '2020-01-25' and born < '2020-02-03'",
    "select born, count(*) as n from person where born > '2020-01-25' group by born",
    "select sex, count(*) from person where income < 250 and age < 7 group by sex",
    "select count(*) from person where state like 'A%' and age = 7",
    "select count(*) from person where age + 1 < 7 and wage = 4",
    "select count(*) from person where age < 7::int and sex = 'F'::text and age > 4::bigint",
    "with old as (select * from person where age > 7) select count(*) from old where wage < 4",
    "with g as (select age, count(*) as n from person where sex = 'F' group by age)"
    " select * from g where n > 12 and age < 7",
    "select count(*) from person where age < 7 union all select count(*) from person where age < 4",
    "select rollup.age, count(*) as n from person as rollup where age < 4 group by rollup(age)",
    "select count(*) from adult where age < 12",
    "select variance(age) from person where sex = 'F' and age < 12",
    "select dp_probability(count(*), 4, 12) as p, count(*) from person where age < 7",
    "select count(*) from person where born > current_date and age < 4",
    "select 4 from person where age < 7",
    "select count(*) from person where ages < 7",
    "select count(*) from person where age < 'F' and sex < 7",
    "select count(*) from person where sex = 'F' limit 4",
    "select count(*) from person where state = 'AL' and state = 'AL' and sex = 'F'",
    "select count(*) from (select age, wage from person where sex = 'F') p where p.age > 4",
    "select r.pop, count(*) from person p join region r on p.state = r.code where p.age < 7"
    " group by r.pop",
)


def with_other_constants(sql: str, dialect: Dialect, chosen: random.Random) -> str:
    """The statement with some of its constants, or all, replaced."""
    pieces, end = [], 0
    some = chosen.random()
    for token in (token for piece in split(sql, dialect) for token in piece.tokens):
        written, kind = sql[token.start : token.end + 1], token.token_type.name
        if kind not in ("NUMBER", "STRING") or chosen.random() < some:
            continue
        text = kind == "STRING" and written.startswith("'")
        other = f"'{chosen.choice(_TEXTS)}'" if text else chosen.choice(_NUMBERS)
        pieces += [sql[end : token.start], other]
        end = token.end + 1
    return "".join([*pieces, sql[end:]])


def meaning(plan: Plan) -> Any:
    """Everything the gate sees of a plan."""
    noisy = []
    for t in plan.noisy:
        places = [None if o.rows is None else o.rows.tolist() for o in t.outputs]
        outputs = [(o.table, o.column, o.type, o.summed) for o in t.outputs]
        noisy.append((t.name, t.keys, t.height, outputs, places, t.deviations, t.claims))
    workloads = {
        table: (workload.key, [(c.multiplier, c.row_names) for c in workload.columns])
        for table, workload in plan.workloads.items()
    }
    said = (plan.domain_queries, plan.remarks, plan.cautions)
    return workloads, noisy, plan.sql, plan.relations, said, plan.projection


def planned(
    house: House, sql: str, dialect: Dialect, kept: bool, values: Sequence[Any] = ()
) -> Any:
    """What the statement means, or how it is refused."""
    cursor, rewriter = house.gate.database.cursor(), house.gate.rewriter
    try:
        [piece] = split(sql, dialect)
        query = read_query(piece, dialect)
        shape = None if query.time or query.of_session or not kept else query.shape
        types = rewriter.parameter_types(query.sql, dialect, types_of(values)) if values else ()
        plan = rewriter.plan(query.sql, dialect, cursor, types=types, values=values, shape=shape)
        return meaning(plan)
    except TallyveilError as error:
        return type(error), error.message, error.detail, error.hint, getattr(error, "position", 0)
    finally:
        cursor.close()


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """The plans that templates make."""
    made: list[Plan] = []
    find = Templates.find

    def kept(*arguments: Any) -> Plan | None:
        plan = find(*arguments)
        made.extend([plan] if plan is not None else [])
        return plan

    monkeypatch.setattr(Templates, "find", kept)
    return made


def run(house: House, statements: Sequence[tuple[str, Dialect]], times: int, seed: int) -> None:
    chosen = random.Random(seed)
    for sql, dialect in statements:
        for number in range(times):
            asked = with_other_constants(sql, dialect, chosen) if number else sql
            ours = planned(house, asked, dialect, kept=True)
            assert ours == planned(house, asked, dialect, kept=False), asked


def test_shapes_are_planned_alike_with_any_constants(house: House, served: list[Plan]) -> None:
    """Each in one dialect today, and in the other tomorrow."""
    dialects: tuple[Dialect, ...] = ("postgres", "duckdb")
    statements = [(sql, dialects[(n + _DAY) % 2]) for n, sql in enumerate(SHAPES)]
    run(house, statements, 3, seed=_DAY)
    assert len(served) > 12


_VALUES = (
    7, 7, 4, 12, 0, 1, 19, -1, 2**40, None, True, 2.5, Decimal("7"), "F", "F", "AL", "it's", "5",
    "", dt.date(2020, 1, 25), dt.date(2020, 2, 3), dt.datetime(2020, 1, 25), [4, 7],
)  # fmt: skip

_GOOD: dict[type, tuple[Any, ...]] = {
    int: (4, 7, 12),
    str: ("F", "M", "AL"),
    dt.date: (dt.date(2020, 1, 25), dt.date(2020, 2, 3)),
}

PREPARED = (
    ("select count(*) from person where age < $1 and wage >= $2", (7, 4)),
    ("select count(*) from person where age < ? and sex = ? and wage > 3", (7, "F")),
    (
        "select age, count(*) as n from person where sex = $1 group by age order by 2 limit $2",
        ("F", 4),
    ),
    (
        "select count(*) as n from person where born >= $1 and age between $2 and 7",
        (dt.date(2020, 1, 25), 4),
    ),
    (
        "select count(*) filter (where age < $1) as a, count(*) filter (where age < $2) as b"
        " from person where sex = $3",
        (4, 7, "F"),
    ),
    (
        "select count(*) filter (where age < $1), sum(wage) from person where sex in ('F', $2)",
        (4, "M"),
    ),
    (
        "select dp_probability(count(*), 0, $1) as p, count(*) as n from person where age < $1",
        (12,),
    ),
    ("select count(*) from person where age < $1::int and $2 = state", (7, "AL")),
    ("select $1 as x, count(*) as n from person where age < $2 group by age < $2", (7, 4)),
)


def test_prepared_statements_are_planned_alike_with_any_values(
    house: House, served: list[Plan]
) -> None:
    chosen = random.Random(_DAY)
    dialects: tuple[Dialect, ...] = ("postgres", "duckdb")
    for dialect in dialects:
        for sql, values in PREPARED:
            if "?" in sql and dialect == "postgres":
                continue
            for number in range(5):
                pools = [_VALUES if number % 3 == 2 else _GOOD[type(value)] for value in values]
                given = tuple(map(chosen.choice, pools)) if number else values
                ours = planned(house, sql, dialect, True, given)
                assert ours == planned(house, sql, dialect, False, given), (sql, given)
    assert len(served) > 8


def condition(chosen: random.Random, depth: int) -> str:
    if depth and chosen.random() < 0.4:
        left, right = condition(chosen, depth - 1), condition(chosen, depth - 1)
        return chosen.choice((f"({left} or {right})", f"({left} and {right})", f"not ({left})"))
    number, sign = chosen.choice(("age", "wage")), chosen.choice(("<", "<=", ">", ">=", "=", "<>"))
    n, m = chosen.randrange(20), chosen.randrange(20)
    return chosen.choice(
        (
            f"{number} {sign} {n}",
            f"{n} {sign} {number}",
            f"{number} in ({n}, {m})",
            f"{number} between {n} and {m}",
            f"sex {sign} '{chosen.choice('FM')}'",
            f"state in ('AL', '{chosen.choice(('AK', 'WY', 'xx'))}')",
            f"born {sign} date '2020-01-{chosen.randrange(20, 31)}'",
            "sex is not null and married",
        )
    )


def drawn(seed: int) -> tuple[str, Dialect]:
    """A statement that asks for what attributes' axes can tell."""
    chosen = random.Random(seed)
    parts = ("count(*)", "sum(age)", "count(sex)", "avg(wage)", "sum(wage) + count(*)")
    items = [chosen.choice(parts) for _ in range(chosen.randrange(1, 3))]
    if chosen.random() < 0.5:
        items.append(f"count(*) filter (where {condition(chosen, 1)})")
    keys = chosen.choice(((), (), ("age",), ("sex",), ("sex", "state")))
    named = [f"{item} as c{n}" for n, item in enumerate(items)]
    sql = f"select {', '.join((*keys, *named))} from person where {condition(chosen, 2)}"
    if keys:
        sql += f" group by {', '.join(keys)}"
        sql += chosen.choice(("", " having count(*) > 3", " order by 2 desc limit 5"))
    return sql, chosen.choice(("postgres", "duckdb"))


def test_drawn_statements_are_planned_alike_with_any_constants(
    house: House, served: list[Plan]
) -> None:
    run(house, [drawn(seed) for seed in range(8 * _DAY, 8 * (_DAY + 1))], 4, seed=_DAY)
    run(house, [drawn(seed) for seed in range(5)], 4, seed=0)
    assert len(served) > 1  # of the latter alone, whatever the day's are


@pytest.mark.slow
@pytest.mark.parametrize("start", range(10_000, 13_000, 500))
def test_any_statements_are_planned_alike_long(house: House, start: int) -> None:
    cases = [case(seed, 1 + seed % 5) for seed in range(start, start + 500)]
    run(house, [(one.statement.sql, one.dialect) for one in cases], 3, seed=start)
    run(house, [drawn(seed) for seed in range(start, start + 500)], 8, seed=start)
