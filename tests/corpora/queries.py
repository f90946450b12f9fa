"""Statements of the kind that is answered, and how their answer is to be compared.

`statement` is a function of its seed, size and dialect alone. Two documented differences from SQL
are kept out of the way: a SUM over no record is 0 here and NULL there, so sums stand in COALESCE
where nothing may be summed; and a declared group without records is a row here and none there, so
groups are kept by ``HAVING count(*) > 0``, or come with their count, by which the test drops them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.corpora.draw import Draw
from tests.corpora.expressions import KINDS, Column, Expressions
from tests.corpora.records import Records

__all__ = ["Statement", "statement"]


@dataclass(frozen=True)
class Statement:
    """``counted``: rows of ours whose last column is 0 are groups that SQL does not have."""

    sql: str
    ordered: bool = False
    counted: bool = False


@dataclass
class _Block:
    """An aggregating SELECT in parts; ``columns`` are its output, keys first."""

    columns: list[tuple[str, str]]
    items: list[str]
    tail: str
    keys: list[str]
    tests: list[str] = field(default_factory=list)

    def sql(self) -> str:
        having = f" having {' and '.join(self.tests)}" if self.tests else ""
        return f"select {', '.join(self.items)} from {self.tail}{having}"


def statement(draw: Draw, size: int, dialect: str) -> Statement:
    """One statement; the larger ``size`` the deeper."""
    return _Queries(draw, size, dialect).statement()


class _Queries:
    def __init__(self, draw: Draw, size: int, dialect: str) -> None:
        self._draw = draw
        self._size = size
        self._dialect = dialect
        self._records = Records(draw, dialect, size)

    def statement(self) -> Statement:
        shapes = [
            self._counted, self._kept, self._limited, self._windows, self._around, self._again,
            self._joined, self._united, self._scalars, self._named, self._view,
        ]  # fmt: skip
        made = self._draw.one(shapes if self._size > 1 else shapes[:3])()
        common = self._records.common
        if not common:
            return made
        return Statement(f"with {', '.join(common)} {made.sql}", made.ordered, made.counted)

    # The shapes

    def _counted(self) -> Statement:
        block = self._block(kept=False)
        block.items.append("count(*) as n")
        return Statement(block.sql(), counted=True)

    def _kept(self) -> Statement:
        return Statement(self._block().sql())

    def _limited(self) -> Statement:
        draw, block = self._draw, self._block()
        # Whole numbers and keys decide; where all are equal, so are the rows.
        places = sorted(range(len(block.columns)), key=lambda i: block.columns[i][1] == "number")
        order = ", ".join(
            f"{i + 1}{draw.one(['', ' desc'])}{draw.one(['', ' nulls first', ' nulls last'])}"
            for i in places
        )
        limit = f" limit {draw.below(5)}" if draw.often(3) else ""
        offset = f" offset {draw.below(3)}" if draw.rarely(4) else ""
        return Statement(f"{block.sql()} order by {order}{limit}{offset}", ordered=True)

    def _windows(self) -> Statement:
        block = self._block(sets=False, everything=False)
        by = self._draw.one(block.keys) if block.keys else "1"
        block.items += [
            self._draw.one([
                "rank() over (order by count(*) desc)",
                "sum(count(*)) over ()",
                f"sum(count(*)) over (partition by {by})",
                "count(*) * 100.0 / nullif(sum(count(*)) over (), 0)",
                f"dense_rank() over (partition by {by} order by count(*))",
                "max(count(*)) over (order by count(*))",
            ])
            for _ in range(1 + self._draw.below(2))
        ]  # fmt: skip
        return Statement(block.sql())

    def _around(self) -> Statement:
        """A SELECT around the noisy rows: filtered, computed with, joined with a public table."""
        alias, source, own, columns = self._noisy()
        items = [f"{alias}.{name}" for name, _ in columns]
        items.append(own.integer())
        texts = [f"{alias}.{name}" for name, kind in columns if kind == "text"]
        joined = ""
        if texts and self._draw.rarely(2):
            side = self._draw.one(["join", "left join"])
            joined = f" {side} state_name as s on s.state = {self._draw.one(texts)}"
            items.append("s.name")
        where = f" where {own.truth()}" if self._draw.rarely(2) else ""
        return Statement(f"select {', '.join(items)} from {source}{joined}{where}")

    def _again(self) -> Statement:
        """Noisy rows aggregated again: anything goes, MAX and count(DISTINCT …) included."""
        draw = self._draw
        alias, source, own, columns = self._noisy()
        numbers = [f"{alias}.{name}" for name, kind in columns if kind in ("integer", "number")]
        items = [
            draw.one(["max({})", "min({})", "sum({})", "avg({})", "count({})"]).format(
                draw.one(numbers)
            )
            for _ in range(1 + draw.below(3))
        ]
        items.append(f"count(distinct {own.integer()})")
        where = f" where {own.truth()}" if draw.rarely(3) else ""
        key = draw.one(columns)[0]
        if draw.rarely(2) and dict(columns)[key] != "number":
            listed = ", ".join([f"{alias}.{key}", *items])
            return Statement(f"select {listed} from {source}{where} group by {alias}.{key}")
        return Statement(f"select {', '.join(items)} from {source}{where}")

    def _joined(self) -> Statement:
        """Two answers joined by a key."""
        kind = self._draw.one(KINDS)
        a, b = (self._block(keys=[kind], sets=False) for _ in range(2))
        x, y = self._records.name("x"), self._records.name("y")
        side = self._draw.one(["join", "left join", "full join"])
        items = [f"{x}.k0", f"{y}.k0", f"{x}.n", f"{y}.n", f"{x}.n - {y}.n"]
        left, right = self._place(x, a), self._place(y, b)
        return Statement(f"select {', '.join(items)} from {left} {side} {right} on {x}.k0 = {y}.k0")

    def _united(self) -> Statement:
        kinds = [self._draw.one(KINDS) for _ in range(self._draw.below(2))]
        word = self._draw.one(["union all", "union all", "union", "intersect", "except"])
        parts = []
        for _ in range(2):
            block = self._block(keys=kinds, plain=True)
            parts.append(block.sql())
        return Statement(f" {word} ".join(parts))

    def _scalars(self) -> Statement:
        a, b = (self._block(keys=[], plain=True).sql() for _ in range(2))
        if self._draw.rarely(2):
            return Statement(f"select ({a}) * 1.0 / nullif(({b}), 0), ({a}) - 3")
        block = self._block()
        block.items.append(f"count(*) - ({a})")
        block.tests.append(f"count(*) <> ({b})")
        return Statement(block.sql())

    def _named(self) -> Statement:
        """A common table of noisy rows, read twice."""
        block = self._block(keys=[self._draw.one(KINDS)], sets=False)
        name = self._records.name("w")
        self._records.common.append(f"{name} as ({block.sql()})")
        return Statement(
            f"select a.k0, a.n + b.n, (select max(n) from {name}) from {name} as a "
            f"join {name} as b on a.k0 = b.k0 and a.n <= b.n"
        )

    def _view(self) -> Statement:
        own = Expressions(self._draw, _BY_STATE, self._dialect, 2)
        return Statement(
            f"select v.state, v.n, {own.integer()} from by_state as v where {own.truth()}"
        )

    # Their parts

    def _place(self, name: str, block: _Block) -> str:
        """The block in FROM, written there or by WITH."""
        if self._draw.rarely(2):
            self._records.common.append(f"{name} as ({block.sql()})")
            return name
        return f"({block.sql()}) as {name}"

    def _noisy(self) -> tuple[str, str, Expressions, list[tuple[str, str]]]:
        block = self._block()
        alias = self._records.name("t")
        scope = [Column(f"{alias}.{n}", kind) for n, kind in block.columns if kind in KINDS]
        own = Expressions(self._draw, scope, self._dialect, 1)
        return alias, self._place(alias, block), own, block.columns

    def _block(
        self,
        keys: Sequence[str] | None = None,
        *,
        kept: bool = True,
        sets: bool = True,
        plain: bool = False,
        everything: bool = True,
    ) -> _Block:
        """``keys`` are the wanted kinds; ``plain`` leaves out all aggregates but ``n``, ``sets``
        allows grouping sets, and ``everything`` GROUP BY ALL.
        """
        draw = self._draw
        source = self._records.source(min(2, self._size - 1))
        scope = source.scope(draw.rarely(2))
        own = self._records.expressions(scope)
        where = self._records.where(source, own)
        chosen: dict[str, str] = {}
        for place in range(draw.below(3) if keys is None else len(keys)):
            sql, kind = own.key() if keys is None else (own.of(keys[place]), keys[place])
            if any(column.sql in sql for column in scope):
                chosen.setdefault(sql, kind)
            elif keys is not None:
                chosen.setdefault(self._sure(scope, kind), kind)
        names = [(f"k{i}", kind) for i, kind in enumerate(chosen.values())]
        items = [f"{sql} as k{i}" for i, sql in enumerate(chosen)]
        columns = [*names, ("n", "integer")]
        tests = ["count(*) > 0"] if kept and chosen else []
        if not plain:
            for i in range(draw.below(3)):
                sql, kind = self._aggregate(own, scope, bool(tests))
                items.append(f"{sql} as a{i}")
                columns.insert(-1, (f"a{i}", kind))
        group = self._group(list(chosen), sets and not plain, everything)
        if "grouping sets" in group or "rollup" in group or "cube" in group:
            items.append(f"grouping({', '.join(chosen)}) as g")
            columns.insert(-1, ("g", "integer"))
        if kept:
            items.append("count(*) as n")
        if tests and draw.rarely(3):
            tests.append(self._having(own, list(chosen)))
        return _Block(columns, items, f"{source.sql}{where}{group}", list(chosen), tests)

    def _sure(self, scope: Sequence[Column], kind: str) -> str:
        """An expression of the kind that mentions a column, whatever columns there are."""
        column = scope[0].sql
        return {
            "integer": f"case when {column} is null then 1 else 2 end",
            "text": f"case when {column} is null then 'AL' else 'AK' end",
            "truth": f"({column} is null)",
            "date": f"case when {column} is null then date '2020-01-31' end",
        }[kind]

    def _group(self, keys: list[str], sets: bool, everything: bool) -> str:
        draw = self._draw
        if not keys:
            return ""
        listed = ", ".join(keys)
        if sets and draw.rarely(4):
            some = ", ".join(f"({key})" for key in keys)
            forms = [f"rollup ({listed})", f"cube ({listed})", f"grouping sets ({some}, ())"]
            if len(keys) > 1:
                forms += [
                    f"{keys[0]}, rollup ({', '.join(keys[1:])})",
                    f"grouping sets (({listed}), ({keys[-1]}))",
                    f"grouping sets (rollup ({listed}), ({keys[0]}))",
                ]
            return f" group by {draw.one(forms)}"
        forms = [
            listed,
            ", ".join(f"k{i}" for i in range(len(keys))),
            ", ".join(str(i + 1) for i in range(len(keys))),
        ]
        if self._dialect == "duckdb" and everything:
            forms.append("all")
        return f" group by {draw.one(forms)}"

    def _aggregate(self, own: Expressions, scope: Sequence[Column], kept: bool) -> tuple[str, str]:
        draw = self._draw
        where = f" filter (where {own.truth()})" if draw.rarely(3) else ""
        sure = [c.sql for c in scope if c.kind == "integer" and not c.nullable]
        forms: list[Callable[[], tuple[str, str]]] = [
            lambda: (f"count(*){where}", "integer"),
            lambda: (f"count({own.of(draw.one(KINDS))}){where}", "integer"),
            lambda: (f"coalesce(sum({own.integer()}){where}, 0)", "number"),
            lambda: (f"coalesce(sum({own.number()}){where}, 0)", "number"),
            lambda: (f"avg({own.integer()}){where}", "number"),
            lambda: (f"2 * count(*){where} - count({own.text()})", "integer"),
            lambda: (f"count({own.date()}) - 3 * (count(*) + 1)", "integer"),
            lambda: (
                f"coalesce(sum({own.integer()}), 0) * 1.0 / nullif(count(*){where}, 0)", "number"
            ),
            lambda: (f"count(*){where} * 100.0 / nullif(count(*), 0)", "number"),
            lambda: ("case when count(*) > 5 then 'many' else 'few' end", "text"),
            lambda: (f"nullif(count(*){where}, 3)", "integer"),
            lambda: (f"count(distinct {own.of(draw.one(KINDS))}){where}", "integer"),
            lambda: (f"{draw.one(_MOMENTS)}({own.integer()}){where}", "number"),
        ]  # fmt: skip
        if sure and kept:
            forms.append(lambda: (f"sum({draw.one(sure)})", "number"))
        return draw.one(forms)()

    def _having(self, own: Expressions, keys: list[str]) -> str:
        forms: list[Callable[[], str]] = [
            lambda: f"count(*) > {self._draw.below(9)}",
            lambda: f"(count(*) between 2 and 60 or avg({own.integer()}) > 4)",
            lambda: f"count(*) filter (where {own.truth()}) <> 1",
        ]
        if keys:
            forms.append(lambda: f"({self._draw.one(keys)}) is not null")
        return self._draw.one(forms)()


_MOMENTS = ("var_pop", "var_samp", "variance", "stddev_pop", "stddev_samp", "stddev")
_BY_STATE = (Column("v.state", "text"), Column("v.n", "integer"))
