"""Parameters: ``$1`` gets its type from its context, as in PostgreSQL, and then its value.

Values enter the syntax tree as typed constants, never as text spliced into SQL.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
from sqlglot import exp

from tallyveil.errors import DatatypeMismatch, UndefinedParameter
from tallyveil.interval import Interval
from tallyveil.rewriter.sql.literals import refuse_wide
from tallyveil.rewriter.sql.nodes import all_nodes, as_type, position
from tallyveil.rewriter.sql.size import Size
from tallyveil.rewriter.sql.types import NUMERICS, TypeOf, is_literal_text

__all__ = [
    "HOLE", "PARAMETERS", "bind", "count", "duckdb_name", "infer", "parameter_number", "types_of",
]  # fmt: skip

PARAMETERS: Final = (exp.Parameter, exp.Placeholder)
"""PostgreSQL's $1 and DuckDB's, as sqlglot reads them."""

HOLE: Final = "hole"
"""The key in a node's meta for the number of its hole. A hole is a constant, or a parameter that
becomes one, that may differ from one statement to the next."""

_ZONED: Final = "TIMESTAMP WITH TIME ZONE"

_FINE: Final = frozenset({"ns", "ps", "fs", "as"})
"""NumPy's units of time that are less than Python's."""

# The arguments in which functions of texts take a number.
_PLACES = ("expression", "part_index", "start", "length")


def parameter_number(node: exp.Expr) -> int:
    """n of $n. Raises UndefinedParameter for $0 or $name."""
    this = node.args.get("this")
    text = this.name if isinstance(this, exp.Expr) else str(this or "")
    if not text.isdigit() or not 1 <= int(text) <= 1000:
        raise UndefinedParameter(
            f"there is no parameter ${text}", hint="Number them $1, $2, …", position=position(node)
        )
    return int(text)


def count(tree: exp.Expr) -> int:
    """The highest parameter number. Raises UndefinedParameter for $0 or $name."""
    return max((parameter_number(node) for node in tree.find_all(*PARAMETERS)), default=0)


def infer(tree: exp.Expr, type_of: TypeOf, declared: Sequence[str | None] = ()) -> tuple[str, ...]:
    """The type of each parameter: as declared, or that of its context, or VARCHAR."""
    types: list[str | None] = list(declared)
    types += [None] * (count(tree) - len(types))
    for node in tree.find_all(*PARAMETERS):
        index = parameter_number(node) - 1
        if types[index] is None:
            types[index] = _context(node, type_of)
    return tuple(kind or "VARCHAR" for kind in types)


def _context(node: exp.Expr, type_of: TypeOf) -> str | None:
    parent = node.parent
    match parent:
        case exp.Paren() | exp.Neg():
            return _context(parent, type_of)
        case exp.Cast():
            return duckdb_name(parent.to)
        case exp.Limit() | exp.Offset() | exp.Fetch():
            return "BIGINT"
        case exp.Left() | exp.Right() | exp.SplitPart() | exp.Substring() if (
            node.arg_key in _PLACES
        ):
            return "INTEGER"
        case exp.Where() | exp.And() | exp.Or() | exp.Not():
            return "BOOLEAN"
        case exp.Any():
            beside = parent.parent
            other = beside.this if beside is not None and beside.this is not parent else None
            kind = _parameter_type(type_of(other)) if other is not None else None
            return f"{kind or 'VARCHAR'}[]"
        case exp.Anonymous() if parent.name.lower() == "dp_probability":
            return "DOUBLE"
        case exp.If() if node.arg_key == "this":
            operand = parent.parent.this if isinstance(parent.parent, exp.Case) else None
            return "BOOLEAN" if operand is None else _parameter_type(type_of(operand))
    kinds = [
        type_of(other)
        for other in _beside(parent)
        if isinstance(other, exp.Expr)
        and not isinstance(other, PARAMETERS)
        and not is_literal_text(other)
    ]
    return next((_parameter_type(kind) for kind in kinds if kind is not None), None)


def _beside(parent: exp.Expr | None) -> list[exp.Expr | None]:
    """The expressions that have the parameter's type: other operands, values, or CASE results."""
    match parent:
        case exp.In() | exp.Between():
            ends = [parent.args.get("low"), parent.args.get("high")]
            return [parent.this, *parent.expressions, *ends]
        case exp.If():
            return _beside(parent.parent)
        case exp.Case():
            results: list[exp.Expr | None] = [one.args.get("true") for one in parent.args["ifs"]]
            return [*results, parent.args.get("default")]
        case exp.Binary() | exp.Coalesce() | exp.Nullif() | exp.Greatest() | exp.Least():
            return list(parent.iter_expressions())
    return []


def duckdb_name(kind: exp.DataType) -> str:
    """The type as DuckDB itself names it, without lengths: TEXT(1) is VARCHAR, INT is INTEGER."""
    if kind.this is exp.DType.ARRAY:
        return f"{duckdb_name(kind.expressions[0])}[]"
    name = str(kind.this.value)
    return _CANONICAL.get(name, name)


_CANONICAL: Final = {
    **dict.fromkeys(("TEXT", "CHAR", "BPCHAR", "NAME"), "VARCHAR"),
    "INT": "INTEGER",
    "UINT": "UINTEGER",
    "INT128": "HUGEINT",
    "VARBINARY": "BLOB",
    "JSONB": "JSON",
    "TIMESTAMPNTZ": "TIMESTAMP",
}


def _parameter_type(kind: str | None) -> str | None:
    """The type by DuckDB's name. A numeric, whose precision is unknown, becomes a double."""
    if kind in NUMERICS:
        return "DOUBLE"
    return _ZONED if kind == "TIMESTAMPTZ" else kind


# Types that one list may mix, the widest first.
_WIDER: Final = (("DOUBLE", "HUGEINT", "BIGINT"), (_ZONED, "TIMESTAMP", "DATE"))


def types_of(values: Sequence[Any]) -> tuple[str | None, ...]:
    """The types that the values declare for their parameters; None where the context decides.

    Raises DatatypeMismatch for a value that SQL has no constant for.
    """
    return tuple(map(_type_of, values))


def _type_of(value: Any) -> str | None:
    if not isinstance(value, list | tuple):
        return _read(value)[0]
    kinds = {_type_of(one) for one in value if one is not None}
    wide = [kind for one in _WIDER if kinds <= set(one) for kind in one if kind in kinds]
    element = wide[0] if wide else kinds.pop() if len(kinds) == 1 else None
    return f"{element}[]" if element else None


def bind(tree: exp.Expr, types: Sequence[str], values: Sequence[Any]) -> None:
    """Replace every parameter in the tree by its value as a constant of its type."""
    needed = count(tree)
    if len(values) != needed:
        raise UndefinedParameter(
            f"the statement has {needed} parameters, but {len(values)} values were given"
        )
    size = Size("the parameters' values", "Pass fewer values, or compare with a range.")
    for node in all_nodes(tree, *PARAMETERS):
        index = parameter_number(node) - 1
        if isinstance(values[index], list | tuple):
            size.count(3 * len(values[index]))
        constant = _constant(values[index], types[index])
        if node.meta_get(HOLE) is not None:
            constant.this.meta[HOLE] = node.meta[HOLE]
        constant.meta["bound"] = True  # no column is named after it
        node.replace(constant)


def _constant(value: Any, kind: str) -> exp.Expr:
    if isinstance(value, list | tuple):
        element = kind.removesuffix("[]")
        items = exp.Array(expressions=[_constant(item, element) for item in value])
        return _typed(items, f"{element}[]")
    return _typed(_read(value)[1], kind)


def _typed(value: exp.Expr, kind: str) -> exp.Expr:
    """Cast a value to its type, a numeric to a double: PostgreSQL gives numeric parameters no
    scale, and one chosen here would round them. A double has every decimal of up to 15 digits.
    """
    if kind.startswith("DECIMAL"):
        kind = "DOUBLE" + "[]" * kind.endswith("[]")
    return as_type(value, kind)


def _read(value: Any) -> tuple[str | None, exp.Expr]:
    """The type that a value declares, or None if the context decides, and its constant."""
    match value:
        case None:
            return None, exp.null()
        case np.generic() if (plain := _plain(value)) is not value:
            return _read(plain)
        case bool():
            return "BOOLEAN", exp.Boolean(this=value)
        case int():
            refuse_wide(value)
            return "BIGINT" if -(2**63) <= value < 2**63 else "HUGEINT", exp.Literal.number(value)
        case float():
            return "DOUBLE", exp.Literal.string(repr(float(value)))
        case Decimal():
            return "DOUBLE", exp.Literal.string(format(value, "f"))
        case dt.datetime():
            kind = "TIMESTAMP" if value.tzinfo is None else _ZONED
            return kind, exp.Literal.string(value.isoformat())
        case dt.date():
            return "DATE", exp.Literal.string(value.isoformat())
        case dt.timedelta():
            return "INTERVAL", exp.Literal.string(Interval.of(value).quantities)
        case str() | uuid.UUID() | dt.time():
            return None, exp.Literal.string(str(value))
    raise _unsupported(value)


def _plain(value: np.generic) -> Any:
    """The value of Python's own type that equals a scalar of NumPy, or the scalar if there is none.

    NaT is NULL. A time finer than a microsecond has none.
    """
    time = value if isinstance(value, np.datetime64 | np.timedelta64) else None
    plain = value.item()
    if time is not None and np.datetime_data(time.dtype)[0] in _FINE:
        coarse = time.astype(f"{time.dtype.kind}8[us]")
        plain = coarse.item() if np.isnat(time) or coarse == time else value
    # Months without a calendar, and times that Python has no value for, are given as integers.
    counted = time is not None and isinstance(plain, int)
    return value if counted or isinstance(plain, np.generic) else plain


def _unsupported(value: Any) -> DatatypeMismatch:
    kind = type(value)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    return DatatypeMismatch(
        f"a parameter of Python type {name} is not supported",
        hint="Pass numbers, strings, booleans, dates, or lists of these, of Python's own types: "
        "numpy's arrays have .tolist().",
    )
