"""What the faces of the gate (the wire, the in-process connection, the shell) rely on.

A face owns a `GateSession` per connection, which takes and returns these values.

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
    "Parameters",
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
    "describe",  # DuckDB's SHOW TABLES, or DESCRIBE of the relation ``target``
    "begin",
    "commit",
    "rollback",
    "savepoint",  # SAVEPOINT and RELEASE, inside a transaction block
    "rollback_to",  # ROLLBACK TO SAVEPOINT
    "no_op",  # accepted, without effect: UNLISTEN *
    "prepare",  # PREPARE, EXECUTE and DEALLOCATE: prepared statements are the wire's
    "execute",
    "deallocate",
    "declare",  # DECLARE, FETCH or MOVE, and CLOSE: cursors are the wire's
    "fetch",
    "close",
    "copy",  # COPY (query) TO STDOUT: the wire runs the query, and writes its rows in a format
    "catalog",  # a query about the catalogs, which the wire has answered elsewhere
    "empty",  # nothing but white space and comments
]


@dataclass(frozen=True)
class Change:
    """How a statement changes the settings: ``values`` are set, to the default if None.

    ``everything``: all are reset first. ``local``: only until the end of the transaction.
    ``block``: the modes of the transaction block.
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
    """The options of DECLARE. ``scroll``: whether the cursor may go back; None if not given."""

    scroll: bool | None = None
    hold: bool = False
    binary: bool = False


@dataclass(frozen=True)
class Move:
    """Where FETCH or MOVE goes; the rows of MOVE are not ``shown``. A count of None is ALL."""

    direction: Literal["forward", "backward", "absolute", "relative"] = "forward"
    count: int | None = 1
    shown: bool = True


@dataclass(frozen=True)
class Argument:
    """A value for EXECUTE as it is written; ``text`` is the content of a plain string."""

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
    # The parameter types that PREPARE declares: DuckDB's names, or as written for a catalog.
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


Parameters: TypeAlias = Sequence[Any] | Mapping[str, Any]
"""Values by place, or by name."""


@dataclass(frozen=True)
class Result:
    """``rows`` hold Python values of the types in ``columns``; ``tag`` is complete (SELECT 5).

    ``repeatable``: the statement has the same result while `GateSession.standing` is the same.

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
"""Takes the columns of a result, and returns what takes its rows."""


Aside: TypeAlias = Callable[[Piece], bool]
"""Whether a statement is set aside: it is answered elsewhere."""


def nothing_aside(piece: Piece) -> bool:
    """Set no statement aside."""
    return False
