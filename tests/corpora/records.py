"""What an aggregation may read: records of one protected table, filtered, joined, united.

Every relation that `Records.source` gives has rows that belong to one record each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.corpora.draw import Draw
from tests.corpora.expressions import KINDS, Column, Expressions

__all__ = ["Records", "Source"]

# (name, kind, nullable) of the columns; see `house` for the tables themselves.
_PERSON = (
    ("state", "text", True), ("age", "integer", False), ("sex", "text", True),
    ("married", "truth", False), ("born", "date", False), ("income", "binned", True),
    ("wage", "integer", True),
)  # fmt: skip
_VISIT = (("state", "text", False), ("cost", "integer", False), ("seen", "date", True))
_TABLES = {"person": _PERSON, "visit": _VISIT}
_VIEWS = {
    "adult": (*_PERSON, ("half", "integer", False)),
    "placed": (("age", "integer", False), ("sex", "text", True), ("region", "text", True)),
    "either": (("what", "text", False), ("age", "integer", True)),
}
_REGION = (("code", "text"), ("region", "text"), ("pop", "integer"))
_BAND = (("low", "integer"), ("high", "integer"), ("label", "text"))


@dataclass
class Source:
    """``sql`` belongs after FROM, ``where`` into WHERE; ``columns`` are in scope.

    ``plain`` says that the columns' names alone are unambiguous, ``closed`` that it ends in a
    comma's table, to which a further JOIN would belong.
    """

    table: str
    sql: str
    columns: list[tuple[str, str, str, bool]]
    where: list[str] = field(default_factory=list)
    plain: bool = True
    closed: bool = False

    def scope(self, bare: bool = False) -> list[Column]:
        return [
            Column(name if bare and self.plain else f"{alias}.{name}", kind, nullable)
            for alias, name, kind, nullable in self.columns
        ]


class Records:
    """``common`` collects the statement's common tables, in the order they are written."""

    def __init__(self, draw: Draw, dialect: str, size: int) -> None:
        self._draw = draw
        self._dialect = dialect
        self._size = size
        self._number = 0
        self.common: list[str] = []

    def name(self, letter: str) -> str:
        self._number += 1
        return f"{letter}{self._number}"

    def expressions(self, scope: Sequence[Column]) -> Expressions:
        return Expressions(self._draw, scope, self._dialect, min(3, self._size))

    def source(self, depth: int, table: str | None = None) -> Source:
        draw = self._draw
        if table is None:
            table = draw.one(["person", "person", "person", "visit"])
        made = self._base(depth, table)
        for _ in range(draw.below(3) if draw.rarely(2) else 0):
            made = made if made.closed else self._joined(made)
        return made

    def _base(self, depth: int, table: str) -> Source:
        kinds = [self._table, self._table]
        if table == "person":
            kinds.append(self._view)
        if depth > 0:
            kinds += [lambda t: self._nested(t, depth), lambda t: self._united(t, depth)]
        return self._draw.one(kinds)(table)

    def _table(self, table: str) -> Source:
        alias = self.name("p") if self._draw.rarely(2) else table
        columns = [(alias, *column) for column in _TABLES[table]]
        return Source(table, table if alias == table else f"{table} as {alias}", columns)

    def _view(self, table: str) -> Source:
        view = self._draw.one(list(_VIEWS))
        alias = self.name("v")
        return Source(table, f"{view} {alias}", [(alias, *column) for column in _VIEWS[view]])

    def _query(self, table: str, depth: int, kinds: Sequence[str] = ()) -> tuple[str, list[Column]]:
        """A SELECT of records, with columns c0, c1, … of the wanted kinds."""
        draw = self._draw
        source = self.source(depth - 1, table)
        scope = source.scope(draw.rarely(2))
        own = self.expressions(scope)
        items: list[Column] = []
        for kind in kinds or [draw.one(KINDS) for _ in range(1 + draw.below(3))]:
            items.append(Column(own.of(kind), kind))
        binned = own.column("binned")
        if binned is not None and not kinds and draw.rarely(3):
            items.append(Column(binned, "binned"))
        where = self.where(source, own)
        listed = ", ".join(f"{item.sql} as c{i}" for i, item in enumerate(items))
        columns = [Column(f"c{i}", item.kind) for i, item in enumerate(items)]
        return f"select {listed} from {source.sql}{where}", columns

    def where(self, source: Source, own: Expressions) -> str:
        conditions = list(source.where)
        if self._draw.rarely(2):
            conditions.append(own.truth())
        return f" where {' and '.join(conditions)}" if conditions else ""

    def _nested(self, table: str, depth: int) -> Source:
        query, columns = self._query(table, depth)
        return self._named(table, query, columns)

    def _united(self, table: str, depth: int) -> Source:
        kinds = [self._draw.one(KINDS) for _ in range(1 + self._draw.below(2))]
        parts = [self._query(table, depth, kinds) for _ in range(2 + self._draw.below(2))]
        query = " union all ".join(part for part, _ in parts)
        return self._named(table, query, parts[0][1])

    def _named(self, table: str, query: str, columns: Sequence[Column]) -> Source:
        draw = self._draw
        alias = self.name("q")
        names = [column.sql for column in columns]
        given = ""
        if draw.rarely(4):
            names = [f"d{i}" for i in range(len(names))]
            given = f" ({', '.join(names)})"
        found = [(alias, n, c.kind, c.nullable) for n, c in zip(names, columns, strict=True)]
        if draw.rarely(2):
            self.common.append(f"{alias}{given} as ({query})")
            return Source(table, alias, found)
        return Source(table, f"({query}) as {alias}{given}", found)

    def _joined(self, left: Source) -> Source:
        """The records with the rows of a public table that match."""
        draw = self._draw
        alias = self.name("r")
        own = Expressions(draw, left.scope(), self._dialect, 0)
        side = draw.one(["join", "join", "left join"])
        text = own.column("text")
        kind = draw.below(6)
        if kind == 0 and text is not None:
            item, columns, on = "region", _REGION, f"{alias}.code = {text}"
        elif kind == 1 and text is not None:
            item = "(select code, upper(region) as region, pop from region where pop > 5)"
            columns, on = _REGION, f"{text} = {alias}.code and {alias}.pop < 35"
        elif kind == 2:
            return self._crossed(left, alias)
        elif kind == 3 and text is not None:
            item = "(values ('AL', 1), ('AK', 2), ('AL', 3))"
            columns, on = (("a", "text"), ("b", "integer")), f"{alias}.a = {text}"
            found = self._columns(left, alias, columns)
            sql = f"{left.sql} {side} {item} as {alias} (a, b) on {on}"
            return Source(left.table, sql, found, left.where, False)
        elif kind == 4 and sum(name == "state" for _, name, *_ in left.columns) == 1:
            found = self._columns(left, alias, (("name", "text"),))
            sql = f"{left.sql} {side} state_name as {alias} using (state)"
            return Source(left.table, sql, found, left.where, False)
        else:
            number = own.integer()
            item, columns = "band", _BAND
            on = f"{number} between {alias}.low and {alias}.high"
        found = self._columns(left, alias, columns)
        if side == "join" and " join " not in left.sql and "," not in left.sql and draw.rarely(4):
            # The public table first, which is the same join in another order.
            turned = f"{item} as {alias} {draw.one(['join', 'right join'])} {left.sql} on {on}"
            return Source(left.table, turned, found, left.where, False)
        return Source(
            left.table, f"{left.sql} {side} {item} as {alias} on {on}", found, left.where, False
        )

    def _crossed(self, left: Source, alias: str) -> Source:
        found = self._columns(left, alias, _BAND)
        condition = f"{alias}.low < {self._draw.one(['1', '6', '99'])}"
        if self._draw.rarely(2):
            sql = f"{left.sql}, band as {alias}"
        else:
            sql = f"{left.sql} cross join band as {alias}"
        return Source(
            left.table,
            sql,
            found,
            [*left.where, condition],
            False,
            sql != left.sql + f" cross join band as {alias}",
        )

    def _columns(
        self, left: Source, alias: str, columns: Sequence[tuple[str, str]]
    ) -> list[tuple[str, str, str, bool]]:
        return [*left.columns, *((alias, name, kind, True) for name, kind in columns)]
