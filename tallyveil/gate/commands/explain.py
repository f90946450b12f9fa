"""EXPLAIN and its options."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tallyveil.errors import FeatureNotSupported, InvalidParameterValue, SQLSyntaxError
from tallyveil.gate.commands.reader import TokenReader
from tallyveil.gate.interface import Statement
from tallyveil.rewriter import QUERY_WORDS, Piece
from tallyveil.truth import truth

__all__ = ["parse_explain"]

_SWITCHES: Final = frozenset(
    {
        "analyze", "verbose", "costs", "settings", "generic_plan", "buffers", "wal", "timing",
        "summary", "memory",
    }
)  # fmt: skip
# Switches that must be on; others must be off. VERBOSE may be either: it has nothing more to show.
_ALWAYS: Final = frozenset({"costs"})

_FORMATS: Final = ("text", "xml", "json", "yaml")


def parse_explain(reader: TokenReader) -> Statement:
    """``target`` is the format. Raises FeatureNotSupported for options that would run the query or
    add to the output."""
    reader.usage = "EXPLAIN SELECT …"
    formats = ["text"]
    if reader.word() == "(" and not _is_query(reader.piece):
        formats += filter(None, reader.in_brackets(lambda: _option(reader)))
    else:
        if reader.word() in ("ANALYZE", "ANALYSE"):
            raise _runs(reader.position())
        reader.take("VERBOSE")
    if reader.word() == "EXECUTE":
        raise FeatureNotSupported(
            "EXPLAIN EXECUTE is not answered",
            hint="EXPLAIN the query itself, with the values written into it.",
            position=reader.position(),
        )
    query = reader.query(reader.rest())
    found = reader.statement("explain", "EXPLAIN", formats[-1])
    return replace(found, parameter_count=query.parameters, query=query)


def _is_query(piece: Piece) -> bool:
    """Whether the bracket is the query's own: ``EXPLAIN (SELECT …)``."""
    return next((word for word in piece.words[1:] if word != "("), "") in QUERY_WORDS


def _option(reader: TokenReader) -> str | None:
    """The format, if the option gives one."""
    position = reader.position()
    name = "analyze" if reader.take("ANALYSE") else reader.name()
    value = reader.option()
    if name == "format":
        return _format(value, position)
    if name == "serialize":
        if value is not None and value.lower() != "none":
            raise _requires_analyze(name, position)
    elif name in _SWITCHES:
        _switch(name, value, position)
    else:
        raise SQLSyntaxError(f'unrecognized EXPLAIN option "{name}"', position=position)
    return None


def _format(value: str | None, position: int) -> str:
    if value is None:
        raise SQLSyntaxError("format requires a parameter", position=position)
    if value.lower() not in _FORMATS:
        raise InvalidParameterValue(
            f'unrecognized value for EXPLAIN option "format": "{value}"', position=position
        )
    if value.lower() not in ("text", "json"):
        raise FeatureNotSupported(
            f"EXPLAIN in the format {value.lower()} is not answered",
            hint="Choose text or json.",
            position=position,
        )
    return value.lower()


def _switch(name: str, value: str | None, position: int) -> None:
    on = True if value is None else truth(value)
    if on is None:
        raise SQLSyntaxError(f"{name} requires a Boolean value", position=position)
    if on and name == "analyze":
        raise _runs(position)
    if on and name in ("wal", "timing"):
        raise _requires_analyze(name, position)
    if name != "verbose" and on != (name in _ALWAYS):
        raise FeatureNotSupported(
            f"EXPLAIN with {name} {'on' if on else 'off'} is not answered",
            hint=f"Leave {name.upper()} out.",
            position=position,
        )


def _runs(position: int) -> FeatureNotSupported:
    return FeatureNotSupported(
        "EXPLAIN ANALYZE is not answered: it would run the query",
        hint="EXPLAIN alone shows the cost and the interval to expect, free of charge.",
        position=position,
    )


def _requires_analyze(name: str, position: int) -> InvalidParameterValue:
    return InvalidParameterValue(
        f"EXPLAIN option {name.upper()} requires ANALYZE", position=position
    )
