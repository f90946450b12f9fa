"""A source that DuckDB reads by itself: a file, a data frame, or a connection of the caller's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Any, Final

import duckdb

from tallyveil.cube.sources.open_source import Rows, RowsOfDays
from tallyveil.duckdb_connection import duckdb_connection
from tallyveil.errors import SourceError
from tallyveil.policy.mistakes import without_passwords
from tallyveil.policy.sql_names import select_of

__all__ = ["CONFIG", "DuckDBSource", "failed", "words"]

CONFIG: Final[dict[str, str | bool | int | float | list[str]]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
}

_ABOUT_SQL: Final = (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException)


class DuckDBSource:
    """All tables' ``from`` are asked on one connection, which it closes.

    Without ``several`` the ``connection`` holds one relation, whose names may be views; ``days``
    are `Rows.days` by its names.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        *,
        several: bool = True,
        days: Mapping[str, RowsOfDays] = MappingProxyType({}),
    ) -> None:
        self.connection = connection
        self._several = several
        self._days = days
        self._begun = False

    @classmethod
    def of(cls, relation: Any, names: Iterable[str]) -> DuckDBSource:
        """An Arrow table, a dataset, or what streams its rows as Arrow each time it is asked."""
        memory = duckdb_connection(config=CONFIG)
        for name in names:
            memory.register(name, relation)
        return cls(memory, several=False)

    def schema(self, origin: str, key: str) -> dict[str, str]:
        try:
            # In brackets, so that a second statement is a syntax error and does not run.
            found = self.connection.execute(f"DESCRIBE FROM {_relation(origin)}").fetchall()
        except duckdb.Error as error:
            raise _refused(origin, key, error) from None
        return {str(name).lower(): str(column_type) for name, column_type, *_ in found}

    @contextmanager
    def rows(self, origin: str, columns: Sequence[str], key: str, *, alike: bool) -> Iterator[Rows]:
        try:
            days = self._days.get(origin.strip('"').lower())
            yield Rows(self.connection, _relation(origin), again=True, days=days)
        except duckdb.Error as error:
            raise failed(key, error) from None

    def begin(self) -> None:
        if not self._begun:
            self.connection.begin()
            self._begun = True

    def relations(self, origin: str) -> frozenset[str] | None:
        with suppress(duckdb.Error):
            names = self.connection.get_table_names(f"FROM {_relation(origin)}")
            return frozenset(name.casefold() for name in names)
        return None  # of a join with USING, for example

    def may_filter(self, origin: str) -> bool:
        if not self._several:
            return False
        name = origin.split(".")[-1].strip('"').lower()
        views = "SELECT count(*) FROM duckdb_views() WHERE NOT internal AND lower(view_name) = ?"
        found = self.connection.execute(views, [name]).fetchone()
        return found is not None and found[0] > 0

    def close(self) -> None:
        self.connection.close()


def _relation(origin: str) -> str:
    # Line breaks end a comment at the end of the custodian's SELECT.
    return f"(\n{select_of(origin)}\n)"


def _refused(origin: str, key: str, error: duckdb.Error) -> SourceError:
    """What the custodian is told where DuckDB cannot tell the columns of ``origin``."""
    if isinstance(error, duckdb.CatalogException):
        return SourceError(
            f"{key}: the source has no such table, view or function: {without_passwords(origin)}",
            detail=words(error),
            hint="A file goes by its name without the ending, or by the table's name. Of a passed "
            "connection, temporary tables and registered frames cannot be seen: CREATE TABLE.",
        )
    return SourceError(
        f"{key}: DuckDB cannot read it ({type(error).__name__}): {without_passwords(origin)}",
        detail=words(error),
    )


def failed(key: str, error: duckdb.Error) -> SourceError:
    """As `_refused`, while rows are read: without DuckDB's words, which may quote a record."""
    return SourceError(
        f"{key}: DuckDB failed to read it ({type(error).__name__})",
        hint="A SELECT given as from must succeed on every record: use TRY_CAST and TRY.",
    )


def words(error: duckdb.Error) -> str | None:
    """DuckDB's words about the custodian's own SQL, or None if they may quote what is stored.

    Further lines list the source's columns, which in a file without a header are a record.
    """
    if not isinstance(error, _ABOUT_SQL):
        return None
    return without_passwords(str(error).split("\n", 1)[0].partition(": ")[2])
