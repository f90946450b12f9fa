"""The relations that can be queried, as a catalog shows them: names, types, comments.

They depend only on the policy and on the types of public tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tallyveil.errors import TallyveilError
from tallyveil.gate.gate import Gate
from tallyveil.gate.relations.relations import RELATIONS, domain_of, outside_of
from tallyveil.gate.session import GateSession
from tallyveil.policy import Attribute, Table

__all__ = ["Shown", "ShownColumn", "relations_shown"]

_MOST: Final = 20
"""Values of a domain that a comment lists."""


@dataclass(frozen=True)
class ShownColumn:
    """``type`` is DuckDB's name of the type."""

    name: str
    type: str
    nullable: bool = True
    comment: str | None = None


@dataclass(frozen=True)
class Shown:
    """``definition`` is that of a view, in PostgreSQL's SQL."""

    schema: str
    name: str
    columns: tuple[ShownColumn, ...]
    comment: str | None = None
    definition: str | None = None


def relations_shown(gate: Gate) -> tuple[Shown, ...]:
    """All relations, in an order that depends on the policy alone."""
    tables = [_protected(table) for table in gate.policy.tables.values()]
    public = [
        Shown("public", name, _typed(gate.database.columns(name)), "public: answers are exact")
        for name in gate.policy.public
    ]
    session = gate.session()
    try:
        return (*tables, *public, *_views(gate, session), *_own(session))
    finally:
        session.close()


def _protected(table: Table) -> Shown:
    columns = tuple(map(_attribute, table.domain.attributes))
    comment = "protected: counts and sums are answered"
    if table.capped is not None:
        comment += f"; {table.capped}"
    return Shown("public", table.name, columns, comment)


def _attribute(attribute: Attribute) -> ShownColumn:
    kind = "bins " if attribute.binned else ""
    outside = outside_of(attribute)
    if attribute.other_cell is not None:
        value = attribute.cells[attribute.other_cell]
        outside = f"as {'NULL' if value is None else value}"
    comment = f"{kind}{domain_of(attribute, _MOST)}; others {outside}"
    return ShownColumn(attribute.name, attribute.sql_type, attribute.null_cell is not None, comment)


def _views(gate: Gate, session: GateSession) -> Iterator[Shown]:
    for name, definition in gate.policy.views.items():
        columns = _columns(session, f'SELECT * FROM "{name}"')
        yield Shown("public", name, columns, "view", definition)


def _own(session: GateSession) -> Iterator[Shown]:
    for name in sorted(RELATIONS):
        yield Shown("dp", name, _columns(session, f"SELECT * FROM dp.{name}"))


def _columns(session: GateSession, sql: str) -> tuple[ShownColumn, ...]:
    """The columns of a query; empty if it is refused."""
    try:
        columns = session.describe(session.parse(sql)[0]).columns or ()
    except TallyveilError:
        return ()
    return _typed({column.name: column.type for column in columns})


def _typed(columns: Mapping[str, str]) -> tuple[ShownColumn, ...]:
    return tuple(ShownColumn(name, kind) for name, kind in columns.items())
