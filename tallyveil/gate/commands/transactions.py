"""BEGIN, COMMIT, ROLLBACK, savepoints, and the characteristics of transactions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from tallyveil.errors import FeatureNotSupported
from tallyveil.gate.commands.reader import TokenReader
from tallyveil.gate.interface import Change, Statement, StatementKind
from tallyveil.gate.settings import LEVELS

__all__ = ["TRANSACTION_WORDS", "parse_modes", "parse_transaction"]

_ENDS: Final[Mapping[str, tuple[StatementKind, str]]] = MappingProxyType(
    {
        "COMMIT": ("commit", "COMMIT"),
        "END": ("commit", "COMMIT"),
        "ROLLBACK": ("rollback", "ROLLBACK"),
        "ABORT": ("rollback", "ROLLBACK"),
    }
)

TRANSACTION_WORDS: Final = frozenset({"BEGIN", "START", "SAVEPOINT", "RELEASE", *_ENDS})

_MODES_USAGE: Final = (
    "ISOLATION LEVEL { SERIALIZABLE | REPEATABLE READ | READ COMMITTED | READ UNCOMMITTED }, "
    "READ ONLY, READ WRITE or [ NOT ] DEFERRABLE"
)


def parse_transaction(reader: TokenReader) -> Statement:
    """The `change` of BEGIN sets its modes for the block."""
    first = reader.first
    if first in _ENDS:
        return _end(reader, *_ENDS[first])
    if first in ("SAVEPOINT", "RELEASE"):
        if first == "RELEASE":
            reader.take("SAVEPOINT")
        reader.usage = f"{first} name"
        return reader.statement("savepoint", first, reader.name())
    tag = "BEGIN"
    if first == "START":
        tag = reader.usage = "START TRANSACTION"
        reader.expect("TRANSACTION")
    elif not reader.take("WORK"):
        reader.take("TRANSACTION")
    modes = {} if reader.ended() else parse_modes(reader)
    return replace(reader.statement("begin", tag), change=Change({}, block=modes))


def _end(reader: TokenReader, kind: StatementKind, tag: str) -> Statement:
    if reader.word() == "PREPARED":
        raise FeatureNotSupported("two-phase commit is not answered", position=1)
    if not reader.take("WORK"):
        reader.take("TRANSACTION")
    if reader.word() == "TO" and reader.first == "ROLLBACK":
        reader.usage = "ROLLBACK TO SAVEPOINT name"
        reader.expect("TO")
        reader.take("SAVEPOINT")
        return reader.statement("rollback_to", "ROLLBACK", reader.name())
    if reader.take("AND"):
        position = reader.position()
        chained = not reader.take("NO")
        reader.expect("CHAIN")
        if chained:
            raise FeatureNotSupported(
                "AND CHAIN is not answered", hint="Send BEGIN afterwards.", position=position
            )
    return reader.statement(kind, tag)


def parse_modes(reader: TokenReader) -> dict[str, str]:
    """Read at least one mode, to the end: isolation, read only or read write, deferrable.

    Raises SQLSyntaxError.
    """
    reader.usage = _MODES_USAGE
    modes: dict[str, str] = {}
    while True:
        modes |= _mode(reader)
        if reader.ended():
            return modes
        reader.take(",")


def _mode(reader: TokenReader) -> dict[str, str]:
    if reader.take("ISOLATION", "LEVEL"):
        for level in LEVELS:
            if reader.take(*level.upper().split()):
                return {"transaction_isolation": level}
        raise reader.error()
    if reader.take("NOT"):
        reader.expect("DEFERRABLE")
        return {"transaction_deferrable": "off"}
    if reader.take("DEFERRABLE"):
        return {"transaction_deferrable": "on"}
    reader.expect("READ")
    return {"transaction_read_only": "on" if reader.one_of("ONLY", "WRITE") == "ONLY" else "off"}
