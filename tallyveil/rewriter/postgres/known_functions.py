"""Over the wire, refuse functions that PostgreSQL lacks, by name and number of arguments.

The parser reads functions of other databases as similar ones, and drops arguments that a function
does not take. In PostgreSQL neither function exists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from tallyveil.errors import SQLSyntaxError, UndefinedFunction
from tallyveil.rewriter.sql.tokens import CLOSING, OPENING
from tallyveil.rewriter.sql.vocabulary import (
    ANY_NUMBER,
    FUNCTIONS,
    NAMED_FUNCTIONS,
    POSTGRES_FUNCTIONS,
    SESSION_FUNCTIONS,
)

__all__ = ["refuse_other_functions"]

# Words before a bracket that are no functions.
_WORDS: Final = frozenset(
    {
        "and", "or", "not", "any", "some", "all", "exists", "array", "case", "when", "then", "else",
    }
)  # fmt: skip

# Functions that the parser reads by rules of their own, and without their positions.
_BY_GRAMMAR: Final = frozenset({"if", "like", "mod", "position", "extract", "current_version"})
_NO_BRACKETS: Final = frozenset(
    {
        "current_date", "current_timestamp", "localtimestamp", "current_user", "session_user",
        "current_role", "current_catalog", "user",
    }
)  # fmt: skip

_QUOTED: Final = frozenset({TokenType.IDENTIFIER, TokenType.STRING})

_PLACE: Final = "Write position(part IN text)."
_HINTS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("locate", "charindex", "instr", "str_position", "contains"), _PLACE),
    **dict.fromkeys(("ifnull", "nvl"), "Write coalesce(a, b)."),
    **dict.fromkeys(("if", "iif"), "Write CASE WHEN … THEN … ELSE … END."),
    **dict.fromkeys(("date_from_parts", "datefromparts"), "Write make_date(2020, 1, 31)."),
    **dict.fromkeys(("year", "quarter", "month", "week", "day"), "Write extract(… FROM …)."),
    "len": "Write length(text).",
    "try_cast": "Write CAST(… AS …).",
}


def refuse_other_functions(tree: exp.Expr, tokens: Sequence[Token]) -> None:
    """Raise UndefinedFunction if PostgreSQL has no such function with this number of arguments.

    Functions outside the vocabulary are left to `check`, which says why.
    """
    for number, token in enumerate(tokens):
        name = token.text.lower()
        if name in _BY_GRAMMAR | _NO_BRACKETS and _calls(tokens, number):
            _check_word(name, tokens, number)
    places: dict[int, int] | None = None
    for node in tree.find_all(exp.Func):
        if node.meta_get("start") is None or not _is_answered(node):
            continue
        if places is None:
            places = {token.start: number for number, token in enumerate(tokens)}
        place = places.get(node.meta["start"])
        if place is None or not _calls(tokens, place):
            continue
        name = tokens[place].text.lower()
        if name not in _WORDS:
            _check(name, _count(tokens, place + 2), tokens[place].start + 1)


def _check_word(name: str, tokens: Sequence[Token], number: int) -> None:
    if tokens[number].token_type in _QUOTED:
        return
    if name in _NO_BRACKETS:
        raise SQLSyntaxError(
            'syntax error at or near "("',
            hint=f"Write {name} without brackets.",
            position=tokens[number + 1].start + 1,
        )
    count = _count(tokens, number + 2)
    if name != "like" or count > 1:  # LIKE ('a%') is the operator
        _check(name, count, tokens[number].start + 1)


def _is_answered(node: exp.Func) -> bool:
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower() in {**NAMED_FUNCTIONS, **SESSION_FUNCTIONS}
    return type(node) in FUNCTIONS or node.sql_name().lower() in SESSION_FUNCTIONS


def _calls(tokens: Sequence[Token], number: int) -> bool:
    following = tokens[number + 1] if number + 1 < len(tokens) else None
    return following is not None and following.token_type is TokenType.L_PAREN


def _count(tokens: Sequence[Token], first: int) -> int:
    """The number of arguments; ``first`` is the token after the bracket."""
    depth, commas = 0, 0
    for number in range(first, len(tokens)):
        kind = tokens[number].token_type
        if kind in OPENING:
            depth += 1
        elif kind in CLOSING:
            if not depth:
                return 0 if number == first else commas + 1
            depth -= 1
        elif kind is TokenType.COMMA and not depth:
            commas += 1
    return commas + 1


def _check(name: str, count: int, position: int) -> None:
    allowed = POSTGRES_FUNCTIONS.get(name)
    if allowed is None:
        raise UndefinedFunction(
            f"function {name} does not exist",
            hint=_HINTS.get(name, "Use a function that PostgreSQL has."),
            position=position,
        )
    least, most = allowed
    if not least <= count <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        wanted = f"{least} or more" if most == ANY_NUMBER else wanted
        raise UndefinedFunction(
            f"function {name} with {count} arguments does not exist",
            hint=f"{name} takes {wanted}.",
            position=position,
        )
