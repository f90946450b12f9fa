"""Refuse anything that cannot be analysed, before evaluating anything."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from sqlglot import exp

from tallyveil.errors import (
    AnswerNeeded,
    FeatureNotSupported,
    InvalidLimit,
    InvalidOffset,
    NumericValueOutOfRange,
    SQLSyntaxError,
    StatementError,
    StatementTooComplex,
    UndefinedFunction,
    UndefinedObject,
    WindowingError,
)
from tallyveil.rewriter.sql import vocabulary as known
from tallyveil.rewriter.sql.literals import check_number
from tallyveil.rewriter.sql.nodes import all_nodes, function_name, meant, position, visit

__all__ = ["check", "refuse_type_lookups"]

MAX_DIGITS: Final = 400
MAX_ITEMS: Final = 1664  # PostgreSQL's limit for the items of a SELECT
MAX_SELECTS: Final = 500
_MOST_ROWS: Final = 2**63 - 1

# Lists of values have no limit but MAX_TOKENS.
_LONG_LISTS: Final = frozenset({exp.In, exp.Array, exp.Values})

_LARGEST_INTEGER: Final = 2**31 - 1  # the bits of a larger number may mean a negative one

_PIVOT: Final = "Write it as a statement: PIVOT person ON sex USING count(*) GROUP BY state."

_REFUSED: Final[Mapping[type[exp.Expr], tuple[str, str | None]]] = {
    exp.TableSample: ("TABLESAMPLE is not answered",
        "Ask for the whole table: sampling would not lower the cost."),
    exp.Pivot: ("PIVOT is not answered in this place", _PIVOT),
    exp.Lateral: ("LATERAL is not answered", None),
    exp.Unnest: ("table functions are not answered", None),
    exp.Lock: ("FOR UPDATE and FOR SHARE are not answered", "Analysts can only read."),
    exp.Into: ("SELECT INTO is not answered", "Analysts can only read."),
    exp.Rand: ("random() is not answered", "Answers must depend on the statement alone."),
    exp.Uuid: ("random values are not answered", "Answers must depend on the statement alone."),
    exp.CurrentTime: ("the current time of day is not answered", "Use now() or current_date."),
    exp.WithinGroup: ("WITHIN GROUP is not answered",
        "Ask SELECT attribute, count(*) … GROUP BY attribute and compute it from the counts."),
    exp.IgnoreNulls: ("IGNORE NULLS is not answered", None),
    exp.UnicodeString: ("a string with Unicode escapes (U&'…') is not answered",
        "Write the characters themselves, or E'\\u0041'."),
    exp.BitString: ("bit strings (B'…') are not answered", None),
    exp.HexString: ("bit strings (X'…') are not answered", None),
    **dict.fromkeys(
        (
            exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot,
            exp.BitwiseLeftShift, exp.BitwiseRightShift,
        ),
        ("operators on bits are not answered", "Use arithmetic: / and % by powers of 2."),
    ),
    exp.Pad: ("padding a text is not answered", None),
    exp.SimilarTo: ("SIMILAR TO is not answered", "Use LIKE or ~ instead."),
    exp.Star: ("* is answered in count(*) only", "Name the attributes; see dp.attributes."),
}  # fmt: skip

# Clauses that the parser reads and we refuse, as (node, argument), in SQL's words.
_CLAUSES: Final[Mapping[tuple[type[exp.Expr], str], tuple[str, str | None]]] = {
    (exp.Count, "expressions"): ("count of several values",
        "count(*) FILTER (WHERE a IS NOT NULL AND b IS NOT NULL) counts the rows that have both."),
    (exp.Interval, "fraction_in_string"): ("an interval with a fraction",
        "Write whole quantities: '1 month 15 days'."),
    **dict.fromkeys(
        ((exp.TimestampTrunc, "zone"), (exp.DateTrunc, "zone")),
        ("date_trunc with a time zone",
            "Write date_trunc('day', … AT TIME ZONE 'zone'), or SET timezone."),
    ),
    (exp.Order, "this"): ("ORDER BY inside an aggregate", None),
    (exp.With, "recursive"): ("WITH RECURSIVE",
        "Leave out RECURSIVE if no query reads itself."),
    (exp.Distinct, "on"): ("DISTINCT ON", "Rank the noisy rows with row_number() OVER (…)."),
    (exp.Join, "method"): ("a NATURAL, POSITIONAL or ASOF join",
        "Write JOIN … USING (…) or JOIN … ON …."),
    (exp.In, "field"): ("IN without parentheses", "Write IN (value, …)."),
    (exp.Limit, "limit_options"): ("LIMIT with PERCENT", "Give a number of rows."),
    **dict.fromkeys(
        ((exp.LimitOptions, "percent"), (exp.LimitOptions, "with_ties")),
        ("FETCH with PERCENT or WITH TIES", None),
    ),
    (exp.Union, "by_name"): ("UNION BY NAME", "List the items in the same order."),
    (exp.Between, "symmetric"): ("BETWEEN SYMMETRIC", "Put the smaller value first."),
    (exp.Table, "only"): ("ONLY", "Leave it out: no table inherits here."),
    (exp.TryCast, "safe"): ("TRY_CAST", "Write CAST(… AS …)."),
}  # fmt: skip

_ANSWERED: Final = sorted({*known.POSTGRES_FUNCTIONS, *known.NAMES.values(), "count", "sum", "avg"})

_TYPE_LOOKUPS: Final = frozenset({"to_regtype", "regtype"})

_JOINS: Final = frozenset({"", "INNER", "CROSS", "LEFT", "RIGHT", "FULL", "OUTER"})


def check(tree: exp.Expr) -> None:
    """Raise a StatementError at the first construct that is unsupported or beyond a limit."""
    nodes = all_nodes(tree, exp.Expr)
    visit(nodes, _check_node)
    selects = sum(isinstance(node, exp.Select) for node in nodes)
    if selects > MAX_SELECTS:
        raise StatementTooComplex(
            f"the statement has {selects} SELECTs; the limit is {MAX_SELECTS}",
            hint="Ask in several statements, or GROUP BY the attribute they differ in.",
        )


def _check_node(node: exp.Expr) -> None:
    kind = type(node)
    if isinstance(node, exp.Star):
        named = isinstance(node.parent, exp.Column) and isinstance(node.parent.parent, exp.Select)
        if not named and not isinstance(node.parent, exp.Count | exp.Select):
            raise _refusal(node)
        if any(value for value in node.args.values()):
            raise FeatureNotSupported("* with EXCEPT, REPLACE or RENAME is not answered")
    elif isinstance(node, exp.DataType):
        _check_type(node)
    elif isinstance(node, exp.Literal):
        _check_number(node)
    elif isinstance(node, exp.Var):
        _check_word(node)
    elif isinstance(node, exp.Limit | exp.Offset):
        _check_row_number(node)
    elif isinstance(node, exp.Query) and not isinstance(node, exp.Subquery):
        _check_query(node)
    elif isinstance(node, exp.Anonymous):
        _check_named(node)
    elif isinstance(node, exp.Func) and kind not in known.FUNCTIONS:
        _check_function(node)
    elif kind not in known.SYNTAX and kind not in known.FUNCTIONS:
        if isinstance(node, exp.Dot):
            _check_dot(node)
        else:
            raise _refusal(node)
    _check_arguments(node)


def _check_arguments(node: exp.Expr) -> None:
    allowed = known.ARGUMENTS.get(type(node))
    for name, value in node.args.items():
        if allowed is not None and value and name not in allowed:
            raise _argument_refusal(node, name, value)
        if isinstance(value, list) and len(value) > MAX_ITEMS and type(node) not in _LONG_LISTS:
            raise StatementTooComplex(
                f"a list of the statement has {len(value)} items; the limit is {MAX_ITEMS}",
                hint="Ask in several statements.",
            )
    if isinstance(node, exp.Select) and not node.expressions:
        raise SQLSyntaxError("a SELECT lists at least one item", position=position(node))
    if isinstance(node, exp.Select) and node.args.get("qualify"):
        qualify = node.args["qualify"]
        if not any(part.find(exp.Window) for part in (qualify, *node.expressions)):
            raise WindowingError(
                "QUALIFY needs a window function, in it or among the items",
                hint="Write a condition on groups in HAVING, and one on records in WHERE.",
                position=position(qualify) or position(node),
            )
    if isinstance(node, exp.Filter) and not isinstance(node.this, exp.AggFunc):
        raise FeatureNotSupported("FILTER must follow an aggregate function")
    if isinstance(node, exp.Group) and node.args.get("all") is False:
        raise FeatureNotSupported(
            "GROUP BY DISTINCT is not answered",
            hint="Leave out DISTINCT, and name each set once: GROUPING SETS ((a, b), (a), ()).",
            position=position(node),
        )
    if isinstance(node, exp.Window):
        _check_window(node)
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table):
        raise FeatureNotSupported(
            "a table in brackets is not answered", hint=f"Write FROM {node.this.name}."
        )
    if isinstance(node, exp.Join):
        words = {(node.side or "").upper(), (node.kind or "").upper()}
        if not words <= _JOINS:
            raise FeatureNotSupported("this kind of join is not answered")
    if isinstance(node, exp.Like | exp.ILike) and isinstance(node.expression, exp.Any | exp.All):
        raise FeatureNotSupported(
            "LIKE with ANY or ALL is not answered", hint="Write a LIKE 'x%' OR a LIKE 'y%'."
        )


def _argument_refusal(node: exp.Expr, name: str, value: object) -> StatementError:
    if isinstance(node, exp.Select) and value == "PIVOT":
        return AnswerNeeded("PIVOT is not answered here", hint=_PIVOT)
    inner = value[0] if isinstance(value, list) else value
    where = position(inner) if isinstance(inner, exp.Expr) else None
    if isinstance(inner, exp.Expr) and type(inner) in _REFUSED:
        return _refusal(inner, where)
    if isinstance(node, exp.Substring):
        return UndefinedFunction(
            "function substring with 4 arguments does not exist", hint="substring takes 2 to 3."
        )
    plain = f"{name.strip('_').replace('_', ' ')} in {node.key}".upper()
    if node.meta_get("written", function_name(node)) != function_name(node):
        plain = node.meta["written"]
    what, hint = _CLAUSES.get((type(node), name), (plain, None))
    return FeatureNotSupported(
        f"{what} is not answered", hint=hint, position=where or position(node)
    )


def refuse_type_lookups(tree: exp.Expr) -> None:
    """Refuse to look types up by name, as drivers do for those of extensions: they take 42704 for
    "not installed here", whatever else is wrong with the statement."""
    if any(function_name(node) in _TYPE_LOOKUPS for node in tree.find_all(exp.Anonymous)):
        raise UndefinedObject("types are not looked up by name here")


def _check_function(node: exp.Func) -> None:
    kind = type(node)
    if kind in known.AGGREGATES or function_name(node) in known.SESSION_FUNCTIONS:
        return
    if kind in known.WINDOW_FUNCTIONS and isinstance(node.parent, exp.Window):
        return
    if kind in known.REFUSED_AGGREGATES:
        return  # allowed over noisy rows; a private block refuses it with its own hint
    raise _refusal(node)


def _check_window(node: exp.Window) -> None:
    if function_name(node.this) in known.ABOUT_ANSWERS:
        raise FeatureNotSupported(
            f"{function_name(node.this)} describes the answer in its row and takes no window",
            hint="Leave out OVER (…).",
        )
    outer = node.find_ancestor(exp.Window, exp.Query)
    if isinstance(outer, exp.Window):
        inside: exp.Expr = node
        while inside.parent is not outer and inside.parent is not None:
            inside = inside.parent
        raise WindowingError(
            "window function calls cannot be nested"
            if inside is outer.this
            else "window functions are not allowed in window definitions",
            hint="Compute the inner one in a subquery, and the outer one above it.",
            position=position(node),
        )


def _check_named(node: exp.Anonymous) -> None:
    name = function_name(node)
    if name in known.NAMED_FUNCTIONS or name in known.SESSION_FUNCTIONS:
        return
    if name in known.ABOUT_ANSWERS:
        return
    if name == "histogram":
        raise FeatureNotSupported(
            "histogram is not answered: its result is a map",
            hint="Ask SELECT attribute, count(*) … GROUP BY attribute.",
        )
    raise UndefinedFunction(
        f"function {name} is not answered",
        hint=f"{meant(name, _ANSWERED)}Only deterministic functions of texts, numbers and dates"
        " are answered.",
    )


def _check_dot(node: exp.Dot) -> None:
    """Allow pg_catalog before a function, as in pg_catalog.version(), and no other dot."""
    schema, function = node.this, node.expression
    named = isinstance(schema, exp.Identifier) and schema.name.lower() == "pg_catalog"
    if named and isinstance(function, exp.Func):
        return
    raise FeatureNotSupported(
        "a dot is answered between the names of a table and a column only",
        hint="Write person.age for a column, and lower(state) for a function.",
        position=position(node) or position(node.parent or node),
    )


def _check_number(node: exp.Literal) -> None:
    if node.is_string:
        return
    if len(node.name) > MAX_DIGITS:
        raise NumericValueOutOfRange(
            f"a number has {len(node.name)} digits; the limit is {MAX_DIGITS}",
            hint="Write it as a power of ten: 1e20.",
        )
    check_number(node.name)


def _check_row_number(node: exp.Limit | exp.Offset) -> None:
    """Refuse a constant that PostgreSQL refuses; other values are checked when the query runs."""
    value = node.expression
    number = value.this if isinstance(value, exp.Neg) else value
    if not isinstance(number, exp.Literal) or number.is_string or not number.name.isdecimal():
        return
    _check_number(number)
    rows = int(number.name)
    word, where = node.key.upper(), position(value) or position(node)
    hint = f"Give a number from 0 to {_MOST_ROWS}."
    if rows > _MOST_ROWS:
        raise NumericValueOutOfRange(f"{word} is out of range", hint=hint, position=where)
    if rows and number is not value:
        kind = InvalidLimit if isinstance(node, exp.Limit) else InvalidOffset
        raise kind(f"{word} must not be negative", hint=hint, position=where)


def _check_word(node: exp.Var) -> None:
    """Refuse special characters: the word enters SQL unquoted, perhaps from date_part('…')."""
    if not re.fullmatch(r"[A-Za-z_]+( [A-Za-z_]+)*", node.name):
        origin = isinstance(node.parent, exp.DateBin)
        raise FeatureNotSupported(
            "this origin of date_bin is not answered" if origin else "a word was expected here",
            hint="Write its type: TIMESTAMP '2001-01-01', or TIMESTAMPTZ." if origin else None,
            position=position(node.parent or node),
        )


def _check_query(node: exp.Query) -> None:
    """Refuse a query inside an expression unless it is a Subquery, that is, in parentheses."""
    if isinstance(node.parent, exp.Expr) and not isinstance(
        node.parent, exp.Subquery | exp.CTE | exp.SetOperation | exp.In | exp.Exists
    ):
        raise FeatureNotSupported(
            "a query is not answered in this place",
            hint="Put it into FROM, or name it by WITH at the beginning of the statement.",
        )


def _check_type(node: exp.DataType) -> None:
    if node.this is exp.DType.ARRAY and node.expressions:
        return
    if node.this not in known.TYPES:
        raise FeatureNotSupported(
            f"type {node.sql('postgres')} is not answered", position=position(node.parent or node)
        )


def _refusal(node: exp.Expr, where: int | None = None) -> StatementError:
    if isinstance(node, exp.IgnoreNulls) and isinstance(node.this, exp.AnyValue):
        node = node.this  # the parser adds IGNORE NULLS
    message, hint = _REFUSED.get(type(node), (None, None))
    if message is None:
        what = function_name(node) if isinstance(node, exp.Func) else node.key.upper()
        message = f"{what} is not answered"
    if not isinstance(node.parent, exp.Query | None):
        where = where or position(node) or position(node.parent)
    return FeatureNotSupported(message, hint=hint or _hint(node), position=where)


def _hint(node: exp.Expr) -> str | None:
    """What to write instead of this node, where that depends on more than its class."""
    match node:
        case exp.AggFunc():
            return known.ANSWERED
        case exp.Pad() if node.args.get("is_left"):
            return (
                "Write CASE WHEN length(a) < 3 THEN right('   ' || a, 3) ELSE left(a, 3) END "
                "for lpad(a, 3)."
            )
        case exp.Pad():
            return "Write left(a || '   ', 3) for rpad(a, 3)."
        case exp.BitString() | exp.HexString():
            digits = node.name.replace("_", "") or "0"
            number = int(digits, 2 if isinstance(node, exp.BitString) else 16)
            shown = f": {number}" if number <= _LARGEST_INTEGER else ""
            return f"Write the number in decimal digits{shown}."
    return None
