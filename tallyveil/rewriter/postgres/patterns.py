"""LIKE and regular expressions."""

from __future__ import annotations

import re
from typing import Final

from sqlglot import exp

from tallyveil.errors import FeatureNotSupported
from tallyveil.rewriter.postgres.build import call
from tallyveil.rewriter.resolve.scope import Scope
from tallyveil.rewriter.sql.check import position

__all__ = ["escape", "like", "regular"]

# What PostgreSQL's regular expressions and RE2 read alike: characters, ., anchors, sets of
# characters and ranges, groups, alternatives, greedy repetition, escaped punctuation.
_PIECE = r"(?:[^\\.^$*+?()\[\]{}|]|\\[^\w\s]|\.|\^|\$|\||\((?!\?)|\)|\[\^?(?:[^\\\[\]])+\])"
_REGULAR: Final = re.compile(rf"(?!\*\*\*)(?:{_PIECE}(?:[*+?]|\{{\d+(?:,\d*)?\}})?)*")


def like(node: exp.Binary, scope: Scope) -> exp.Expr | None:
    """PostgreSQL's backslash escapes unless the statement names another character."""
    if isinstance(node.parent, exp.Escape):
        return None
    pattern = node.expression
    if pattern.is_string and "\\" not in pattern.this:
        return None
    copy = type(node)(**node.args)
    return exp.Escape(this=copy, expression=exp.Literal.string("\\"))


def escape(node: exp.Escape, scope: Scope) -> None:
    character = node.expression
    if not character.is_string or len(character.this) != 1:
        raise FeatureNotSupported(
            "ESCAPE takes one character in quotes", position=position(character)
        )


def regular(node: exp.Expr, scope: Scope) -> exp.Expr:
    """``~`` finds the pattern anywhere; ``.`` matches a line's end too."""
    pattern, flag = node.expression, node.args.get("flag")
    if not pattern.is_string or not _REGULAR.fullmatch(pattern.this):
        raise FeatureNotSupported(
            "this regular expression is not answered",
            detail="Characters, . ^ $ | ( ) * + ? {m,n}, [sets] and escaped punctuation are.",
            hint="Write [0-9] for \\d and the like, or use LIKE.",
            position=position(pattern) or position(node),
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
