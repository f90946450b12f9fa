"""What one connection keeps by name: prepared statements, and portals, cursors among them.

PREPARE and Parse share their names, DECLARE and Bind theirs. What is kept is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

from tallyveil.errors import FeatureNotSupported
from tallyveil.gate.interface import Move, Result, Statement, StatementDescription
from tallyveil.proxy.errors import (
    DuplicatePortal,
    DuplicatePreparedStatement,
    TooManyPrepared,
    UndefinedPortal,
    UndefinedPreparedStatement,
)
from tallyveil.proxy.execution.cursors import DeclaredCursor
from tallyveil.proxy.execution.rows import Fields, PendingRows, fields_of, room_of
from tallyveil.proxy.memory import ConnectionMemory
from tallyveil.proxy.pgtypes import from_duckdb, parameter_type

__all__ = [
    "OVERHEAD",
    "Kept",
    "Portal",
    "PreparedStatement",
    "StatementFields",
    "asks_catalog",
    "prepare",
]

StatementFields: TypeAlias = tuple[tuple[int, ...], Fields | None]
"""The types of parameters, and the columns; of a question about the catalogs."""

_MOST: Final = 5000
"""Prepared statements, and portals, that one connection may hold at a time."""

OVERHEAD: Final = 1024
_TEXT: Final = 8
"""Bytes of a prepared statement or portal, and of a character of SQL."""


@dataclass(frozen=True)
class PreparedStatement:
    """``oids`` are of the parameters, declared or inferred; ``used`` of them the SQL mentions.

    ``types`` are DuckDB's names of the types of those, where they are decoded here.
    """

    statement: Statement
    oids: tuple[int, ...]
    used: int
    types: tuple[str, ...]
    fields: Fields | None

    @cached_property
    def size(self) -> int:
        """Bytes, those of its name left out."""
        own = OVERHEAD + _TEXT * len(self.statement.sql) + 64 * len(self.oids)
        return own + room_of(self.fields)


@dataclass(slots=True)
class Portal:
    """``result`` is None until the first Execute; ``rows`` are those that were not sent yet."""

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
        """Go past rows that have been answered: what asyncpg's cursors do to skip some.

        Raises FeatureNotSupported for all else.
        """
        if self.result is None or move.shown or move.direction != "forward":
            raise FeatureNotSupported(
                "a portal of the protocol is fetched by Execute", hint="DECLARE a cursor."
            )
        if move.count is not None and move.count <= 0:
            return []
        return [()] * sum(count for count, _ in self.rows.take(move.count or 0))


def prepare(
    describe: Callable[[Statement, Sequence[str | None]], StatementDescription],
    statement: Statement,
    declared: tuple[int, ...],
) -> PreparedStatement:
    """``declared`` are the parameters' types, as far as they are declared; 0 is to be inferred."""
    used = statement.parameter_count
    named = declared[:used] + (0,) * (used - len(declared))
    description = describe(statement, tuple(map(parameter_type, named)))
    inferred = tuple(from_duckdb(t).type.oid for t in description.parameter_types)
    oids = tuple(
        oid if oid not in (0, 705) else known for oid, known in zip(named, inferred, strict=True)
    )
    # Types declared for parameters the SQL does not mention still want a value each.
    oids += declared[used:]
    fields = fields_of(description.columns)
    return PreparedStatement(statement, oids, used, description.parameter_types, fields)


def asks_catalog(statement: Statement) -> bool:
    """Whether it, or the query in it, is about the catalogs, and its parameters are left raw."""
    return (statement.inner or statement).kind == "catalog"


class Kept:
    """The prepared statements, portals and cursors of one connection; "" is the unnamed one."""

    def __init__(self, holding: ConnectionMemory) -> None:
        self.holding: Final = holding
        self._prepared: dict[str, PreparedStatement] = {}
        self._portals: dict[str, Portal | DeclaredCursor] = {}

    # Prepared statements

    def keep_statement(self, name: str, prepared: PreparedStatement) -> None:
        """Raises DuplicatePreparedStatement, TooManyPrepared, TooMuchKept or OutOfMemory."""
        if name in self._prepared:
            raise DuplicatePreparedStatement(f'prepared statement "{name}" already exists')
        if len(self._prepared) >= _MOST:
            raise TooManyPrepared(
                f"more than {_MOST} prepared statements", hint="Close some, or DEALLOCATE ALL."
            )
        self.holding.take(prepared.size + len(name))
        self._prepared[name] = prepared

    def statement(self, name: str) -> PreparedStatement:
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
        """One, or for None all that have a name. Their portals live on, as in PostgreSQL."""
        if name is None:
            for each in filter(None, tuple(self._prepared)):
                self.forget_statement(each)
        else:
            self.statement(name)
            self.forget_statement(name)

    # Portals

    def may_open(self, name: str) -> None:
        """Raises DuplicatePortal or TooManyPrepared. The unnamed one makes room."""
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
        """CLOSE one, or for None all."""
        if name is None:
            for each in tuple(self._portals):
                self.forget_portal(each)
        else:
            self.portal(name, what="cursor")
            self.forget_portal(name)

    # Ends

    def fields_of(self, statement: Statement) -> Fields | None:
        """The columns of FETCH and EXECUTE, as far as it is known what they are about."""
        name = statement.target or ""
        if statement.kind == "execute":
            found: PreparedStatement | Portal | DeclaredCursor | None = self._prepared.get(name)
        else:
            shown = statement.move is not None and statement.move.shown
            found = self._portals.get(name) if shown else None
        return None if found is None else found.fields

    def forget_unnamed(self) -> None:
        """A simple query destroys the unnamed statement and portal."""
        self.forget_statement("")
        self.forget_portal("")

    def end_transaction(self, *, committed: bool) -> None:
        """Portals do not outlive their transaction, but cursors WITH HOLD that it commits."""
        for name, portal in tuple(self._portals.items()):
            if isinstance(portal, DeclaredCursor) and portal.options.hold:
                portal.settled = portal.settled or committed
                if portal.settled:
                    continue
            self.forget_portal(name)

    def return_to(self, level: int) -> None:
        """Cursors that were declared since the savepoint of this level are gone."""
        for name, portal in tuple(self._portals.items()):
            if isinstance(portal, DeclaredCursor) and not portal.settled and portal.level >= level:
                self.forget_portal(name)

    def release(self, level: int) -> None:
        """So many savepoints are left."""
        for portal in self._portals.values():
            if isinstance(portal, DeclaredCursor):
                portal.level = min(portal.level, level)

    def forget(self) -> None:
        """DISCARD ALL, or the client has left."""
        self.close(None)
        self.deallocate(None)
        self.forget_unnamed()
