"""The cells where a comparison of an attribute is true, computed without DuckDB.

A comparison with a constant is a span of the attribute's cells in the order of their values, in
SQL's three-valued logic. This is done only where DuckDB compares as Python does: for constants of
the attribute's own family of types, in their plain forms. Both compare texts by code points (UTF-8
keeps their order). DuckDB evaluates everything else.
"""

from __future__ import annotations

import datetime as dt
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sqlglot import exp

from tallyveil.arrays import BoolArray
from tallyveil.arrow import array_of
from tallyveil.cache import cached_property
from tallyveil.policy.domain import Attribute
from tallyveil.rewriter.domain.column_uses import comparisons
from tallyveil.rewriter.resolve.branches import RECORD
from tallyveil.rewriter.sql.literals import as_written

__all__ = ["Axis", "Truth"]


_UNREAD: Final = object()
_SIDES: Final = ("this", "expression")

# Numbers that are exact in DuckDB for every type of the other side: integers of 64 bits, and
# decimals that are distinct as doubles too.
_SMALL: Final = re.compile(r"-?[0-9]{1,9}")
_WHOLE: Final = re.compile(r"-?[0-9]{1,18}")
_NUMBER: Final = re.compile(r"-?(?=[0-9.]{1,16}$)[0-9]+(\.[0-9]+)?")
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}( [0-9]{2}:[0-9]{2}(:[0-9]{2})?)?")
_INSTANT: Final = re.compile(
    rf"{_DAY.pattern} [0-9]{{2}}:[0-9]{{2}}(:[0-9]{{2}})?[+-](0[0-9]|1[0-4])(:[0-5][0-9])?(:00)?"
)

_DAYS: Final = re.compile(r"[0-9]{1,6}")
_SIGNS: Final[Mapping[type[exp.Expr], int]] = {exp.Add: 1, exp.Sub: -1}

_INTEGERS: Final = {exp.DType.INT: _SMALL, exp.DType.BIGINT: _WHOLE, exp.DType.INT128: _WHOLE}
_TEXTS: Final = frozenset({exp.DType.VARCHAR, exp.DType.TEXT})

# The slices of n sorted values where a comparison holds, if left to right equal the constant.
_SPANS: Final[Mapping[type[exp.Expr], Callable[[int, int, int], list[slice]]]] = {
    exp.LT: lambda left, right, n: [slice(0, left)],
    exp.LTE: lambda left, right, n: [slice(0, right)],
    exp.GT: lambda left, right, n: [slice(right, n)],
    exp.GTE: lambda left, right, n: [slice(left, n)],
    exp.EQ: lambda left, right, n: [slice(left, right)],
    exp.NEQ: lambda left, right, n: [slice(0, left), slice(right, n)],
}


@dataclass(frozen=True, eq=False)
class Truth:
    """The cells where a condition is true, and where it is false. In the others it is NULL."""

    yes: BoolArray
    no: BoolArray

    def __invert__(self) -> Truth:
        return Truth(self.no, self.yes)

    def __and__(self, other: Truth) -> Truth:
        return Truth(self.yes & other.yes, self.no | other.no)

    def __or__(self, other: Truth) -> Truth:
        return Truth(self.yes | other.yes, self.no & other.no)


class Axis:
    """An attribute's cells in the order of their values."""

    def __init__(self, attribute: Attribute) -> None:
        cells: Any = attribute.cells
        self.attribute = attribute
        places = [place for place, cell in enumerate(cells) if cell is not None]
        places.sort(key=cells.__getitem__)
        self._sorted = [cells[place] for place in places]
        self._places = np.array(places, dtype=np.int64)

    @cached_property
    def values(self) -> pa.Array:
        """The cells' values, in the Arrow type that DuckDB returns; durations in microseconds."""
        if self.attribute.sql_type == "INTERVAL":
            return array_of(self.attribute.cells, "INTERVAL").cast(pa.int64())
        return array_of(self.attribute.cells, self.attribute.sql_type)

    @cached_property
    def known(self) -> BoolArray:
        """The cells that are not NULL."""
        return self._in_spans([slice(None)])

    @cached_property
    def numbers(self) -> npt.NDArray[Any]:
        """The values of a numeric attribute, 0 for NULL; decimals in units of the last digit."""
        if self.attribute.sql_type.startswith("DECIMAL"):
            filled = self.values.fill_null(0)
            return np.frombuffer(filled.buffers()[1], dtype=np.int64)[: 2 * len(filled) : 2]
        kind = np.float64 if self.attribute.sql_type == "DOUBLE" else np.int64
        return np.array([cell or 0 for cell in self.attribute.cells], dtype=kind)

    def truth(self, node: exp.Expr) -> Truth | None:
        """Return where a comparison of the attribute holds; None if it takes DuckDB."""
        match node:
            case exp.Is() if self.is_own(node.this) and isinstance(node.expression, exp.Null):
                null = Truth(~self.known, self.known)
                return ~null if node.args.get("negate") else null
            case exp.Column() if self.attribute.sql_type == "BOOLEAN" and self.is_own(node):
                return self._spanned(exp.EQ, [True])
            case exp.NullSafeEQ() | exp.NullSafeNEQ():
                return None
        return self._compared(node)

    def is_own(self, node: object) -> bool:
        """Whether the expression is the attribute itself."""
        column = node.unnest() if isinstance(node, exp.Expr) else None
        if not isinstance(column, exp.Column):
            return False
        return column.table == RECORD and column.name == self.attribute.name

    def _compared(self, node: exp.Expr) -> Truth | None:
        sides = [node.args[name] for name in _SIDES if self.is_own(node.args.get(name))]
        found = comparisons(sides[0].unnest()) if len(sides) == 1 else None
        if not found:
            return None
        constants = [_constant(other.unnest(), self.attribute.sql_type) for _, other in found]
        if any(constant is _UNREAD for constant in constants):
            return None
        if isinstance(node, exp.In):
            return self._spanned(exp.EQ, constants)
        truths = [self._spanned(kind, [c]) for (kind, _), c in zip(found, constants, strict=True)]
        return truths[0] if len(truths) == 1 else truths[0] & truths[1]

    def _spanned(self, kind: type[exp.Expr], constants: list[Any]) -> Truth:
        """Where the comparison holds with at least one of the constants."""
        spans: list[slice] = []
        for constant in (c for c in constants if c is not None):
            left, right = bisect_left(self._sorted, constant), bisect_right(self._sorted, constant)
            spans += _SPANS[kind](left, right, len(self._sorted))
        yes = self._in_spans(spans)
        return Truth(yes, np.zeros_like(yes) if None in constants else self.known & ~yes)

    def _in_spans(self, spans: list[slice]) -> BoolArray:
        cells = np.zeros(self.attribute.size, dtype=np.bool_)
        for span in spans:
            cells[self._places[span]] = True
        return cells


def _constant(node: exp.Expr, kind: str) -> Any:
    """The constant to compare with values of a DuckDB type; ``_UNREAD`` if it takes DuckDB to
    know.
    """
    if kind == "DATE" and type(node) in _SIGNS:
        return _days_after(node)
    found = as_written(node)
    if found is None or len(found.casts) > 1 or any(cast.expressions for cast in found.casts):
        return _UNREAD
    target = found.casts[0].this if found.casts else None
    match found.value:
        case None:
            return None if target is None else _UNREAD
        case bool():
            own = kind == "BOOLEAN" and target in (None, exp.DType.BOOLEAN)
            return found.value if own else _UNREAD
        case text:
            return _READERS.get(kind.split("(")[0], _unread)(text, target, found.quoted)


def _days_after(node: exp.Expr) -> Any:
    """The constant of a day plus or minus a number of days."""
    first, number = node.this.unnest(), node.expression.unnest()
    whole = isinstance(number, exp.Literal) and not number.is_string
    if type(first) is not exp.Cast or not whole or not _DAYS.fullmatch(number.this):
        return _UNREAD
    day = _constant(first, "DATE")
    if not isinstance(day, dt.date):
        return _UNREAD
    try:
        return day + _SIGNS[type(node)] * dt.timedelta(int(number.this))
    except OverflowError:
        return _UNREAD


def _integer(text: str, target: Any, quoted: bool) -> Any:
    if target is exp.DType.DOUBLE:
        return _double(text, target, quoted)
    if target is None and not quoted and _NUMBER.fullmatch(text):
        return Decimal(text)
    plain = _SMALL if quoted else _WHOLE
    pattern = plain if target is None else _INTEGERS.get(target)
    return int(text) if pattern is not None and pattern.fullmatch(text) else _UNREAD


def _long(text: str, target: Any, quoted: bool) -> Any:
    """Skip doubles: they do not compare exactly with integers of more than 53 bits."""
    return _UNREAD if target is exp.DType.DOUBLE else _integer(text, target, quoted)


def _double(text: str, target: Any, quoted: bool) -> Any:
    own = target is exp.DType.DOUBLE or (target is None and not quoted)
    return float(text) if own and _NUMBER.fullmatch(text) else _UNREAD


def _text(text: str, target: Any, quoted: bool) -> Any:
    return text if quoted and (target is None or target in _TEXTS) else _UNREAD


def _moment(
    pattern: re.Pattern[str], read: Callable[[str], dt.date], *targets: exp.DType
) -> Callable[[str, Any, bool], Any]:
    def reader(text: str, target: Any, quoted: bool) -> Any:
        if not quoted or target not in (None, *targets) or not pattern.fullmatch(text):
            return _UNREAD
        try:
            return read(text)
        except ValueError:
            return _UNREAD

    return reader


def _decimal(text: str, target: Any, quoted: bool) -> Any:
    plain = target is None and not quoted and _NUMBER.fullmatch(text)
    return Decimal(text) if plain else _UNREAD


def _unread(text: str, target: Any, quoted: bool) -> Any:
    return _UNREAD


_READERS: Final[Mapping[str, Callable[[str, Any, bool], Any]]] = {
    "INTEGER": _integer,
    "BIGINT": _long,
    "DOUBLE": _double,
    "VARCHAR": _text,
    "DATE": _moment(_DAY, dt.date.fromisoformat, exp.DType.DATE),
    "TIMESTAMP": _moment(
        _TIME, dt.datetime.fromisoformat, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPNTZ
    ),
    # Not a time without an offset: what it means depends on the session.
    "TIMESTAMP WITH TIME ZONE": _moment(_INSTANT, dt.datetime.fromisoformat, exp.DType.TIMESTAMPTZ),
    "DECIMAL": _decimal,
}
