"""CAST, with the same digits and characters as in PostgreSQL."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Final

from sqlglot import exp

from tallyveil.errors import (
    CannotCoerce,
    FeatureNotSupported,
    InvalidParameterValue,
    InvalidTextRepresentation,
    NumericValueOutOfRange,
    SQLSyntaxError,
)
from tallyveil.quoting import array_elements
from tallyveil.rewriter.postgres.arithmetic import refuse_inexact
from tallyveil.rewriter.postgres.dates import check_clock_text, check_time_text
from tallyveil.rewriter.postgres.topic import Rules
from tallyveil.rewriter.resolve.bound import Bound
from tallyveil.rewriter.sql.nodes import COMPARISONS, as_type, call, position
from tallyveil.rewriter.sql.types import INTEGERS, NUMERICS, postgres_type
from tallyveil.truth import TRUTH_TEXTS, truth

__all__ = ["MACROS", "RULES", "SPELLED_ALIKE", "WHOLE", "array_literals", "read_truth"]

# A text that PostgreSQL reads as an integer. DuckDB would round '5.5'.
WHOLE: Final = re.compile(r"\s*[+-]?[0-9]+\s*")
_FLOAT: Final = re.compile(
    r"\s*+[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]{1,9})?\s*+"
)
_LONGEST_TEXT: Final = 10_485_760
_MOST_DIGITS: Final = 38  # PostgreSQL has more
_NUMBER: Final = re.compile(r"[0-9]+(\.[0-9]+)?")

_INTEGER_TYPES: Final = {
    exp.DType.SMALLINT: (16, "smallint"),
    exp.DType.INT: (32, "integer"),
    exp.DType.BIGINT: (64, "bigint"),
}
_LONGEST_WHOLE: Final = 4_000  # characters of an integer that are read: Python refuses more
_PADDED_TYPES = (exp.DType.CHAR, exp.DType.BPCHAR, exp.DType.NAME, exp.DType.NCHAR)

_TIMESTAMPS: Final = (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPNTZ)
# Nodes for which the day of a timestamp may suffice.
_DAY_SUFFICES: Final = (
    *COMPARISONS, exp.Between, exp.In, exp.DateTrunc, exp.TimestampTrunc, exp.Extract, exp.Cast,
)  # fmt: skip

_MOMENTS: Final = {
    exp.DType.DATE: "date",
    **dict.fromkeys(_TIMESTAMPS, "timestamp"),
    exp.DType.TIMESTAMPTZ: "timestamp with time zone",
}

# The types that PostgreSQL casts to each of these types. Other targets are not checked.
_SOURCES: Final = {
    **dict.fromkeys(_MOMENTS, ("DATE", "TIMESTAMP", "TIMESTAMPTZ", "VARCHAR")),
    exp.DType.TIME: ("TIME", "TIMESTAMP", "TIMESTAMPTZ", "INTERVAL", "VARCHAR"),
    exp.DType.INTERVAL: ("INTERVAL", "TIME", "VARCHAR"),
    exp.DType.BOOLEAN: ("BOOLEAN", "INTEGER", "VARCHAR"),
}

# Types whose values PostgreSQL and DuckDB write with the same characters.
SPELLED_ALIKE: Final = frozenset({"VARCHAR", "DATE", "TIMESTAMP", "TIMESTAMPTZ", *INTEGERS})


def cast(node: exp.Cast, bound: Bound) -> exp.Expr | None:
    kind = node.to.this
    if kind in _PADDED_TYPES:
        raise _refusal(node, "pads or truncates values", "Use varchar(n) or text.")
    rule = _BY_TYPE.get(kind)
    if rule is None or (kind is exp.DType.DOUBLE and node.to.expressions):
        raise _refusal(node, "has another precision in DuckDB", "Use double precision or bigint.")
    return rule(node, bound)


def _to_moment(node: exp.Cast, bound: Bound) -> exp.Expr | None:
    kind = node.to.this
    if _hides_a_day(node, bound):
        value: exp.Expr = node.this
        return value
    _need_source(node, bound)
    if kind in _MOMENTS:
        check_time_text(node.this, _MOMENTS[kind])
    elif kind is exp.DType.TIME:
        check_clock_text(node.this)
        if bound.type_of(node.this) == "TIMESTAMPTZ":
            node.set("this", as_type(node.this, "TIMESTAMP"))
    return None


def _hides_a_day(node: exp.Cast, bound: Bound) -> bool:
    """Whether it casts a timestamp to its own type, where it is compared or a part of it is used.
    Such a cast would hide that only the day, or the step, of a column is known."""
    around = node.parent
    while isinstance(around, exp.Paren):
        around = around.parent
    if isinstance(around, exp.Cast) and around.to.this is not exp.DType.DATE:
        return False
    if not isinstance(around, _DAY_SUFFICES) or node.to.expressions:
        return False
    if node.to.this is exp.DType.TIMESTAMPTZ:
        return bound.declared_type_of(node.this) == "TIMESTAMPTZ"
    return node.to.this in _TIMESTAMPS and bound.type_of(node.this) == "TIMESTAMP"


def _to_double(node: exp.Cast, bound: Bound) -> None:
    """DuckDB reads a text beyond the largest double as infinity, and one too small as 0."""
    text = node.this.name if isinstance(node.this, exp.Literal) else ""
    if not node.this.is_string or _FLOAT.fullmatch(text) is None:
        return
    value, digits = float(text), text.lower().partition("e")[0]
    if math.isinf(value) or (not value and digits.strip("+-0. \t\n\r\f\v")):
        raise NumericValueOutOfRange(f'"{text}" is out of range for type double precision')


def _need_source(node: exp.Cast, bound: Bound) -> None:
    source, sources = bound.type_of(node.this), _SOURCES.get(node.to.this)
    if source is not None and sources is not None and source not in sources:
        raise CannotCoerce(
            f"cannot cast type {postgres_type(source)} to {node.to.sql('postgres').lower()}"
        )


def _refusal(node: exp.Cast, why: str, hint: str) -> FeatureNotSupported:
    return FeatureNotSupported(
        f"type {node.to.sql('postgres').lower()} is not answered: it {why}", hint=hint
    )


def _to_text(node: exp.Cast, bound: Bound) -> exp.Expr | None:
    kind = bound.type_of(node.this)
    if kind is not None and kind not in SPELLED_ALIKE and kind != "BOOLEAN":
        raise FeatureNotSupported(
            f"{postgres_type(kind)} as text is not answered: PostgreSQL and DuckDB write it "
            "differently",
            hint="Cast it to an integer, a date or a boolean first.",
        )
    if not node.to.expressions:
        return None
    length, *more = _modifiers(node)
    if more or not 1 <= length <= _LONGEST_TEXT:
        raise InvalidParameterValue(f"varchar takes one length between 1 and {_LONGEST_TEXT}")
    text = as_type(node.this, "VARCHAR")
    return exp.Left(this=text, expression=exp.Literal.number(length))


def _modifiers(node: exp.Cast) -> list[int]:
    """The numbers in brackets after the type."""
    given = [one.name for one in node.to.expressions]
    if not all(one.isdecimal() for one in given):
        raise SQLSyntaxError(
            "type modifiers must be whole numbers", hint="Write varchar(20) or numeric(10, 2)."
        )
    return [int(one) for one in given]


def _check_digits(node: exp.Cast) -> None:
    precision, *scale = _modifiers(node)
    if not 1 <= precision <= _MOST_DIGITS:
        raise InvalidParameterValue(
            f"NUMERIC precision {precision} must be between 1 and {_MOST_DIGITS}"
        )
    if scale and scale[0] > precision:
        raise InvalidParameterValue(
            f"NUMERIC scale {scale[0]} must be between 0 and the precision {precision}"
        )


def _to_integer(node: exp.Cast, bound: Bound) -> exp.Expr | None:
    """A numeric rounds halves away from zero, a double to even; a text must be an integer."""
    operand, kind = node.this, bound.type_of(node.this)
    if kind in NUMERICS:
        return as_type(exp.Round(this=operand), node.to)
    if kind != "VARCHAR":
        return None
    literal = operand.unnest()
    if not isinstance(literal, exp.Literal):
        whole = call("__pg_whole", operand)
        return as_type(whole, node.to)
    if not WHOLE.fullmatch(literal.this):
        raise InvalidTextRepresentation(f'invalid input syntax for type integer: "{literal.this}"')
    bits, name = _INTEGER_TYPES[node.to.this]
    if not -(2 ** (bits - 1)) <= int(literal.this[:_LONGEST_WHOLE]) < 2 ** (bits - 1):
        raise NumericValueOutOfRange(f'value "{literal.this[:40]}" is out of range for type {name}')
    return None


def _to_truth(node: exp.Cast, bound: Bound) -> exp.Expr | None:
    _need_source(node, bound)
    if bound.type_of(node.this) != "VARCHAR":
        return None
    if not node.this.unnest().is_string:
        return call("__pg_truth", node.this)
    read_truth(node.this)
    return None


def _to_array(node: exp.Cast, bound: Bound) -> exp.Expr | None:
    """DuckDB does not read '{1,2}' as an array. That in ANY has been read with ANY."""
    literal, element = node.this.unnest(), node.to.expressions[0]
    if not isinstance(literal, exp.Literal) or not literal.is_string or node.find_ancestor(exp.Any):
        return None
    if element.this is exp.DType.DECIMAL and not element.expressions:
        raise _without_precision()
    casts = [as_type(one, element.copy()) for one in array_literals(literal, node.to)]
    array = exp.Array(expressions=[cast(one, bound) or one for one in casts])
    return as_type(array, node.to.copy())


def array_literals(literal: exp.Literal, kind: exp.DataType) -> list[exp.Expr]:
    """The elements of a text like '{1,2}' that is cast to this type, as texts.

    Raises InvalidTextRepresentation.
    """
    try:
        texts = array_elements(literal.name)
    except ValueError:
        raise InvalidTextRepresentation(
            f"malformed array literal: '{literal.name[:40]}'",
            hint="Write one dimension, as in '{1,2,3}', and double quotes around an element that "
            "contains a comma or a brace.",
            position=position(literal),
        ) from None
    if any(element.this in _INTEGER_TYPES for element in kind.expressions):
        for text in texts:
            if text is not None and not WHOLE.fullmatch(text):
                raise InvalidTextRepresentation(f'invalid input syntax for type integer: "{text}"')
    return [exp.null() if text is None else exp.Literal.string(text) for text in texts]


def read_truth(node: exp.Expr) -> None:
    """Rewrite a string constant as true or false, in place: DuckDB reads fewer texts as these than
    PostgreSQL. Raises InvalidTextRepresentation.
    """
    literal = node.unnest()
    if not literal.is_string:
        return
    value = truth(literal.name)
    if value is None:
        raise InvalidTextRepresentation(
            f'invalid input syntax for type boolean: "{literal.name[:40]}"',
            hint="Write true or false.",
            position=position(literal) or position(node),
        )
    literal.set("this", str(value).lower())


def _to_numeric(node: exp.Cast, bound: Bound) -> exp.Expr | None:
    """numeric without precision keeps all digits; DuckDB's DECIMAL would keep three."""
    operand, kind = node.this, bound.type_of(node.this)
    if node.to.expressions:
        _check_digits(node)
        if bound.type_of(node) == "INEXACT":
            refuse_inexact(node, bound)
        return None
    if kind in INTEGERS:
        digits = 19 if kind == "BIGINT" else 10
        return as_type(operand, f"DECIMAL({digits}, 0)")
    if kind == "DOUBLE":
        return as_type(operand, "DOUBLE")
    if kind in NUMERICS:
        return exp.paren(operand, copy=False)
    literal = operand.unnest()
    if isinstance(literal, exp.Literal) and _NUMBER.fullmatch(literal.this.strip()):
        return exp.Literal.number(literal.this.strip())
    if isinstance(literal, exp.Null):
        return None
    raise _without_precision()


def _without_precision() -> FeatureNotSupported:
    return FeatureNotSupported(
        "numeric without a precision is not answered here", hint="Write numeric(p, s)."
    )


_BY_TYPE: Final[Mapping[exp.DType, Callable[[exp.Cast, Bound], exp.Expr | None]]] = {
    **dict.fromkeys((exp.DType.TEXT, exp.DType.VARCHAR), _to_text),
    **dict.fromkeys(_INTEGER_TYPES, _to_integer),
    **dict.fromkeys((*_MOMENTS, exp.DType.TIME, exp.DType.INTERVAL), _to_moment),
    exp.DType.ARRAY: _to_array,
    exp.DType.DECIMAL: _to_numeric,
    exp.DType.DOUBLE: _to_double,
    exp.DType.BOOLEAN: _to_truth,
}

RULES: Final[Rules] = {exp.Cast: (cast,)}


def _truth_texts(value: bool) -> str:
    return ", ".join(f"'{text}'" for text, stands_for in TRUTH_TEXTS.items() if stands_for is value)


MACROS: Final = (
    # A text cast to an integer must be digits, optionally with a sign and spaces around.
    "__pg_whole(t) AS CASE WHEN t IS NULL OR regexp_full_match(t, '\\s*[+-]?[0-9]+\\s*') THEN t "
    "ELSE error('a text of the domain is not an integer') END",
    f"__pg_truth(t) AS list_transform([trim(lower(t), ' \t\n\r\f\v')], lambda w: "
    f"CASE WHEN w IN ({_truth_texts(True)}) THEN true WHEN w IN ({_truth_texts(False)}) THEN false "
    "WHEN w IS NOT NULL THEN error('a text of the domain is not a boolean') END)[1]",
)
