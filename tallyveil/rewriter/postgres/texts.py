"""Functions of texts, values joined to texts, LIKE and regular expressions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from tallyveil.errors import FeatureNotSupported, StatementTooComplex
from tallyveil.rewriter.postgres.casts import SPELLED_ALIKE
from tallyveil.rewriter.postgres.topic import Rules, each, takes
from tallyveil.rewriter.resolve.bound import Bound
from tallyveil.rewriter.resolve.record_queries import at_record_level
from tallyveil.rewriter.sql.nodes import call, function_name, position
from tallyveil.rewriter.sql.types import postgres_type

__all__ = ["MACROS", "RULES"]


def substring(node: exp.Substring, bound: Bound) -> exp.Expr | None:
    """PostgreSQL counts from a start below 1; DuckDB would count that from the end."""
    start, length = node.args.get("start"), node.args.get("length")
    if start is None or bound.type_of(start) in ("VARCHAR", None):
        raise FeatureNotSupported(
            "substring by a pattern is not answered",
            hint="Give it a start and a length: substring(text, 1, 2).",
        )
    if _is_whole(start, 1) and (length is None or _is_whole(length, 0)):
        return None
    if length is None:
        return call("__pg_substring_from", node.this, start)
    return call("__pg_substring", node.this, start, length)


def split_part(node: exp.SplitPart, bound: Bound) -> None:
    delimiter, part = node.args.get("delimiter"), node.args.get("part_index")
    number = part.this if isinstance(part, exp.Neg) else part
    if delimiter is None or not delimiter.is_string or not delimiter.this:
        raise FeatureNotSupported("split_part takes a delimiter in quotes")
    if number is None or not _is_whole(number, 1):
        raise FeatureNotSupported("split_part takes the number of a part, not 0")


def refuse_reverse(node: exp.Reverse, bound: Bound) -> None:
    raise FeatureNotSupported(
        "reverse is not answered: composed characters come out differently",
        hint="Use right(text, n).",
    )


def join(node: exp.DPipe, bound: Bound) -> None:
    _spelled_alike(node, [node.this, node.expression], bound, {"BOOLEAN"})


def join_all(node: exp.Func, bound: Bound) -> None:
    _spelled_alike(node, node.expressions, bound, set())


def _spelled_alike(node: exp.Expr, parts: Sequence[exp.Expr], bound: Bound, also: set[str]) -> None:
    for part in parts:
        kind = bound.type_of(part)
        known = kind is not None or not at_record_level(node)
        if isinstance(part, exp.Null) or (kind is None and known):
            continue
        if kind not in SPELLED_ALIKE and kind not in also:
            name = "||" if isinstance(node, exp.DPipe) else function_name(node)
            raise FeatureNotSupported(
                f"{name} of {postgres_type(kind)} is not answered",
                hint="It takes texts, integers and dates: cast the value to one of these.",
                position=position(part),
            )


def _is_whole(node: exp.Expr, least: int) -> bool:
    return isinstance(node, exp.Literal) and node.this.isdigit() and int(node.this) >= least


# The syntax that PostgreSQL and RE2 read alike: characters, ., anchors, sets of characters and
# ranges, groups, alternatives, greedy repetition, escaped punctuation.
_PIECE = r"(?:[^\\.^$*+?()\[\]{}|]|\\[^\w\s]|\.|\^|\$|\||\((?!\?)|\)|\[\^?(?:[^\\\[\]])+\])"
_COUNT: Final = r"\{(\d{1,3})(?:,(\d{0,3}))?\}"
_REGULAR: Final = re.compile(rf"(?!\*\*\*)(?:{_PIECE}(?:[*+?]|{_COUNT})?)*")
_REPEATED: Final = re.compile(rf"(\)?){_COUNT}")
MAX_REPEATED: Final = 2_000


def like(node: exp.Binary, bound: Bound) -> exp.Expr | None:
    """In PostgreSQL the backslash escapes unless the statement names another character."""
    if isinstance(node.parent, exp.Escape):
        return None
    pattern = node.expression
    if pattern.is_string and "\\" not in pattern.this:
        return None
    copy = type(node)(**node.args)
    return exp.Escape(this=copy, expression=exp.Literal.string("\\"))


def escape(node: exp.Escape, bound: Bound) -> None:
    character = node.expression
    if not character.is_string or len(character.this) != 1:
        raise FeatureNotSupported(
            "ESCAPE takes one character in quotes", position=position(character)
        )


def regular_expression(node: exp.Expr, bound: Bound) -> exp.Expr:
    """``~`` finds the pattern anywhere; ``.`` matches a newline too."""
    pattern, flag = node.expression, node.args.get("flag")
    if not pattern.is_string or not _REGULAR.fullmatch(pattern.this):
        raise FeatureNotSupported(
            "this regular expression is not answered",
            detail="It may have characters, . ^ $ | ( ) * + ? {m,n}, [sets], escaped punctuation.",
            hint="Write [0-9] for \\d and the like, or use LIKE.",
            position=position(pattern),
        )
    if _expanded_parts(pattern.this) > MAX_REPEATED:
        raise StatementTooComplex(
            f"a regular expression, written out, has more than {MAX_REPEATED} parts",
            hint="Use fewer repetitions or a shorter pattern, or LIKE.",
            position=position(pattern),
        )
    ignore_case = isinstance(node, exp.RegexpILike)
    if flag is not None:
        if not flag.is_string or flag.this not in ("", "c", "i"):
            raise FeatureNotSupported(
                "only the flag i of a regular expression is answered", position=position(flag)
            )
        ignore_case = flag.this == "i"
    options = exp.Literal.string("is" if ignore_case else "s")
    return call("regexp_matches", node.this, pattern, options)


def _expanded_parts(pattern: str) -> int:
    """An upper bound of the number of parts once {m,n} is written out. RE2 may use all of them for
    each character of a text, and cannot be interrupted."""
    single, around = len(pattern), 1
    for group, least, most in _REPEATED.findall(pattern):
        count = max(1, int(most or least))
        if group:
            around *= count
        else:
            single += count
    return single * around


_TEXT: Final = takes("text", hint="Cast the value to text.")

RULES: Final[Rules] = {
    **each((exp.Lower, exp.Upper, exp.Trim), _TEXT),
    exp.Substring: (substring,),
    exp.SplitPart: (split_part,),
    exp.Reverse: (refuse_reverse,),
    exp.DPipe: (join,),
    **each((exp.Concat, exp.ConcatWs), join_all),
    **each((exp.Like, exp.ILike), like),
    exp.Escape: (escape,),
    **each((exp.RegexpLike, exp.RegexpILike), regular_expression),
}

MACROS: Final = (
    # Positions below 1 count, though they have no characters.
    "__pg_substring_from(t, place) AS "
    "CASE WHEN place IS NOT NULL THEN substring(t, greatest(place, 1)) END",
    "__pg_substring(t, place, length) AS "
    "CASE WHEN length < 0 THEN error('negative substring length not allowed') "
    "WHEN place IS NOT NULL AND length IS NOT NULL "
    "THEN substring(t, greatest(place, 1), greatest(place + length - greatest(place, 1), 0)) END",
)
