"""A second, independent parser must read every query as sqlglot does.

P(text) = P(sqlglot's rendering of its tree), places ignored. P is PostgreSQL's own parser over the
wire and DuckDB's in process. So what sqlglot drops or misreads is refused, whatever it is, and a
syntax error has the words and the position of the analyst's database.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Protocol

from sqlglot import exp

from tallyveil import deadline
from tallyveil.errors import FeatureNotSupported, SQLSyntaxError, StatementError
from tallyveil.rewriter.sql.nodes import all_nodes, unlink

__all__ = ["PARSER_FAILURES", "SecondParser", "disagreement", "nodes", "sign_refusal", "string_at"]


PARSER_FAILURES: Final = (TypeError, AttributeError, IndexError, KeyError, ValueError)
"""What sqlglot raises, instead of its own error, for some texts and trees that it does not know."""


class SecondParser(Protocol):
    """``places`` are the fields that say where a node stands."""

    places: frozenset[str]

    def parse(self, sql: str) -> list[Any]:
        """The statements of a text. Raises StatementError."""

    def render(self, tree: exp.Expr) -> str:
        """A tree of sqlglot's as a text. It may change the tree."""

    def plain(self, node: dict[str, Any]) -> dict[str, Any]:
        """The same node for two spellings of one thing."""

    def place(self, node: Any) -> int | None:
        """The byte at which a node begins, counting from 0."""

    def constant(self, node: dict[str, Any]) -> tuple[int, str] | None:
        """The byte at which a string begins, and its text; None for other nodes."""

    def refusal(self, node: Any) -> StatementError | None:
        """What is wrong with a node that sqlglot reads otherwise, if that is known."""


def nodes(read: list[Any]) -> Iterator[dict[str, Any]]:
    """All nodes of what a parser reads, in no order."""
    stack = list(read)
    while stack:
        node = stack.pop()
        if isinstance(node, list):
            stack += node
        elif isinstance(node, dict):
            yield node
            stack += node.values()


def string_at(parser: SecondParser, read: list[Any], sql: str, start: int) -> str | None:
    """The text of the string that begins at a character of ``sql``, as the second parser reads it;
    None if there is no such string."""
    byte = len(sql[:start].encode())
    constants = filter(None, map(parser.constant, nodes(read)))
    return next((text for at, text in constants if at == byte), None)


def disagreement(
    parser: SecondParser, sql: str, read: list[Any], tree: exp.Expr
) -> StatementError | None:
    """The refusal of a statement that the two parsers read differently; None if they agree.

    ``read`` is what the second parser reads in ``sql``, ``tree`` what sqlglot does.
    """
    copy = _copy(tree)
    try:
        other = parser.parse(parser.render(copy))
    except (SQLSyntaxError, *PARSER_FAILURES):
        return _refusal(None)
    finally:
        unlink([copy])
    deadline.check()
    node = _difference(parser, read, other)
    if node is None:
        return None
    place = parser.place(node)
    position = None if place is None else len(sql.encode()[:place].decode(errors="ignore")) + 1
    refused = parser.refusal(node)
    if refused is None:
        return _refusal(position)
    refused.position = position
    return refused


def _copy(tree: exp.Expr) -> exp.Expr:
    """A copy that renders log10(x), bool_or(x), count(DISTINCT a, b) and percentile_disc(q) WITHIN
    GROUP (…) as they were written."""
    copy = tree.copy()
    for one in all_nodes(copy, exp.LogicalOr, exp.LogicalAnd):
        name = "bool_or" if isinstance(one, exp.LogicalOr) else "bool_and"
        one.replace(exp.Anonymous(this=name, expressions=[one.this]))
    for log in all_nodes(copy, exp.Log):
        if log.meta_get("written") == "log10":
            log.replace(exp.Anonymous(this="log10", expressions=[log.expression]))
    for within in all_nodes(copy, exp.WithinGroup):
        function = within.this
        if isinstance(function, exp.PercentileCont | exp.PercentileDisc):
            named = exp.Anonymous(this=function.sql_name().lower(), expressions=[function.this])
            within.set("this", named)
    for count in copy.find_all(exp.Count):
        if isinstance(count.this, exp.Distinct):
            first, *others = count.this.expressions
            count.this.set("expressions", [first])
            count.set("expressions", others)
    return copy


def _difference(parser: SecondParser, one: Any, other: Any) -> Any:
    """The first part of ``one`` with a place that differs from ``other``; None if none does."""
    places = parser.places
    stack = [(one, other, one)]
    while stack:
        left, right, around = stack.pop()
        if isinstance(left, dict) and isinstance(right, dict):
            left, right = parser.plain(left), parser.plain(right)
            keys = left.keys() - places
            if keys != right.keys() - places:
                return left or around
            inner = left if left.keys() & places else around
            stack += [(left[key], right[key], inner) for key in keys]
        elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
            stack += [(a, b, around) for a, b in zip(left, right, strict=True)]
        elif left != right or type(left) is not type(right):
            return around
    return None


def _refusal(position: int | None) -> StatementError:
    return FeatureNotSupported(
        "the statement is not supported in this form",
        detail="Two parsers read every statement, and they read this one differently.",
        hint="Write this part in another way.",
        position=position,
    )


def sign_refusal() -> StatementError:
    """The refusal of +1, of which sqlglot drops the sign: 1 is a column in GROUP BY and ORDER BY,
    and +1 is not."""
    return FeatureNotSupported("the sign + before a value is not answered", hint="Leave it out.")
