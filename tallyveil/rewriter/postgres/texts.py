"""Functions of texts, and values joined to texts."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from tallyveil.errors import FeatureNotSupported, UndefinedFunction
from tallyveil.rewriter.postgres.build import call
from tallyveil.rewriter.postgres.casts import SPELLED_ALIKE
from tallyveil.rewriter.resolve.scope import Scope
from tallyveil.rewriter.sql.check import function_name, position
from tallyveil.rewriter.sql.types import family, spoken

__all__ = ["join", "join_all", "need_text", "refuse_reverse", "split_part", "substring"]


def substring(node: exp.Substring, scope: Scope) -> exp.Expr | None:
    """PostgreSQL counts on from a start below 1; DuckDB counts from the end there."""
    start, length = node.args.get("start"), node.args.get("length")
    if start is None or scope.type_of(start) in ("VARCHAR", None):
        raise FeatureNotSupported(
            "substring by a pattern is not answered",
            hint="Give it a place and a length: substring(text, 1, 2).",
            position=position(node),
        )
    if _is_whole(start, 1) and (length is None or _is_whole(length, 0)):
        return None
    if length is None:
        return call("__pg_substring_from", node.this, start)
    return call("__pg_substring", node.this, start, length)


def need_text(node: exp.Func, scope: Scope) -> None:
    """DuckDB writes anything as text where a text is wanted."""
    kind = scope.type_of(node.this)
    if kind is not None and family(kind) != "text":
        raise UndefinedFunction(
            f"function {function_name(node)}({spoken(kind)}) does not exist",
            hint="Cast the value to text.",
            position=position(node),
        )


def split_part(node: exp.SplitPart, scope: Scope) -> None:
    delimiter, part = node.args.get("delimiter"), node.args.get("part_index")
    number = part.this if isinstance(part, exp.Neg) else part
    if delimiter is None or not delimiter.is_string or not delimiter.this:
        raise FeatureNotSupported("split_part takes a delimiter in quotes", position=position(node))
    if number is None or not _is_whole(number, 1):
        raise FeatureNotSupported(
            "split_part takes the number of a part, not 0", position=position(node)
        )


def refuse_reverse(node: exp.Reverse, scope: Scope) -> None:
    raise FeatureNotSupported(
        "reverse is not answered: composed characters come out differently",
        hint="Use right(text, n).",
        position=position(node),
    )


def join(node: exp.DPipe, scope: Scope) -> None:
    _spelled_alike(node, [node.this, node.expression], scope, {"BOOLEAN"})


def join_all(node: exp.Func, scope: Scope) -> None:
    _spelled_alike(node, node.expressions, scope, set())


def _spelled_alike(node: exp.Expr, parts: Sequence[exp.Expr], scope: Scope, also: set[str]) -> None:
    for part in parts:
        kind = scope.type_of(part)
        known = kind is not None or not scope.at_record_level(node)
        if isinstance(part, exp.Null) or (kind is None and known):
            continue
        if kind not in SPELLED_ALIKE and kind not in also:
            name = "||" if isinstance(node, exp.DPipe) else function_name(node)
            raise FeatureNotSupported(
                f"{name} of texts, integers and dates is answered, not of {kind or 'this'}".lower(),
                hint="Cast it to text, an integer or a date first.",
                position=position(part) or position(node),
            )


def _is_whole(node: exp.Expr, least: int) -> bool:
    return isinstance(node, exp.Literal) and node.this.isdigit() and int(node.this) >= least
