"""DuckDB's own parser, as the second reader of a statement: `json_serialize_sql`."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import duckdb
from sqlglot import exp
from sqlglot.errors import ErrorLevel

from tallyveil.errors import InvalidEncoding, SQLSyntaxError, StatementError, StatementTooComplex
from tallyveil.interval import quantities_of
from tallyveil.rewriter.sql.second_parser import sign_refusal

__all__ = ["DuckDBParser"]

Node: TypeAlias = dict[str, Any]

_SETTINGS: Final[dict[str, str | bool | int | float | list[str]]] = {
    "threads": "1", "memory_limit": "256MB", "enable_external_access": "false",
    "autoinstall_known_extensions": "false", "autoload_known_extensions": "false",
}  # fmt: skip


class DuckDBParser:
    """The grammar of the installed DuckDB. Each thread has a connection, to a database of its own
    in which nothing is ever run."""

    places = frozenset({"query_location", "query_location_length"})

    def __init__(self) -> None:
        self._own = threading.local()

    def parse(self, sql: str) -> list[Node]:
        """The statements of a text; none if they are no queries.

        Raises DuckDB's error, SQLSyntaxError; InvalidEncoding; and StatementTooComplex if the text
        is nested too deeply.
        """
        connection = getattr(self._own, "connection", None)
        if connection is None:
            connection = self._own.connection = duckdb.connect(":memory:", config=_SETTINGS)
        try:
            found = connection.execute("SELECT json_serialize_sql($1)", [sql]).fetchall()
            read = json.loads(found[0][0])
        except UnicodeEncodeError as error:
            raise InvalidEncoding("the statement is not UTF-8", position=error.start + 1) from None
        except (RecursionError, duckdb.Error) as error:
            raise StatementTooComplex("the statement is nested too deeply") from error
        if not read["error"]:
            statements: list[Node] = read["statements"]
            return statements
        if read["error_type"] != "parser":
            return []
        if read["error_message"].startswith("Max expression depth"):
            raise StatementTooComplex("the statement is nested too deeply")
        at = read.get("position")
        raise SQLSyntaxError(
            read["error_message"],
            position=None
            if at is None
            else len(sql.encode()[: int(at)].decode(errors="ignore")) + 1,
        )

    def render(self, tree: exp.Expr) -> str:
        return tree.sql("duckdb", copy=False, comments=False, unsupported_level=ErrorLevel.IGNORE)

    def plain(self, node: Node) -> Node:
        if node.get("null_order") == "ORDER_DEFAULT":
            return {**node, "null_order": "NULLS LAST"}
        match node:
            # sqlglot writes a VALUES that is a query by itself as a SELECT from it.
            case {
                "type": "SUBQUERY",
                "alias": "_values",
                "subquery": {"node": {"from_table": own}},
            }:
                values: Node = own
                if values.get("type") == "EXPRESSION_LIST" and not node.get("column_name_alias"):
                    return values
        rule = _RULES.get(node.get("class", ""))
        changed = node if rule is None else rule(node)
        return changed if changed.get("class") == node.get("class") else self.plain(changed)

    def place(self, node: Any) -> int | None:
        stack, found = [node], list[int]()
        while stack:
            one = stack.pop()
            if isinstance(one, dict):
                found.append(one.get("query_location", _NOWHERE))
                stack += one.values()
            elif isinstance(one, list):
                stack += one
        return min((at for at in found if at != _NOWHERE), default=None)

    def constant(self, node: Node) -> tuple[int, str] | None:
        match node:
            case {"literal": {"kind": "STRING", "text": str(text)}, "query_location": int(start)}:
                return start, text
        return None

    def refusal(self, node: Any) -> StatementError | None:
        signed = isinstance(node, dict) and _name(node) == "+" and len(_arguments(node)) == 1
        return sign_refusal() if signed else None


_NOWHERE: Final = 2**64 - 1


# Other names of the same functions, with operators.
_SAME: Final = {
    "^": "power", "**": "power", "pow": "power", "ceiling": "ceil", "char_length": "length",
    "character_length": "length", "len": "length", "mod": "%", "position": "strpos",
    "instr": "strpos", "substr": "substring", "var_samp": "variance", "^@": "starts_with",
    "prefix": "starts_with", "suffix": "ends_with", "regexp_like": "regexp_matches",
    "percentile_cont": "quantile_cont", "percentile_disc": "quantile_disc",
    "today": "current_date", "get_current_timestamp": "now", "current_timestamp": "now",
}  # fmt: skip
_WITH_UNIT: Final = frozenset({"date_trunc", "date_part", "datepart", "datetrunc"})
_UNITS: Final = {"dow": "dayofweek", "doy": "dayofyear"}
_QUANTITIES: Final = {
    f"to_{unit}s": unit
    for unit in (
        "year", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond",
    )
}  # fmt: skip

_TYPES: Final = {
    name: names.split()[0]
    for names in (
        "bigint int8 long", "integer int int4 signed", "smallint int2 short", "tinyint int1",
        "hugeint int128", "boolean bool logical", "double float8", "float float4 real",
        "varchar text char bpchar string nvarchar", "timestamp datetime",
    )
    for name in names.split()
} | {"timestamptz": "timestamp with time zone", "numeric": "decimal", "dec": "decimal"}  # fmt: skip


def _path(node: Node, name: str) -> Node:
    return {"function_name": name, "type_name": name, "qualified_name": {"path": [name]}}


def _name(node: Node) -> str | None:
    path = node.get("qualified_name", {}).get("path", [])
    return str(path[0]).lower() if len(path) == 1 else None


def _arguments(node: Node) -> list[Node]:
    return [one["expression"] for one in node.get("arguments", [])]


def _not(around: Node, node: Node) -> Node:
    return {
        "class": "OPERATOR", "type": "OPERATOR_NOT", "alias": around["alias"],
        "children": [{**node, "alias": ""}],
    }  # fmt: skip


def _function(node: Node) -> Node:
    name, arguments = _name(node), _arguments(node)
    if name is None:
        return node
    if name in ("!~~", "!~~*"):
        return _not(node, {**node, **_path(node, name[1:])})
    if name in ("if", "iff") and len(arguments) == 3:
        when, then, other = arguments
        return {
            "class": "CASE", "type": "CASE_EXPR", "alias": node["alias"],
            "case_checks": [{"when_expr": when, "then_expr": then}], "else_expr": other,
        }  # fmt: skip
    if name in _QUANTITIES and len(arguments) == 1:
        amount = _whole(arguments[0])
        if amount is not None:
            return {"alias": node["alias"], "interval": [(amount, _QUANTITIES[name])]}
    if name in _WITH_UNIT and arguments and arguments[0]["class"] == "CONSTANT":
        unit = str(arguments[0]["literal"]["text"]).lower()
        arguments = [{"unit": _UNITS.get(unit, unit)}, *arguments[1:]]
    plain = [{"name": "", "expression": one} for one in arguments]
    return {
        **node, **_path(node, _SAME.get(name, name)), "arguments": plain, "is_operator": False,
    }  # fmt: skip


def _whole(node: Node) -> str | None:
    """The digits of a whole number in casts and trunc(), as DuckDB reads INTERVAL '1' DAY."""
    while node["class"] == "CAST" or _name(node) == "trunc":
        node = node["child"] if node["class"] == "CAST" else _arguments(node)[0]
    text = str(node["literal"]["text"]) if node["class"] == "CONSTANT" else ""
    return text if text.removeprefix("-").isdigit() else None


def _type(node: Node) -> Node:
    name = _name(node)
    if name is None:
        return node
    name = _TYPES.get(name, name)
    children = node["children"]
    if name == "varchar":
        children = []  # DuckDB ignores the length
    elif name == "decimal" and not children:
        children = [_number("18"), _number("3")]
    return {**node, **_path(node, name), "children": children}


def _number(text: str) -> Node:
    literal = {"kind": "INTEGER", "text": text}
    return {"class": "CONSTANT", "type": "VALUE_CONSTANT", "alias": "", "literal": literal}


def _cast(node: Node) -> Node:
    if _name(node["type_expr"]) == "interval" and node["child"]["class"] == "CONSTANT":
        try:
            found = quantities_of(str(node["child"]["literal"]["text"]))
        except ValueError:
            return node
        plain = [(amount.lstrip("+"), unit) for amount, unit in found]
        return {"alias": node["alias"], "interval": plain}
    return node


def _constant(node: Node) -> Node:
    literal = node["literal"]
    if literal["kind"] == "STRING":
        return node
    text = str(literal["text"]).replace("_", "")
    return {**node, "literal": {**literal, "text": f"0{text}" if text[:1] == "." else text}}


def _operator(node: Node) -> Node:
    if node["type"] == "OPERATOR_IS_NOT_NULL":
        return _not(node, {**node, "type": "OPERATOR_IS_NULL"})
    if node["type"] == "ARRAY_CONSTRUCTOR":
        return {
            **_CALL, **_path(node, "list_value"), "alias": node["alias"],
            "arguments": [{"name": "", "expression": one} for one in node["children"]],
        }  # fmt: skip
    return node


def _comparison(node: Node) -> Node:
    if node["type"] == "COMPARE_DISTINCT_FROM":
        return _not(node, {**node, "type": "COMPARE_NOT_DISTINCT_FROM"})
    return node


def _column(node: Node) -> Node:
    names = node["column_names"]
    if len(names) == 1 and names[0].lower() in _WORDS:
        return {
            **_CALL,
            **_path(node, _SAME.get(names[0].lower(), names[0].lower())),
            "alias": node["alias"],
        }
    return node


# Words that DuckDB reads as columns, and calls if there is no such column.
_WORDS: Final = frozenset({
    "current_date", "current_timestamp", "localtimestamp", "current_user", "session_user",
    "current_role", "user", "current_catalog", "current_schema",
})  # fmt: skip
_CALL: Final[Node] = {
    "class": "FUNCTION", "type": "FUNCTION", "schema": "", "catalog": "", "filter": None,
    "order_bys": {"type": "ORDER_MODIFIER", "orders": []}, "distinct": False, "arguments": [],
    "is_operator": False, "export_state": False, "is_legacy_function_call": False,
}  # fmt: skip

_RULES: Final[Mapping[str, Callable[[Node], Node]]] = {
    "FUNCTION": _function,
    "TYPE": _type,
    "CAST": _cast,
    "CONSTANT": _constant,
    "OPERATOR": _operator,
    "COMPARISON": _comparison,
    "COLUMN_REF": _column,
}
