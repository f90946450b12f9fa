"""What a source that has been opened is asked for: columns with their types, and rows.

Every source hands its rows to a DuckDB connection of this room, and `reading` and `coding` turn
them into cells there. So the meaning of a value is written once, and is the same for all sources.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import duckdb

__all__ = ["OpenSource", "Rows", "RowsOfDays"]


RowsOfDays: TypeAlias = Callable[[str, dt.date, dt.date], str | None]


@dataclass(frozen=True)
class Rows:
    """Rows that the ``connection`` can read: ``relation`` stands after FROM.

    ``number`` is its column with the number of equal rows that each of its rows stands for; None
    where each is one. ``again``: one statement may read the relation more than once. ``days`` gives
    a relation of fewer rows, None for the whole one: all with a day of an interval in a column.
    """

    connection: duckdb.DuckDBPyConnection
    relation: str
    number: str | None = None
    again: bool = False
    days: RowsOfDays | None = None

    def counted(self, condition: str = "") -> str:
        """The aggregate that counts all rows, or those of the condition."""
        where = f" FILTER (WHERE {condition})" if condition else ""
        if self.number is None:
            return f"count(*){where}"
        return f"CAST(coalesce(sum({self.number}){where}, 0) AS BIGINT)"


class OpenSource(Protocol):
    """A source in use. ``origin`` is a table's ``from``: the name of a table or view of the source,
    or a SELECT in the source's own SQL. ``key`` is that of ``from`` in the policy, for messages.

    All methods raise SourceError, which depends on the schema and on the custodian's SQL alone: it
    quotes no record, and no password or other secret of a url.
    """

    def schema(self, origin: str, key: str) -> dict[str, str]:
        """The columns with the DuckDB types in which `rows` gives them, before a row is read."""
        ...

    def rows(
        self, origin: str, columns: Sequence[str], key: str, *, alike: bool
    ) -> AbstractContextManager[Rows]:
        """The rows with at least these columns of the schema. They can be read until the context is
        left; a duckdb.Error in it becomes a SourceError.

        Where they are ``alike``, equal rows may be counted by the source and given as one.
        """
        ...

    def begin(self) -> None:
        """From now on all is read as of one moment, where the source can do that."""
        ...

    def relations(self, origin: str) -> frozenset[str] | None:
        """The relations that ``origin`` reads, casefolded; None if that cannot be found out."""
        ...

    def may_filter(self, origin: str) -> bool:
        """Whether ``origin``, the name of a view for example, can leave out records of a table."""
        ...

    def close(self) -> None: ...
