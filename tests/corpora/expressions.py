"""Expressions over the columns in scope, of a wanted type, as both databases type them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.corpora.draw import Draw

__all__ = ["KINDS", "Column", "Expressions"]

KINDS = ("integer", "text", "truth", "date")

_TEXTS = ("'AL'", "'F'", "''", "'south'", "'A'", "'zz'", "'it''s'", "'old'", "'_y'")
_PATTERNS = ("'A%'", "'_L'", "'%o%'", "''", "'%'", "'x!_%'")
_REGEXES = ("'^A'", "'[KL]$'", "'o.'", "'^(F|M)$'")
_DATES = ("date '2020-01-20'", "date '2020-01-31'", "date '2020-02-05'", "date '2019-12-31'")
_DECIMALS = ("0.5", "2.5", "0.25", "10.0", "0.1")
_PRECEDENCE = ("{} - 1 - 2", "{} + 2 * 3", "{} * 2 % 5", "- {} % 4", "- {} + 1")
_ROUNDED = ("round", "floor", "ceil", "trunc", "sign", "abs")
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
_PARTS = ("dow", "week", "doy", "isodow", "quarter", "month")
_BINNED = (
    "({} < 100)", "({} >= 250)", "(250 <= {})", "(100 > {})", "({} >= -3)", "({} is null)",
    "({} between 0 and 5000)", "({} = 4000)", "({} in (-7, 1000))", "({} < 2 * 50)",
    "(not {} < 250)", "({} >= 100.0)", "({} is not null)",
)  # fmt: skip


@dataclass(frozen=True)
class Column:
    """A column as it is written here; ``kind`` is one of KINDS, or "binned"."""

    sql: str
    kind: str
    nullable: bool = True


class Expressions:
    """``depth`` bounds how deep expressions are nested."""

    def __init__(self, draw: Draw, columns: Sequence[Column], dialect: str, depth: int) -> None:
        self._draw = draw
        self._columns = columns
        self._dialect = dialect
        self._depth = depth

    def of(self, kind: str) -> str:
        return {
            "integer": self.integer, "text": self.text, "truth": self.truth, "date": self.date,
        }[kind]()  # fmt: skip

    def column(self, kind: str) -> str | None:
        found = [c.sql for c in self._columns if c.kind == kind]
        return self._draw.one(found) if found else None

    def key(self) -> tuple[str, str]:
        """An expression to group by, and its kind: mostly a column."""
        plain = [c for c in self._columns if c.kind in KINDS]
        if plain and self._draw.often(3):
            column = self._draw.one(plain)
            return column.sql, column.kind
        kind = self._draw.one(KINDS)
        return self.of(kind), kind

    def _inner(self) -> Expressions:
        return Expressions(self._draw, self._columns, self._dialect, self._depth - 1)

    def _leaf(self, kind: str, constants: Sequence[str]) -> str:
        column = self.column(kind)
        if column is None or not self._draw.often(4):
            return self._draw.one(constants)
        return column

    def _small(self) -> str:
        number = self._draw.below(46) - 5
        return f"({number})" if number < 0 else str(number)

    def _one(self, makers: Sequence[Callable[[], str]]) -> str:
        return self._draw.one(makers)()

    def integer(self) -> str:
        if self._depth <= 0 or not self._draw.often(3):
            column = self.column("integer")
            return column if column is not None and self._draw.often(4) else self._small()
        e, d = self._inner(), self._draw
        divided = "/" if self._dialect == "postgres" else "//"
        return self._one([
            lambda: f"({e.integer()} + {e.integer()})",
            lambda: f"({e.integer()} - {e.integer()})",
            lambda: f"{e._leaf('integer', '3')} * {self._small()}",
            lambda: f"({e.integer()} % {d.one(['3', '7', '(-4)'])})",
            lambda: f"({e.integer()} {divided} {d.one(['2', '7', '(-3)'])})",
            lambda: f"(-{e.integer()})",
            lambda: f"abs({e.integer()})",
            lambda: f"length({e.text()})",
            lambda: f"case when {e.truth()} then {e.integer()} else {e.integer()} end",
            lambda: f"case {e.text()} when {d.one(_TEXTS)} then {e.integer()} end",
            lambda: f"coalesce(nullif({e.integer()}, {e.integer()}), {e.integer()})",
            lambda: f"greatest({e.integer()}, {e.integer()})",
            lambda: f"least({e.integer()}, {e.integer()})",
            lambda: f"({e.date()} - {e.date()})",
            lambda: f"cast({e.truth()} as integer)",
            lambda: f"cast(extract({d.one(['day', 'month', 'year'])} from {e.date()}) as integer)",
            lambda: f"position({d.one(_TEXTS)} in {e.text()})",
            lambda: f"cast({e.number()} as integer)",
            lambda: f"({d.one(_PRECEDENCE)})".format(e._leaf("integer", "3")),
        ])  # fmt: skip

    def number(self) -> str:
        e, d = self._inner(), self._draw
        return self._one([
            lambda: f"({e.integer()} * {d.one(_DECIMALS)})",
            lambda: f"({e.integer()} + {d.one(_DECIMALS)})",
            lambda: f"round({e._leaf('integer', '3')} * {d.one(_DECIMALS)}, 1)",
            lambda: f"floor({e.integer()} * {d.one(_DECIMALS)})",
            lambda: f"abs({e.integer()} * {d.one(_DECIMALS)})",
            lambda: f"({e.integer()} / {d.one(_DECIMALS)})",
            lambda: f"{d.one(_ROUNDED)}(cast({e.integer()} as double precision) / 4)",
            lambda: f"(cast({e.integer()} as double precision) - {e.integer()})",
            lambda: f"sqrt(abs({e.integer()}))",
            lambda: f"case when {e.truth()} then {e.integer()} else {d.one(_DECIMALS)} end",
        ])  # fmt: skip

    def text(self) -> str:
        if self._depth <= 0 or not self._draw.often(3):
            return self._leaf("text", _TEXTS)
        e, d = self._inner(), self._draw
        return self._one([
            lambda: f"upper({e.text()})",
            lambda: f"lower({e.text()})",
            lambda: f"trim({e.text()})",
            lambda: f"({e.text()} || {e.text()})",
            lambda: f"left({e.text()}, {d.below(5) - 2})",
            lambda: f"right({e.text()}, {d.below(5) - 2})",
            lambda: f"substring({e.text()}, {d.below(4) - 1}, {d.below(3)})",
            lambda: f"coalesce({e.text()}, {d.one(_TEXTS)})",
            lambda: f"nullif({e.text()}, {d.one(_TEXTS)})",
            lambda: f"case when {e.truth()} then {e.text()} else {e.text()} end",
            lambda: f"replace({e.text()}, 'A', {d.one(_TEXTS)})",
            lambda: f"concat({e.text()}, {e.integer()})",
            lambda: f"cast({e.integer()} as varchar)",
            lambda: f"cast({e.date()} as text)",
            lambda: f"split_part({e.text()}, '_', 2)",
        ])  # fmt: skip

    def date(self) -> str:
        if self._depth <= 0 or not self._draw.often(3):
            return self._leaf("date", _DATES)
        e, d = self._inner(), self._draw
        return self._one([
            lambda: f"({e.date()} + {d.below(20)})",
            lambda: f"cast(date_trunc('{d.one(['month', 'week', 'year'])}', {e.date()}) as date)",
            lambda: f"coalesce({e.date()}, {d.one(_DATES)})",
            lambda: f"cast({e.date()} + interval '1 month' as date)",
            lambda: f"case when {e.truth()} then {e.date()} else {e.date()} end",
        ])  # fmt: skip

    def truth(self) -> str:
        binned = self.column("binned") if self._draw.rarely(4) else None
        if binned is not None:
            return self._draw.one(_BINNED).format(binned)
        if self._depth <= 0 or not self._draw.often(5):
            column = self.column("truth") if self._draw.rarely(2) else None
            return column or self._compared()
        e, d = self._inner(), self._draw
        kind = d.one(KINDS)
        return self._one([
            self._compared,
            lambda: f"({e.of(kind)} {d.one(_COMPARISONS)} {e.of(kind)})",
            lambda: f"({e.truth()} and {e.truth()})",
            lambda: f"({e.truth()} or {e.truth()})",
            lambda: f"({e.truth()} or {e.truth()} and {e.truth()})",
            lambda: f"({e.number()} {d.one(_COMPARISONS)} {e.number()})",
            lambda: f"(not {e.truth()})",
            lambda: f"({e.of(kind)} is null)",
            lambda: f"({e.of(kind)} is not null)",
            lambda: f"({e.truth()} is {d.one(['true', 'not false', 'not true', 'false'])})",
            lambda: f"({e.of(kind)} is distinct from {e.of(kind)})",
            lambda: f"({e.of(kind)} is not distinct from {e.of(kind)})",
            lambda: f"({e.text()} {d.one(['like', 'not like', 'ilike'])} {d.one(_PATTERNS)})",
            lambda: f"({e.text()} like {d.one(_PATTERNS)} escape '!')",
            lambda: self._regex(e.text()),
            lambda: f"({e.integer()} between {self._small()} and {self._small()})",
            lambda: f"({e.text()} in ({d.one(_TEXTS)}, {d.one(_TEXTS)}))",
            lambda: f"({e.integer()} not in ({self._small()}, 3, null))",
            lambda: self._any(e.integer()),
            lambda: f"(extract({d.one(_PARTS)} from {e.date()}) > {self._small()})",
            lambda: self._public(e),
        ])  # fmt: skip

    def _compared(self) -> str:
        """A column with a constant, which is read without asking DuckDB."""
        kind = self._draw.one(("integer", "text", "date"))
        one = {"text": _TEXTS, "date": _DATES}.get(kind) or (self._small(),)
        column = self.column(kind) or self._draw.one(one)
        return f"({column} {self._draw.one(_COMPARISONS)} {self._draw.one(one)})"

    def _regex(self, text: str) -> str:
        pattern = self._draw.one(_REGEXES)
        if self._dialect == "postgres":
            return f"({text} {self._draw.one(['~', '!~', '~*'])} {pattern})"
        return f"regexp_matches({text}, {pattern})"

    def _any(self, value: str) -> str:
        numbers = f"{self._small()}, {self._small()}"
        array = f"array[{numbers}]" if self._dialect == "postgres" else f"[{numbers}]"
        return f"({value} = any({array}))"

    def _public(self, e: Expressions) -> str:
        """A condition on a public table."""
        return self._one([
            lambda: f"({e.text()} in (select code from region where pop > {self._small()}))",
            lambda: f"({e.text()} not in (select state from state_name))",
            lambda: f"({e.integer()} > (select min(high) from band))",
            lambda: f"exists (select 1 from region where pop > {self._small()})",
            lambda: f"exists (select 1 from region as z where z.code = {e.text()})",
            lambda: f"({e.integer()} in (select z.low from band as z where z.label > {e.text()}))",
            lambda: f"((select max(z.pop) from region as z where z.code = {e.text()}) > 10)",
        ])  # fmt: skip
