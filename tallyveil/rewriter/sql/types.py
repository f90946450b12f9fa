"""The static types of expressions, as PostgreSQL has them, by DuckDB's names.

Two types are ours. A ``QUOTIENT`` is a numeric that results from a division: DuckDB computes it in
double precision, correctly rounded. ``INEXACT`` is arithmetic on such a quotient: PostgreSQL's
numeric and DuckDB's double may differ in the last digit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from sqlglot import exp

__all__ = [
    "INTEGERS", "NUMERICS", "ResultType", "TypeOf", "aggregate", "arithmetic", "binned", "case",
    "cast", "choice", "common_type", "declared_type", "element", "family", "in_zone",
    "is_literal_text", "literal", "postgres_type", "real", "rounded", "same", "truncated",
    "whole_quotient",
]  # fmt: skip

TypeOf: TypeAlias = Callable[[exp.Expr], str | None]

ResultType: TypeAlias = str | Callable[[exp.Expr, TypeOf], str | None]
"""A fixed type, or a function that derives it from the types of an expression's parts."""

INTEGERS: Final = ("SMALLINT", "INTEGER", "BIGINT")
NUMERICS: Final = ("NUMERIC", "QUOTIENT", "INEXACT")
_LADDER: Final = (*INTEGERS, *NUMERICS, "DOUBLE")  # from the narrowest to the widest
_TIMES: Final = ("DATE", "TIMESTAMP", "TIMESTAMPTZ")
_ZONED: Final = {"TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ"}
_FAMILIES: Final = {
    **dict.fromkeys(_LADDER, "number"),
    **dict.fromkeys(_TIMES, "time"),
    **dict.fromkeys(("TIME", "INTERVAL"), "duration"),
    "VARCHAR": "text",
    "BOOLEAN": "truth",
}

_CAST_NAMES: Final = {
    "INT": "INTEGER", "TEXT": "VARCHAR", "CHAR": "VARCHAR", "BPCHAR": "VARCHAR",
    "NAME": "VARCHAR", "DECIMAL": "NUMERIC", "FLOAT": "DOUBLE", "TIMESTAMPNTZ": "TIMESTAMP",
    "TINYINT": "SMALLINT", "INT128": "NUMERIC",
}  # fmt: skip


def family(kind: str | None) -> str | None:
    """number, text, truth, time or duration. PostgreSQL compares types of one family only."""
    return _FAMILIES.get(kind or "")


def declared_type(kind: str | None) -> str | None:
    """The static type of a column of a DuckDB table, or None if there is none."""
    if kind is None:
        return None
    name = "NUMERIC" if kind.startswith("DECIMAL") else _ZONED.get(kind, kind)
    return name if name in (*_LADDER, *_TIMES, "VARCHAR", "BOOLEAN", "TIME", "INTERVAL") else None


def postgres_type(kind: str | None) -> str:
    """The type by PostgreSQL's name."""
    name = "numeric" if kind in NUMERICS else (kind or "unknown").lower()
    return {"VARCHAR": "text", "DOUBLE": "double precision"}.get(kind or "", name)


def common_type(types: Sequence[str | None]) -> str | None:
    """The type CASE, COALESCE or UNION gives values of these types."""
    if not types or None in types:
        return None
    if all(kind in _LADDER for kind in types):
        return max((k for k in types if k is not None), key=_LADDER.index)
    return types[0] if len(set(types)) == 1 else None


def is_literal_text(node: exp.Expr) -> bool:
    """Whether it takes its type from its context: string constants, NULL and parameters do."""
    inner = node.unnest()
    return isinstance(inner, exp.Null | exp.Parameter | exp.Placeholder) or inner.is_string


# Each function derives the type of an expression from those of its parts


def same(node: exp.Expr, type_of: TypeOf) -> str | None:
    return type_of(node.this)


def literal(node: exp.Expr, type_of: TypeOf) -> str | None:
    if node.is_string:
        return "VARCHAR"
    if not node.this.isdigit():
        return "NUMERIC"
    number = int(node.this)
    return "INTEGER" if number < 2**31 else "BIGINT" if number < 2**63 else "NUMERIC"


def choice(node: exp.Expr, type_of: TypeOf) -> str | None:
    return _values([node.this, *node.expressions], type_of)


def case(node: exp.Expr, type_of: TypeOf) -> str | None:
    branches = [branch.args.get("true") for branch in node.args["ifs"]]
    return _values([*branches, node.args.get("default")], type_of)


def _values(nodes: Sequence[exp.Expr | None], type_of: TypeOf) -> str | None:
    kinds = [type_of(node) for node in nodes if node is not None and not is_literal_text(node)]
    if kinds:
        return common_type(kinds)
    strings = [node for node in nodes if node is not None and not isinstance(node, exp.Null)]
    return "VARCHAR" if strings else None


def element(node: exp.Expr, type_of: TypeOf) -> str | None:
    array = node.this.unnest()
    if isinstance(array, exp.Array):
        return common_type([type_of(item) for item in array.expressions])
    if isinstance(array, exp.Cast) and array.to.this is exp.DType.ARRAY and array.to.expressions:
        return _cast_type(array.to.expressions[0])
    return None


def truncated(node: exp.Expr, type_of: TypeOf) -> str | None:
    operand = type_of(node.this)
    return operand if operand in ("TIMESTAMP", "INTERVAL") else "TIMESTAMPTZ"


def binned(node: exp.Expr, type_of: TypeOf) -> str | None:
    return type_of(node.expression)


def in_zone(node: exp.Expr, type_of: TypeOf) -> str | None:
    return "TIMESTAMPTZ" if type_of(node.this) == "TIMESTAMP" else "TIMESTAMP"


def whole_quotient(node: exp.Expr, type_of: TypeOf) -> str | None:
    return common_type([type_of(node.this), type_of(node.expression)])


def arithmetic(node: exp.Expr, type_of: TypeOf) -> str | None:
    left, right = type_of(node.this), type_of(node.expression)
    if is_literal_text(node.this):
        left = right
    elif is_literal_text(node.expression):
        right = left
    if "INTERVAL" in (left, right) or left in _TIMES or right in _TIMES:
        return _time_arithmetic(node, left, right)
    kind = common_type([left, right]) if left in _LADDER and right in _LADDER else None
    if kind in NUMERICS:
        if kind != "NUMERIC":
            return "INEXACT"
        return "QUOTIENT" if isinstance(node, exp.Div) else "NUMERIC"
    return kind


def _time_arithmetic(node: exp.Expr, left: str | None, right: str | None) -> str | None:
    if left == right == "DATE":
        return "INTEGER" if isinstance(node, exp.Sub) else None
    if left == "DATE" and right in INTEGERS:
        return "DATE"
    if right == "DATE" and left in INTEGERS:
        return "DATE"
    if "INTERVAL" in (left, right):
        other = right if left == "INTERVAL" else left
        if other in _TIMES:
            return "TIMESTAMP" if other == "DATE" else other
        return "INTERVAL"
    return "INTERVAL" if left in _TIMES and right in _TIMES else None


def aggregate(node: exp.Expr, type_of: TypeOf) -> str | None:
    kind = type_of(node.this)
    if kind not in (*INTEGERS, *NUMERICS):
        return kind
    if isinstance(node, exp.Sum):
        return kind if kind in NUMERICS else "NUMERIC" if kind == "BIGINT" else "BIGINT"
    return "QUOTIENT" if isinstance(node, exp.Avg) else "INEXACT"


def middle(node: exp.Expr, type_of: TypeOf) -> str | None:
    """The type of a quantile between two values."""
    kind = type_of(node.this)
    return "DOUBLE" if kind in (*INTEGERS, *NUMERICS) else "TIMESTAMP" if kind == "DATE" else kind


def real(node: exp.Expr, type_of: TypeOf) -> str | None:
    """The type of a root, a power or a logarithm."""
    kind, second = type_of(node.this), node.args.get("expression")
    if second is not None:
        kind = common_type([kind, type_of(second)])
    if kind in INTEGERS:
        return "DOUBLE"
    return "INEXACT" if kind in NUMERICS else kind


def rounded(node: exp.Expr, type_of: TypeOf) -> str | None:
    kind, decimals = type_of(node.this), node.args.get("decimals")
    if kind in INTEGERS:
        return "DOUBLE" if decimals is None else "NUMERIC"
    if kind not in NUMERICS:
        return kind
    inexact = kind == "INEXACT" or (decimals is not None and kind != "NUMERIC")
    return "INEXACT" if inexact else "NUMERIC"


def cast(node: exp.Expr, type_of: TypeOf) -> str | None:
    """A cast to numeric(p, s) is INEXACT if it would round digits that DuckDB does not have."""
    target = node.args["to"]
    kind, given = _cast_type(target), target.expressions
    if kind != "NUMERIC":
        return kind
    operand = type_of(node.this)
    if given:
        whole = len(given) == 1 or given[1].name == "0"
        inexact = operand in ("QUOTIENT", "INEXACT", "DOUBLE") and not whole
        return "INEXACT" if inexact else "NUMERIC"
    if operand == "DOUBLE":
        return "QUOTIENT"
    return operand if operand in NUMERICS else "NUMERIC"


def _cast_type(kind: exp.Expr) -> str:
    name = str(kind.this.value).upper()
    return _CAST_NAMES.get(name, name)
