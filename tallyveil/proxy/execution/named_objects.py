"""The named objects of one connection: prepared statements, and portals, which include cursors.

PREPARE and Parse share one namespace, DECLARE and Bind another. All objects count against the
connection's memory limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from tallyveil.cache import cached_property
from tallyveil.errors import FeatureNotSupported
from tallyveil.gate.interface import Move, Result, Statement, StatementDescription
from tallyveil.proxy.client_memory import ConnectionMemory
from tallyveil.proxy.execution.declared_cursor import DeclaredCursor
from tallyveil.proxy.execution.pending_rows import Fields, PendingRows, fields_of, room_of
from tallyveil.proxy.pgtypes import from_duckdb, parameter_type
from tallyveil.proxy.protocol_errors import (
    DuplicatePortal,
    DuplicatePreparedStatement,
    TooManyPrepared,
    UndefinedPortal,
    UndefinedPreparedStatement,
)

__all__ = [
    "OVERHEAD",
    "NamedObjects",
    "Portal",
    "PreparedStatement",
    "StatementFields",
    "asks_catalog",
    "prepare",
]

StatementFields: TypeAlias = tuple[tuple[int, ...], Fields | None]
"""The OIDs of the parameters' types, and the columns, of a question about the catalogs."""

_MOST: Final = 5000
"""The most prepared statements, and the most portals, of one connection at a time. The event loop
may have to drop all portals at once, when a transaction ends."""

OVERHEAD: Final = 1024
_TEXT: Final = 8
"""Bytes counted for a prepared statement or portal, and for each character of SQL."""


@dataclass(frozen=True)
class PreparedStatement:
    """A described statement. ``oids`` are the types of its parameters, declared or inferred; the
    SQL mentions the first ``used`` of them.

    ``types`` are DuckDB's names for the types of the parameters used; empty for a question about
    the catalogs, whose parameters are not decoded.
    """

    statement: Statement
    oids: tuple[int, ...]
    used: int
    types: tuple[str, ...]
    fields: Fields | None

    @cached_property
    def size(self) -> int:
        """The bytes of memory it counts for, without its name."""
        own = OVERHEAD + _TEXT * len(self.statement.sql) + 64 * len(self.oids)
        return own + room_of(self.fields)


@dataclass(slots=True)
class Portal:
    """A bound statement. ``result`` is None until the first Execute; ``rows`` are the rows that
    were not sent yet; ``begun`` is true once some were fetched."""

    prepared: PreparedStatement
    parameters: tuple[Any, ...]
    formats: tuple[int, ...] | None
    size: int
    rows: PendingRows
    result: Result | None = None
    begun: bool = False

    @property
    def fields(self) -> Fields | None:
        return self.prepared.fields

    def drop(self) -> None:
        self.rows.drop()

    def fetch(self, move: Move) -> Sequence[tuple[Any, ...]]:
        """Skip rows of an executed portal, as asyncpg's cursors do by MOVE. Returns an empty tuple
        for each row skipped.

        Raises FeatureNotSupported for any other move, and before the portal is executed.
        """
        if self.result is None or move.shown or move.direction != "forward":
            raise FeatureNotSupported(
                "a portal that was created by Bind can only be read by Execute",
                hint="DECLARE a cursor for FETCH and MOVE.",
            )
        if move.count is not None and move.count <= 0:
            return []
        return [()] * sum(count for count, _ in self.rows.take(move.count or 0))


def prepare(
    describe: Callable[[Statement, Sequence[str | None]], StatementDescription],
    statement: Statement,
    declared: tuple[int, ...],
) -> PreparedStatement:
    """Describe a statement. ``declared`` are the OIDs of the declared parameter types, from the
    first on; 0 is to be inferred."""
    used = statement.parameter_count
    named = declared[:used] + (0,) * (used - len(declared))
    description = describe(statement, tuple(map(parameter_type, named)))
    inferred = tuple(from_duckdb(t).type.oid for t in description.parameter_types)
    oids = tuple(
        oid if oid not in (0, 705) else known for oid, known in zip(named, inferred, strict=True)
    )
    # Each declared parameter needs a value, even if the SQL does not mention it.
    oids += declared[used:]
    fields = fields_of(description.columns)
    return PreparedStatement(statement, oids, used, description.parameter_types, fields)


def asks_catalog(statement: Statement) -> bool:
    """Whether the statement, or the query in it, is about the catalogs. Its parameters are then
    forwarded undecoded."""
    return (statement.inner or statement).kind == "catalog"


class NamedObjects:
    """The prepared statements, portals and cursors of one connection. The name "" is the unnamed
    statement or portal."""

    def __init__(self, holding: ConnectionMemory) -> None:
        self.holding: Final = holding
        self._prepared: dict[str, PreparedStatement] = {}
        self._portals: dict[str, Portal | DeclaredCursor] = {}

    # Prepared statements

    def keep_statement(self, name: str, prepared: PreparedStatement) -> None:
        """Store a prepared statement. Raises DuplicatePreparedStatement, TooManyPrepared,
        TooMuchKept or OutOfMemory."""
        if name in self._prepared:
            raise DuplicatePreparedStatement(f'prepared statement "{name}" already exists')
        if len(self._prepared) >= _MOST:
            raise TooManyPrepared(
                f"more than {_MOST} prepared statements", hint="Close some, or DEALLOCATE ALL."
            )
        self.holding.take(prepared.size + len(name))
        self._prepared[name] = prepared

    def statement(self, name: str) -> PreparedStatement:
        """The statement of this name. Raises UndefinedPreparedStatement."""
        found = self._prepared.get(name)
        if found is None:
            raise UndefinedPreparedStatement(
                f'prepared statement "{name}" does not exist'
                if name
                else "unnamed prepared statement does not exist"
            )
        return found

    def forget_statement(self, name: str) -> None:
        prepared = self._prepared.pop(name, None)
        if prepared is not None:
            self.holding.give(prepared.size + len(name))

    def deallocate(self, name: str | None) -> None:
        """Drop a prepared statement; None drops all that have a name. Their portals remain, as in
        PostgreSQL. Raises UndefinedPreparedStatement."""
        if name is None:
            for each in filter(None, tuple(self._prepared)):
                self.forget_statement(each)
        else:
            self.statement(name)
            self.forget_statement(name)

    # Portals

    def may_open(self, name: str) -> None:
        """Check that a portal may be opened; drops an unnamed one for another. Raises
        DuplicatePortal or TooManyPrepared."""
        if not name:
            self.forget_portal("")
        elif name in self._portals:
            raise DuplicatePortal(f'cursor "{name}" already exists')
        if len(self._portals) >= _MOST:
            raise TooManyPrepared(f"more than {_MOST} portals", hint="Close some.")

    def open(self, name: str, portal: Portal | DeclaredCursor) -> None:
        self._portals[name] = portal

    def find_portal(self, name: str) -> Portal | DeclaredCursor | None:
        return self._portals.get(name)

    def portal(self, name: str, *, what: str = "portal") -> Portal | DeclaredCursor:
        """The portal of this name. Raises UndefinedPortal, whose message calls it ``what``."""
        found = self._portals.get(name)
        if found is None:
            raise UndefinedPortal(f'{what} "{name}" does not exist')
        return found

    def forget_portal(self, name: str) -> None:
        portal = self._portals.pop(name, None)
        if portal is not None:
            portal.drop()
            if isinstance(portal, Portal):
                self.holding.give(portal.size)

    def close(self, name: str | None) -> None:
        """CLOSE a cursor; None closes all. Raises UndefinedPortal."""
        if name is None:
            for each in tuple(self._portals):
                self.forget_portal(each)
        else:
            self.portal(name, what="cursor")
            self.forget_portal(name)

    def fields_of(self, statement: Statement) -> Fields | None:
        """The columns of FETCH or EXECUTE; None if there are none, or if its cursor or prepared
        statement does not exist."""
        name = statement.target or ""
        if statement.kind == "execute":
            found: PreparedStatement | Portal | DeclaredCursor | None = self._prepared.get(name)
        else:
            shown = statement.move is not None and statement.move.shown
            found = self._portals.get(name) if shown else None
        return None if found is None else found.fields

    # Ends

    def forget_unnamed(self) -> None:
        """Drop the unnamed statement and portal, as a simple query does."""
        self.forget_statement("")
        self.forget_portal("")

    def end_transaction(self, *, committed: bool) -> None:
        """Drop all portals except the cursors WITH HOLD whose transaction has committed."""
        for name, portal in tuple(self._portals.items()):
            if isinstance(portal, DeclaredCursor) and portal.options.hold:
                portal.settled = portal.settled or committed
                if portal.settled:
                    continue
            self.forget_portal(name)

    def return_to(self, level: int) -> None:
        """Drop the cursors declared since the savepoint of this level, after a ROLLBACK TO."""
        for name, portal in tuple(self._portals.items()):
            if isinstance(portal, DeclaredCursor) and not portal.settled and portal.level >= level:
                self.forget_portal(name)

    def release(self, level: int) -> None:
        """Only ``level`` savepoints remain: cursors of the released ones belong to the last one."""
        for portal in self._portals.values():
            if isinstance(portal, DeclaredCursor):
                portal.level = min(portal.level, level)

    def forget(self) -> None:
        """Drop everything: after DISCARD ALL, or when the client has left."""
        self.close(None)
        self.deallocate(None)
        self.forget_unnamed()
