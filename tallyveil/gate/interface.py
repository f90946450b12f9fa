"""What the faces of the gate (the wire, the in-process connection, the shell) rely on.

A face owns a `Session` per connection and calls it from one thread at a time. Every call may
block on SQL, DuckDB or the ledger, so the wire calls it off the event loop. Only
`Session.execute` can spend budget; `parse`, `describe` and EXPLAIN never do.

Types are named as DuckDB names them (BIGINT, VARCHAR, DECIMAL(18,3), …).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from tallyveil.rewriter import Piece, Query

__all__ = [
    "Argument",
    "Aside",
    "Change",
    "ColumnType",
    "CopyFormat",
    "CursorOptions",
    "Description",
    "Kind",
    "Move",
    "Notice",
    "Receive",
    "Result",
    "Session",
    "Statement",
    "nothing_aside",
]

Kind: TypeAlias = Literal[
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
    kind: Kind
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
class Description:
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

    It is ``repeatable`` if the same statement has the same result while `Session.standing` is the
    same.

    An INTERVAL is a `tallyveil.interval.Interval`. A date or timestamp that Python has no value
    for is a text, as PostgreSQL writes it.
    """

    columns: tuple[ColumnType, ...] | None
    rows: Sequence[tuple[Any, ...]]
    tag: str
    notices: tuple[Notice, ...] = ()
    repeatable: bool = False


Receive: TypeAlias = Callable[[tuple[ColumnType, ...]], Callable[[list[tuple[Any, ...]]], object]]
"""From the columns of a result to what takes its rows, portion by portion."""


Aside: TypeAlias = Callable[[Piece], bool]
"""Whether a statement is for somebody else to answer."""


def nothing_aside(piece: Piece) -> bool:
    """No statement is."""
    return False


class Session(Protocol):
    """One analyst's conversation with the gate."""

    def connected(self, pid: int) -> None:
        """Over a connection of this number, by which its statements can be cancelled."""
        ...

    def limited(self, cancelled: Callable[[], bool]) -> AbstractContextManager[object]:
        """Inside, one deadline for all that is done for the session, by the thread that enters.
        ``cancelled`` is asked, from any thread, until something is charged; then QueryCanceled.
        """
        ...

    def parse(self, sql: str, aside: Aside = nothing_aside) -> tuple[Statement, ...]:
        """Split and parse. Statements that ``aside`` takes are of kind ``catalog``, and not looked
        into. Raises SQLSyntaxError (42601) with the position in ``sql``.
        """
        ...

    def describe(
        self, statement: Statement, parameter_types: Sequence[str | None] = ()
    ) -> Description:
        """The types of the parameters (inferred where None) and of the result, free of charge."""
        ...

    def execute(
        self,
        statement: Statement,
        parameters: Sequence[Any] = (),
        *,
        parameter_types: Sequence[str | None] = (),
        receive: Receive | None = None,
    ) -> Result:
        """Run it, with parameters of the types `describe` gave.

        The rows of a query go to ``receive`` if it is given, and then `Result.rows` has none; what
        that raises, as a StatementError, ends the query.

        Every TallyveilError raised before a charge leaves budget and settings as they were.
        """
        ...

    def begin(self, modes: Mapping[str, str]) -> None:
        """A transaction block begins, or the one that is there takes these modes."""
        ...

    def end(self) -> None:
        """The transaction is over, and with it what was set for it alone."""
        ...

    def snapshot(self) -> object:
        """The settings as they are, for `restore`."""
        ...

    def restore(self, snapshot: object) -> None:
        """What was set since is undone: a rollback."""
        ...

    def set(self, name: str, value: str) -> None:
        """A setting, as from a startup packet. Raises UndefinedSetting, InvalidParameterValue."""
        ...

    def show(self, name: str) -> str:
        """A setting's value as text. Raises UndefinedSetting."""
        ...

    def standing(self) -> tuple[Hashable, Hashable] | None:
        """What a repeatable result depends on beside the statement: who asks with which settings,
        and how far the ledger has come. None if that cannot be known. It waits for nobody."""
        ...

    def reportable(self) -> dict[str, str]:
        """The settings PostgreSQL reports by ParameterStatus, with their current values."""
        ...

    def hears(self, said: Notice) -> bool:
        """Whether the client wants to be sent messages of this severity."""
        ...

    def close(self) -> None: ...
