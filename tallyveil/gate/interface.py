"""What the faces of the gate (the wire, the in-process connection, the shell) rely on.

A face owns a `GateSession` per connection, which takes and gives these values.

Types are named as DuckDB names them (BIGINT, VARCHAR, DECIMAL(18,3), …).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from tallyveil.rewriter import Piece, Query

__all__ = [
    "Argument",
    "Aside",
    "Change",
    "ColumnType",
    "CopyFormat",
    "CursorOptions",
    "Move",
    "Notice",
    "Receive",
    "Result",
    "Statement",
    "StatementDescription",
    "StatementKind",
    "Take",
    "nothing_aside",
]

StatementKind: TypeAlias = Literal[
    "select",  # any query, private or not
    "explain",
    "set",  # SET, RESET, DISCARD ALL and their like
    "show",
    "begin",
    "commit",
    "rollback",
    "savepoint",  # SAVEPOINT and RELEASE, inside a transaction block
    "rollback_to",  # ROLLBACK TO SAVEPOINT
    "no_op",  # understood, without effect here: UNLISTEN *
    "prepare",  # PREPARE, EXECUTE and DEALLOCATE: prepared statements are the wire's
    "execute",
    "deallocate",
    "declare",  # DECLARE, FETCH or MOVE, and CLOSE: cursors are the wire's
    "fetch",
    "close",
    "copy",  # COPY (query) TO STDOUT: the wire runs the query, and writes its rows as told
    "catalog",  # a question about the catalogs, which the wire has answered elsewhere
    "empty",  # nothing but white space and comments
]


@dataclass(frozen=True)
class Change:
    """What a statement does to the settings: ``values`` are set, None for the default.

    ``everything`` sets all of them back first, ``local`` until the end of the transaction alone,
    and ``block`` are of the transaction block.
    """

    values: Mapping[str, str | None]
    everything: bool = False
    block: Mapping[str, str] | None = None
    local: bool = False


@dataclass(frozen=True)
class CopyFormat:
    """How COPY writes rows. ``force_quote`` names columns whose values are always quoted, in csv;
    None means all.
    """

    kind: Literal["text", "csv", "binary"] = "text"
    delimiter: str = "\t"
    null: str = "\\N"
    header: bool = False
    quote: str = '"'
    escape: str = '"'
    force_quote: tuple[str, ...] | None = ()


@dataclass(frozen=True)
class CursorOptions:
    """How DECLARE wants a cursor. ``scroll``: whether it may go back; None leaves it to us."""

    scroll: bool | None = None
    hold: bool = False
    binary: bool = False


@dataclass(frozen=True)
class Move:
    """Where FETCH goes, and MOVE, whose rows are not ``shown``; a count of None is ALL."""

    direction: Literal["forward", "backward", "absolute", "relative"] = "forward"
    count: int | None = 1
    shown: bool = True


@dataclass(frozen=True)
class Argument:
    """A value for EXECUTE as it is written; ``text`` is what a plain string says."""

    sql: str
    text: str | None = None


@dataclass(frozen=True)
class Statement:
    """One parsed statement. ``tag`` is the command tag's first words (SELECT, SET, BEGIN, …)."""

    sql: str
    kind: StatementKind
    tag: str
    parameter_count: int = 0
    target: str | None = None  # the name in SHOW, DEALLOCATE, FETCH, CLOSE …; None for ALL
    query: Query | None = None  # of a SELECT, and what EXPLAIN explains
    change: Change | None = None  # of SET and its like, and of BEGIN
    offset: int = 0  # where `sql` starts in the text it was parsed from, for error positions
    inner: Statement | None = None  # the query of COPY, DECLARE and PREPARE
    copy: CopyFormat | None = None
    cursor: CursorOptions | None = None
    move: Move | None = None
    # That PREPARE declares for parameters: DuckDB's names, or as written for a catalog.
    types: tuple[str | None, ...] = ()
    arguments: tuple[Argument, ...] = ()  # of EXECUTE


@dataclass(frozen=True)
class ColumnType:
    name: str
    type: str


@dataclass(frozen=True)
class StatementDescription:
    """``columns`` is None for a statement that returns no rows."""

    parameter_types: tuple[str, ...]
    columns: tuple[ColumnType, ...] | None


@dataclass(frozen=True)
class Notice:
    message: str
    detail: str | None = None
    hint: str | None = None
    sqlstate: str = "00000"
    severity: Literal["NOTICE", "WARNING", "INFO"] = "NOTICE"
    position: int | None = None  # in the text the statement was parsed from, from 1


@dataclass(frozen=True)
class Result:
    """``rows`` hold Python values of the types in ``columns``; ``tag`` is complete (SELECT 5).

    It is ``repeatable`` if the same statement has the same result while `GateSession.standing` is
    the same.

    An INTERVAL is a `tallyveil.interval.Interval`. A date or timestamp that Python has no value
    for is a text, as PostgreSQL writes it.
    """

    columns: tuple[ColumnType, ...] | None
    rows: Sequence[tuple[Any, ...]]
    tag: str
    notices: tuple[Notice, ...] = ()
    repeatable: bool = False


Take: TypeAlias = Callable[[list[tuple[Any, ...]]], object]
"""Takes rows of a result, portion by portion."""

Receive: TypeAlias = Callable[[tuple[ColumnType, ...]], Take]
"""From the columns of a result to what takes its rows."""


Aside: TypeAlias = Callable[[Piece], bool]
"""Whether a statement is for somebody else to answer."""


def nothing_aside(piece: Piece) -> bool:
    """No statement is."""
    return False
