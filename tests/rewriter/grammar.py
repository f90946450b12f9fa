"""Hypothesis strategies for statements of the kind that is answered, over `world.DOMAIN`.

Expressions are typed as both databases type them, so that most of what is drawn is answered. Two
things are avoided since tallyveil documents them to differ from SQL: a SUM over no record is 0
here and NULL there, and a group without records is a row here and none there.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.rewriter.world import DOMAIN

__all__ = ["statements"]

Text = SearchStrategy[str]

_INTEGERS = st.integers(-5, 40).map(lambda n: f"({n})" if n < 0 else str(n))
_DECIMALS = st.sampled_from(["0.5", "2.5", "1.25", "10.0", "0.1", "3.75"])
_TEXTS = st.sampled_from(
    ["'AL'", "'F'", "''", "'x_y%'", "' pad'", "'zz'", "'A'", "'wy'", "'it''s'"]
)
_PATTERNS = st.sampled_from(["'A%'", "'_L'", "'%y%'", "'x!_%'", "''", "'%'", "'_'", "' p_d'"])
_DATES = st.dates(dt.date(2019, 12, 17), dt.date(2020, 1, 31)).map(lambda day: f"date '{day}'")
# A bin reads as its lower edge, not as the raw value: no key to compare.
_KEYS = [a.name for a in DOMAIN.attributes if a.kind != "bins"]
_COMPARISONS = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
_BINS = st.sampled_from(
    ["(income < 100)", "(income >= 250)", "(250 <= income)", "(100 > income)",
     "(income >= -3)", "(income between 0 and 5000)", "(income is null)", "(income = 4000)",
     "(income in (-7, 1000))", "(income < 2 * 50)", "(not income < 250)", "(income >= 100.0)"]
)  # fmt: skip


def _any(*strategies: SearchStrategy[Any]) -> SearchStrategy[Any]:
    """One of them, each as often; `st.one_of` would weigh each by its own alternatives."""
    return st.sampled_from(strategies).flatmap(lambda strategy: strategy)


def _two(template: str, left: Text, right: Text) -> Text:
    return st.tuples(left, right).map(lambda pair: template.format(*pair))


def _one(template: str, inner: Text) -> Text:
    return inner.map(template.format)


def _case(condition: Text, value: Text) -> Text:
    return st.tuples(condition, value, value).map(
        lambda p: f"case when {p[0]} then {p[1]} else {p[2]} end"
    )


class _Expressions:
    """One strategy per type, of expressions nested to a depth."""

    def __init__(self, dialect: str, depth: int) -> None:
        self.dialect = dialect
        if depth == 0:
            self.integer: Text = _any(st.sampled_from(["age", "person.age"]), _INTEGERS)
            self.number: Text = st.just("score")
            self.text: Text = _any(st.sampled_from(["state", "sex"]), _TEXTS)
            self.date: Text = _any(st.just("born"), _DATES)
            self.truth: Text = _any(st.just("married"), _BINS)
            return
        inner = _Expressions(dialect, depth - 1)
        self.integer = _any(inner.integer, inner._integer())
        self.number = _any(inner.number, inner._number())
        self.text = _any(inner.text, inner._text())
        self.date = _any(inner.date, inner._date())
        self.truth = inner._truth()

    def _integer(self) -> Text:
        i, t, d = self.integer, self.text, self.date
        return _any(
            _two("({} + {})", i, i), _two("({} - {})", i, i),
            _two("{} * {}", st.just("age"), _INTEGERS),
            _two("({} % {})", i, st.sampled_from(["3", "7", "(-4)"])),
            _one("(-{})", i), _one("abs({})", i), _one("length({})", t), _case(self.truth, i),
            _two("({} / {})", i, st.sampled_from(["2", "7", "(-3)"])) if self.dialect == "postgres"
            else _two("({} // {})", i, st.sampled_from(["2", "7", "(-3)"])),
            _two("coalesce({}, {})", _two("nullif({}, {})", i, i), i),
            _two("greatest({}, {})", i, i), _two("least({}, {})", i, i),
            _two("({} - {})", d, d), _one("cast({} as integer)", self.truth),
            _one("cast(extract(day from {}) as integer)", d),
            _one("cast({} as integer)", self.number), _two("position({} in {})", _TEXTS, t),
            st.sampled_from(["age - 1 - 2", "age + 2 * 3", "-age + 1", "age * 2 % 5", "- age % 4"]),
        )  # fmt: skip

    def _number(self) -> Text:
        i, n = self.integer, self.number
        return _any(
            _two("({} * {})", i, _DECIMALS), _two("({} + {})", i, _DECIMALS),
            _two("({} / {})", i, _DECIMALS), _one("abs({})", n), _one("round({})", n),
            _one("floor({})", n), _one("ceil({})", n), _one("trunc({})", n), _one("sign({})", n),
            _two("({} - {})", st.just("score"), i), _one("sqrt(abs({}))", i),
            _two("coalesce({}, {})", st.just("score"), i), _case(self.truth, st.just("score")),
            _one("cast({} as double precision)", i), _two("round({}, {})",
            _two("{} * {}", st.just("age"), _DECIMALS), st.sampled_from(["0", "1", "2"])),
        )  # fmt: skip

    def _text(self) -> Text:
        t, i = self.text, self.integer
        return _any(
            _one("upper({})", t), _one("lower({})", t), _one("trim({})", t),
            _two("({} || {})", t, t), _two("left({}, {})", t, st.integers(-2, 3).map(str)),
            _two("right({}, {})", t, st.integers(-2, 3).map(str)),
            st.tuples(t, st.integers(-2, 4), st.integers(0, 3)).map(
                lambda p: f"substring({p[0]}, {p[1]}, {p[2]})"
            ),
            _two("coalesce({}, {})", t, _TEXTS), _two("nullif({}, {})", t, _TEXTS),
            _case(self.truth, t), _two("replace({}, 'A', {})", t, _TEXTS),
            _two("concat({}, {})", t, i), _one("cast({} as varchar)", i),
            _one("cast({} as text)", self.date), _one("split_part({}, '_', 2)", t),
        )  # fmt: skip

    def _date(self) -> Text:
        d = self.date
        return _any(
            _two("({} + {})", st.just("born"), st.integers(0, 20).map(str)),
            _one("cast(date_trunc('month', {}) as date)", d),
            _one("cast(date_trunc('week', {}) as date)", d), _two("coalesce({}, {})", d, _DATES),
            _one("cast({} + interval '1 month' as date)", st.just("born")),
        )  # fmt: skip

    def _truth(self) -> Text:
        b = self.truth
        kinds = [self.integer, self.number, self.text, self.date]
        compared = [
            st.tuples(kind, _COMPARISONS, kind).map(lambda p: f"({p[0]} {p[1]} {p[2]})")
            for kind in kinds
        ]
        parts = ["year", "month", "day", "dow", "week", "quarter", "doy", "isodow"]
        return _any(
            *compared,
            _BINS, _two("({} and {})", b, b), _two("({} or {})", b, b),
            _one("(not {})", b), _two("{} or {} and sex = 'F'", b, b).map(lambda s: f"({s})"),
            _one("({} is null)", self.text), _one("({} is not null)", self.integer),
            _one("({} is true)", b), _one("({} is not false)", b),
            _two("({} is distinct from {})", self.text, self.text),
            _two("({} is not distinct from {})", self.integer, self.integer),
            _two("({} like {})", self.text, _PATTERNS),
            _two("({} not like {})", self.text, _PATTERNS),
            _two("({} ilike {})", self.text, _PATTERNS),
            _two("({} like {} escape '!')", self.text, _PATTERNS),
            st.tuples(self.integer, _INTEGERS, _INTEGERS).map(
                lambda p: f"({p[0]} between {p[1]} and {p[2]})"
            ),
            st.tuples(self.text, _TEXTS, _TEXTS).map(lambda p: f"({p[0]} in ({p[1]}, {p[2]}))"),
            st.tuples(self.integer, _INTEGERS).map(lambda p: f"({p[0]} not in ({p[1]}, 3, null))"),
            st.tuples(st.sampled_from(parts), self.date, _INTEGERS).map(
                lambda p: f"(extract({p[0]} from {p[1]}) > {p[2]})"
            ),
            _two("({} = {})", b, b),
        )  # fmt: skip


def statements(dialect: str) -> SearchStrategy[tuple[str, bool]]:
    """(a statement, whether its rows have an order)."""
    e = _Expressions(dialect, 3)
    return st.builds(_statement, *_parts(e))


def _parts(e: _Expressions) -> tuple[SearchStrategy[object], ...]:
    filtered = _any(st.just(""), _one(" filter (where {})", e.truth))
    aggregate = _any(
        _one("count(*){}", filtered),
        _two("count({}){}", _any(e.text, e.integer, e.date, e.truth), filtered),
        _two("coalesce(sum({}){}, 0)", e.integer, filtered),
        _two("coalesce(sum({}){}, 0)", e.number, filtered),
        _two("avg({}){}", e.integer, filtered),
        _two("2 * count(*){} - count({})", filtered, e.text),
        _two("count({}) - 3 * (count(*) + 1){}", e.date, st.just("")),
        _two("coalesce(sum({}), 0) * 1.0 / nullif(count(*){}, 0)", e.integer, filtered),
    )
    key = _any(
        st.sampled_from(_KEYS), e.integer, e.text, e.date, e.truth,
        e.number,
    )  # fmt: skip
    return (
        st.lists(key, max_size=3),
        st.lists(aggregate, max_size=3),
        _any(st.none(), e.truth),
        _any(st.none(), st.integers(0, 5)),
        st.sampled_from(["names", "numbers", "expressions"]),
        st.booleans(),
    )


def _statement(
    keys: list[str],
    aggregates: list[str],
    where: str | None,
    limit: int | None,
    grouping: str,
    descending: bool,
) -> tuple[str, bool]:
    items = [f"{key} as k{i}" for i, key in enumerate(keys)] + aggregates + ["count(*) as n"]
    sql = f"select {', '.join(items)} from person"
    if where is not None:
        sql += f" where {where}"
    if not keys:
        return sql, False
    by = {
        "names": [f"k{i}" for i in range(len(keys))],
        "numbers": [str(i + 1) for i in range(len(keys))],
        "expressions": [f"({key})" for key in keys],
    }[grouping]
    sql += f" group by {', '.join(by)} having count(*) > 0"
    if limit is None:
        return sql, False
    direction = " desc" if descending else ""
    order = ", ".join(f"k{i}{direction}" for i in range(len(keys)))
    return f"{sql} order by {order} limit {limit}", True
