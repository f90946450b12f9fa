"""PostgreSQL's own parser, as the second reader of a statement.

Its trees are the dictionaries of libpg_query. `plain` gives two spellings of one thing the same
tree, where PostgreSQL's manual says that they are the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import pgparse
from sqlglot import exp
from sqlglot.errors import ErrorLevel

from tallyveil.errors import (
    InvalidEncoding,
    SQLSyntaxError,
    StatementError,
    StatementTooComplex,
    UndefinedFunction,
)
from tallyveil.interval import quantities_of
from tallyveil.rewriter.sql.nodes import all_nodes, call
from tallyveil.rewriter.sql.second_parser import nodes, sign_refusal

__all__ = ["Call", "PostgresParser", "calls"]

Node: TypeAlias = dict[str, Any]

# Operators of other databases, with PostgreSQL's.
_OPERATORS: Final = {"==": "=", "!": "NOT"}
_HINTS: Final = {
    "LIMIT #,# syntax is not supported": "Use separate LIMIT and OFFSET clauses.",
    "zero-length delimited": "Give it a name of one character or more.",
    "trailing junk": "Put a space between a number and what follows it.",
    "invalid Unicode escape": "Write \\uXXXX or \\UXXXXXXXX with the code point of a character, in "
    "hexadecimal.",
}


class PostgresParser:
    """PostgreSQL 17's grammar, from libpg_query. ``places`` says also how a call was written.

    Its code recurses: the deepest statement within the limits of `statement_text` takes less than
    2 MB of the thread's stack, of which there are 8 MB on Linux and 16 on macOS.
    """

    places = frozenset({"location", "stmt_location", "stmt_len", "funcformat"})

    def parse(self, sql: str) -> list[Node]:
        """The statements of a text.

        Raises PostgreSQL's error: SQLSyntaxError with its words and its position, or
        InvalidEncoding; and StatementTooComplex if the text is nested too deeply.
        """
        try:
            found: list[Node] = pgparse.parse(sql)
        except pgparse.PGQueryError as error:
            raise _error(error.message, error.position) from None
        except UnicodeEncodeError as error:
            raise InvalidEncoding("the statement is not UTF-8", position=error.start + 1) from None
        except RecursionError as error:
            raise StatementTooComplex("the statement is nested too deeply") from error
        return found

    def render(self, tree: exp.Expr) -> str:
        """The tree as PostgreSQL's SQL. sqlglot adds casts to some functions, and merges others."""
        for node in all_nodes(tree, *_MERGED):
            written, own = node.meta_get("written"), list(node.iter_expressions())
            match node, written:
                case exp.Round(), _:
                    node.replace(call("round", *own))
                case exp.Extract(), "date_part":
                    node.replace(call("date_part", exp.Literal.string(node.name), node.expression))
                case exp.RegexpLike(), "regexp_like":
                    node.replace(call("regexp_like", *own))
                case exp.Median(), _:
                    node.replace(call("median", *own))
                case exp.ApproxDistinct(), _:
                    node.replace(call("approx_count_distinct", *own))
        return tree.sql("postgres", copy=False, comments=False, unsupported_level=ErrorLevel.IGNORE)

    def plain(self, node: Node) -> Node:
        """The node, by its usual spelling. Its parts are left as they are."""
        while len(node) == 1:
            (kind,) = node
            rule = _RULES.get(kind)
            changed = node if rule is None else rule(node[kind])
            if changed.keys() == node.keys():
                return changed
            node = changed
        if "frameOptions" in node:
            return {**node, "frameOptions": node["frameOptions"] & ~_BETWEEN}
        if "typemod" in node and "names" in node:
            return {**node, "names": _strings(_names(node["names"]))}
        return node

    def place(self, node: Any) -> int | None:
        """Its own place, or else the first of its parts'."""
        stack, found = [node], list[int]()
        while stack:
            one = stack.pop()
            if isinstance(one, dict):
                (inner,) = one.values() if len(one) == 1 else (one,)
                own = inner.get("location", -1) if isinstance(inner, dict) else -1
                if own >= 0:
                    found.append(own)
                else:
                    stack += one.values()
            elif isinstance(one, list):
                stack += one
        return min(found, default=None)

    def constant(self, node: Node) -> tuple[int, str] | None:
        match node:
            case {"sval": {"sval": str(text)}, "location": int(start)}:
                return start, text
            case {"sval": {}, "location": int(start)}:
                return start, ""
        return None

    def refusal(self, node: Any) -> StatementError | None:
        match node:
            case {"A_Expr": fields} | fields if fields.get("kind") == "AEXPR_OP":
                sign = _names(fields["name"])[-1]
                if sign == "+" and "lexpr" not in fields:
                    return sign_refusal()
                if sign in _OPERATORS:
                    message = f"operator does not exist: {sign}"
                    return UndefinedFunction(message, hint=f"Write {_OPERATORS[sign]}.")
        return None


def _error(message: str, position: int) -> StatementError:
    place = position or None
    if message.startswith("memory exhausted"):
        return StatementTooComplex("the statement is nested too deeply", position=place)
    if message.startswith("invalid byte sequence"):
        return InvalidEncoding(message, position=place)
    hint = next((hint for start, hint in _HINTS.items() if message.startswith(start)), None)
    return SQLSyntaxError(message, hint=hint, position=place)


class Call(NamedTuple):
    """A call of a function; ``start`` is where it begins, counting characters from 0."""

    name: str
    arguments: int
    start: int


def calls(statements: list[Node], sql: str) -> list[Call]:
    """The calls that are written as name(…), without a schema, in their order."""
    found = list[tuple[int, str, int]]()
    for node in nodes(statements):
        fields = node.get("FuncCall")
        if fields is not None and len(fields["funcname"]) == 1:
            name, count = _names(fields["funcname"])[0], len(fields.get("args", ()))
            found.append((fields.get("location", 0), name, count))
    data, byte, character, read = sql.encode(), 0, 0, list[Call]()
    for location, name, count in sorted(found):
        character += len(data[byte:location].decode())
        byte = location
        read.append(Call(name, count, character))
    return read


_MERGED: Final = (exp.ApproxDistinct, exp.Extract, exp.Median, exp.RegexpLike, exp.Round)


def _names(parts: list[Node]) -> list[str]:
    names = [part["String"].get("sval", "") for part in parts]
    return names[1:] if names[:-1] == ["pg_catalog"] else names  # found there first


def _strings(names: list[str]) -> list[Node]:
    return [{"String": {"sval": name}} for name in names]


# Other names of the same functions.
_SAME: Final = {
    "substr": "substring", "char_length": "length", "character_length": "length",
    "ceiling": "ceil", "pow": "power", "variance": "var_samp", "strpos": "position",
    "log10": "log", "date_part": "extract",  # in double precision, not numeric
}  # fmt: skip
_WITH_UNIT: Final = frozenset({"date_trunc", "date_part", "extract"})


def _function(fields: Node) -> Node:
    names, arguments = _names(fields["funcname"]), fields.get("args", [])
    if len(names) > 1:
        return {"FuncCall": fields}
    match names[0], arguments:
        case "now", []:
            return {"SQLValueFunction": {"op": "SVFOP_CURRENT_TIMESTAMP", "typmod": -1}}
        case "mod", [left, right]:
            sign = _strings(["%"])
            return {"A_Expr": {"kind": "AEXPR_OP", "name": sign, "lexpr": left, "rexpr": right}}
        case "current_schema", []:
            return {"SQLValueFunction": {"op": "SVFOP_CURRENT_SCHEMA", "typmod": -1}}
        case name, [unit, *others] if name in _WITH_UNIT and _text(unit) is not None:
            arguments = [{"A_Const": {"sval": {"sval": (_text(unit) or "").lower()}}}, *others]
        case "substring", [text, start, {"TypeCast": {"arg": {"A_Const": {"ival": _}}} as cast}]:
            # FOR 2 without FROM
            arguments = [text, start, cast["arg"]]
    name = _SAME.get(names[0], names[0])
    changed = {"funcname": _strings([name])} | ({"args": arguments} if arguments else {})
    return {"FuncCall": {**fields, **changed}}


def _text(node: Any) -> str | None:
    match node:
        case {"A_Const": {"sval": {"sval": str(text)}}}:
            return text
    return None


def _not(node: Node) -> Node:
    return {"BoolExpr": {"boolop": "NOT_EXPR", "args": [node]}}


# Operators that negate another.
_NEGATED: Final = {
    ("AEXPR_NOT_BETWEEN", "NOT BETWEEN"): ("AEXPR_BETWEEN", "BETWEEN"),
    ("AEXPR_NOT_BETWEEN_SYM", "NOT BETWEEN SYMMETRIC"): (
        "AEXPR_BETWEEN_SYM", "BETWEEN SYMMETRIC",
    ),
    ("AEXPR_IN", "<>"): ("AEXPR_IN", "="),
    ("AEXPR_OP", "!~"): ("AEXPR_OP", "~"),
    ("AEXPR_OP", "!~*"): ("AEXPR_OP", "~*"),
    ("AEXPR_LIKE", "!~~"): ("AEXPR_LIKE", "~~"),
    ("AEXPR_ILIKE", "!~~*"): ("AEXPR_ILIKE", "~~*"),
}  # fmt: skip
# Operators for words.
_WORDS: Final = {
    "~~": "AEXPR_LIKE", "!~~": "AEXPR_LIKE", "~~*": "AEXPR_ILIKE", "!~~*": "AEXPR_ILIKE",
}  # fmt: skip
_CALLED: Final = {"^": "power", "^@": "starts_with", "|/": "sqrt", "||/": "cbrt"}


def _expression(fields: Node) -> Node:
    kind, names = fields["kind"], _names(fields["name"])
    if kind == "AEXPR_OP" and len(names) == 1 and names[0] in _WORDS:
        kind = _WORDS[names[0]]
        fields = {**fields, "kind": kind}
    negated = _NEGATED.get((kind, names[-1]))
    if negated is not None and len(names) == 1:
        return _not({"A_Expr": {**fields, "kind": negated[0], "name": _strings([negated[1]])}})
    if kind != "AEXPR_OP" or len(names) > 1:
        return {"A_Expr": fields}
    operands = [fields[side] for side in ("lexpr", "rexpr") if side in fields]
    if names[0] in _CALLED:
        return {"FuncCall": {"funcname": _strings([_CALLED[names[0]]]), "args": operands}}
    return {"A_Expr": fields}


def _boolean(fields: Node) -> Node:
    kind, null = fields["booltesttype"], {"UNKNOWN": "IS_NULL", "NOT_UNKNOWN": "IS_NOT_NULL"}
    if kind.removeprefix("IS_") in null:
        test = null[kind.removeprefix("IS_")]
        return {"NullTest": {"arg": fields["arg"], "nulltesttype": test}}
    if kind.startswith("IS_NOT_"):
        return _not({"BooleanTest": {**fields, "booltesttype": kind.replace("NOT_", "")}})
    return {"BooleanTest": fields}


# The units that may follow the text of an interval, as PostgreSQL's masks of fields.
_FIELDS: Final = {4: "year", 2: "month", 8: "day", 1024: "hour", 2048: "minute", 4096: "second"}


def _cast(fields: Node) -> Node:
    """An interval by its quantities: sqlglot writes units in capitals or in the singular."""
    text, kind = _text(fields["arg"]), fields["typeName"]
    if text is None or _names(kind.get("names", []))[-1:] != ["interval"]:
        return {"TypeCast": fields}
    match kind.get("typmods"):
        case None:
            pass
        case [{"A_Const": {"ival": {"ival": int(mask)}}}] if mask in _FIELDS and _WHOLE(text):
            text = f"{text} {_FIELDS[mask]}"
        case _:
            return {"TypeCast": fields}
    try:
        found = quantities_of(text)
        return {"TypeCast": {"interval": [(amount.lstrip("+"), unit) for amount, unit in found]}}
    except ValueError:
        return {"TypeCast": fields}


_WHOLE: Final = re.compile(r"\s*[+-]?[0-9]{1,40}\s*", re.ASCII).fullmatch


def _constant(fields: Node) -> Node:
    match fields:
        case {"fval": {"fval": str(text)}}:
            digits = text.replace("_", "")
            if digits[:2].lower() in ("0x", "0o", "0b"):
                digits = str(int(digits, 0))
            digits = f"0{digits}" if digits.startswith(".") else digits
            return {"A_Const": {**fields, "fval": {"fval": digits}}}
    return {"A_Const": fields}


def _sort(fields: Node) -> Node:
    """NULLs come last, but in a descending order."""
    down = fields["sortby_dir"] == "SORTBY_DESC"
    nulls = fields["sortby_nulls"]
    if nulls == "SORTBY_NULLS_DEFAULT":
        nulls = "SORTBY_NULLS_FIRST" if down else "SORTBY_NULLS_LAST"
    if fields["sortby_dir"] == "SORTBY_DEFAULT":
        fields = {**fields, "sortby_dir": "SORTBY_ASC"}
    return {"SortBy": {**fields, "sortby_nulls": nulls}}


def _values(fields: Node) -> Node:
    """sqlglot writes a VALUES that is a query by itself as SELECT * FROM (VALUES …) AS _values."""
    match fields:
        case {
            "targetList": [{"ResTarget": {"val": {"ColumnRef": {"fields": [{"A_Star": _}]}}}}],
            "fromClause": [{"RangeSubselect": {"subquery": query, "alias": alias}}],
        }:
            plainly = fields.keys() == {"targetList", "fromClause", "limitOption", "op"}
            own: Node = query
            if plainly and alias == {"aliasname": "_values"} and "valuesLists" in own["SelectStmt"]:
                return own
    return {"SelectStmt": fields}


_RULES: Final[Mapping[str, Callable[[Node], Node]]] = {
    "FuncCall": _function,
    "A_Expr": _expression,
    "BooleanTest": _boolean,
    "TypeCast": _cast,
    "A_Const": _constant,
    "SortBy": _sort,
    "SelectStmt": _values,
}
_BETWEEN: Final = 0x10  # ROWS 1 PRECEDING is short for BETWEEN 1 PRECEDING AND CURRENT ROW
