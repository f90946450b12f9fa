"""What DB-API 2.0 (PEP 249) requires of a module: its exceptions, type objects and constructors.

::

    Exception
    ├── Warning
    └── TallyveilError, which is Error
        ├── InterfaceError
        └── DatabaseError
            ├── DataError            ├── InternalError
            ├── OperationalError     ├── ProgrammingError
            └── IntegrityError       └── NotSupportedError

The classes of `tallyveil.errors` are below those that psycopg has for their SQLSTATEs.
"""

from __future__ import annotations

import datetime as dt
import traceback
from pathlib import Path
from typing import ClassVar, Final

__all__ = [
    "BINARY", "DATETIME", "NUMBER", "ROWID", "STRING",
    "Binary", "DataError", "DatabaseError", "Date", "DateFromTicks", "IntegrityError",
    "InterfaceError", "InternalError", "NotSupportedError", "OperationalError", "ProgrammingError",
    "TallyveilError", "Time", "TimeFromTicks", "Timestamp", "TimestampFromTicks", "TypeObject",
    "Warning",
]  # fmt: skip

_PACKAGE: Final = str(Path(__file__).parent)


class TallyveilError(Exception):
    """An error with the fields a PostgreSQL ErrorResponse carries.

    ``position`` counts characters of the statement from 1, as PostgreSQL does.
    """

    sqlstate: ClassVar[str] = "XX000"

    def __init_subclass__(cls, *, sqlstate: str | None = None) -> None:
        """Set the class's SQLSTATE, by default that of its base class."""
        cls.sqlstate = sqlstate or cls.sqlstate

    def __init__(
        self,
        message: str,
        *,
        detail: str | None = None,
        hint: str | None = None,
        position: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint
        self.position = position

    def __reduce__(self) -> tuple[object, ...]:
        """Made again with all of its fields, whatever its class takes: it may pass to another
        process."""
        return _made_again, (type(self), self.args), vars(self)

    def explain(self, sentence: str) -> None:
        """Add a sentence to the detail."""
        self.detail = f"{self.detail.rstrip('.')}. {sentence}" if self.detail else sentence

    def __str__(self) -> str:
        parts = [self.message]
        if self.detail:
            parts.append(f"DETAIL: {self.detail}")
        if self.hint:
            parts.append(f"HINT: {self.hint}")
        return "\n".join(parts)

    def _render_traceback_(self) -> list[str]:
        """Return what a notebook shows: the line of the caller, and the error. IPython calls it."""
        frames = traceback.extract_tb(self.__traceback__)
        own = (n for n, frame in enumerate(frames) if frame.filename.startswith(_PACKAGE))
        callers = frames[: next(own, len(frames))][-1:]
        lines = [f"line {frame.lineno}: {frame.line}" for frame in callers if frame.line]
        return [*lines, f"{type(self).__name__}: {self}"]


def _made_again(kind: type[TallyveilError], arguments: tuple[object, ...]) -> TallyveilError:
    return kind.__new__(kind, *arguments)


class Warning(Exception):
    """DB-API requires it. Nothing raises it: `notices` has warnings."""


class InterfaceError(TallyveilError, sqlstate="08003"):
    """The connection or cursor was used in a way it does not offer, such as after close."""


class DatabaseError(TallyveilError): ...


class DataError(DatabaseError): ...


class OperationalError(DatabaseError): ...


class IntegrityError(DatabaseError):
    """DB-API requires it. Nothing raises it: analysts only read."""


class InternalError(DatabaseError): ...


class ProgrammingError(DatabaseError): ...


class NotSupportedError(DatabaseError): ...


class TypeObject:
    """A group of types: it equals the type codes of its columns in `Cursor.description`, which are
    DuckDB's names of types."""

    def __init__(self, *names: str) -> None:
        self._names = frozenset(names)

    def __eq__(self, other: object) -> bool:
        return other is self or (isinstance(other, str) and other.split("(")[0] in self._names)

    __hash__ = object.__hash__


STRING: Final = TypeObject("VARCHAR")
BINARY: Final = TypeObject("BLOB")
NUMBER: Final = TypeObject(
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER",
    "UBIGINT", "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL",
)  # fmt: skip
DATETIME: Final = TypeObject(
    "DATE", "TIME", "TIME WITH TIME ZONE", "INTERVAL", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE",
    "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS",
)  # fmt: skip
ROWID: Final = TypeObject()
"""Equals no column's type: records have no public identity."""

Date = dt.date
Time = dt.time
Timestamp = dt.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> dt.date:  # noqa: N802
    return dt.date.fromtimestamp(ticks)


def TimeFromTicks(ticks: float) -> dt.time:  # noqa: N802
    return dt.datetime.fromtimestamp(ticks).time()


def TimestampFromTicks(ticks: float) -> dt.datetime:  # noqa: N802
    return dt.datetime.fromtimestamp(ticks)
