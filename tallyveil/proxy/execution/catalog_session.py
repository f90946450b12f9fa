"""One session's questions about the catalogs, which `tallyveil.catalog` answers, never the gate.

Answers are forwarded unchanged; nothing is decoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NoReturn

from tallyveil.catalog import (
    CatalogAnswer,
    CatalogQuestion,
    CatalogSocket,
    ResultColumn,
    ServerSettings,
)
from tallyveil.errors import positions_from
from tallyveil.gate import GateSession
from tallyveil.gate.interface import Result, Statement
from tallyveil.proxy.execution.named_objects import PreparedStatement, StatementFields
from tallyveil.proxy.execution.pending_rows import Fields, PendingRows
from tallyveil.proxy.interruption import Interruption
from tallyveil.proxy.pgtypes import PgType, WireType

__all__ = ["CatalogSession", "raw_parameter"]

MIRRORED: Final = (
    "search_path",
    "timezone",
    "datestyle",
    "intervalstyle",
    "extra_float_digits",
    "bytea_output",
    "statement_timeout",
)
"""The session's settings that affect an answer."""


def raw_parameter(number: int, oid: int, code: int, data: bytes) -> tuple[int, int, bytes]:
    """Return a parameter's type, format and bytes, to be forwarded undecoded."""
    return oid, code, data


class CatalogSession:
    """A session's access to the catalogs; used by one thread at a time."""

    def __init__(
        self,
        catalog: CatalogSocket,
        session: GateSession,
        interruption: Interruption,
        user: str,
        database: str,
    ) -> None:
        self.takes: Final = catalog.takes
        self._relay = catalog.relay(user, database)
        self._session = session
        self._interruption = interruption

    def describe(self, statement: Statement, oids: Sequence[int]) -> StatementFields:
        """Return the types of the statement's parameters, and its columns. Raises CatalogError and
        StatementErrors."""
        answer = self._ask(
            statement, CatalogQuestion(statement.sql, oids=tuple(oids)), described=True
        )
        return answer.oids, _fields(answer.columns)

    def answer(
        self,
        statement: Statement,
        rows: PendingRows,
        parameters: Sequence[Any],
        executed: PreparedStatement | None = None,
    ) -> Result:
        """Answer the statement into ``rows``. ``parameters`` are raw; ``executed`` is the prepared
        statement that EXECUTE names. Raises what `describe` raises."""
        question = CatalogQuestion(
            statement.sql,
            prepared=None
            if executed is None
            else (statement.target or "", executed.statement.sql, executed.oids),
            oids=tuple(0 if p is None else p[0] for p in parameters),
            formats=tuple(0 if p is None else p[1] for p in parameters),
            values=tuple(None if p is None else p[2] for p in parameters),
            result_formats=rows.formats,
        )
        answer = self._ask(statement, question)
        rows.relay(_fields(answer.columns), answer.rows)
        notices = self._session.settings.wanted(answer.notices)
        return Result(None, (), answer.tag, notices)

    def _ask(
        self, statement: Statement, question: CatalogQuestion, *, described: bool = False
    ) -> CatalogAnswer:
        stop = self._interruption
        with (
            stop.running(),
            self._session.limited(stop.cancelled),
            positions_from(statement.offset),
        ):
            return self._relay.answer(question, self._settings(), described=described)

    def _settings(self) -> ServerSettings:
        return tuple((name, self._session.settings.show(name)) for name in MIRRORED)


def _fields(columns: Sequence[ResultColumn] | None) -> Fields | None:
    if columns is None:
        return None
    return tuple((c.name, WireType(_type(c.oid, c.size), c.typmod)) for c in columns)


@lru_cache(maxsize=1024)
def _type(oid: int, size: int) -> PgType:
    """A type whose values are forwarded as bytes."""
    return PgType(oid, "", size, 0, "VARCHAR", _never, _never, _never, _never)


def _never(value: Any) -> NoReturn:
    raise ValueError("answers of the catalog are not decoded")
