"""PostgreSQL as the source: its tables, views and partitioned tables, and SELECTs in its own SQL.

All tables of a policy are read in one transaction, so that they are of one moment. Rows come by
COPY, equal ones once with their number where their types suit that (`postgresql_types`), and are
never held as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import psycopg
import pyarrow as pa

from tallyveil.cube.sources.copied_rows import BLOCK, copied_rows
from tallyveil.cube.sources.file_kinds import Opener
from tallyveil.cube.sources.postgresql_connection import failed, read_only, refused
from tallyveil.cube.sources.postgresql_types import Sent, sent
from tallyveil.cube.sources.streamed_source import NUMBER, StreamedSource, relation
from tallyveil.errors import SourceError
from tallyveil.policy import Source
from tallyveil.quoting import identifier

__all__ = ["POSTGRESQL", "PostgreSQLSource"]

# The tables among the named relations, and those that their materialized views were made from.
_TABLES: Final = """
WITH RECURSIVE found(o) AS (
  SELECT to_regclass(name)::oid FROM unnest(%s::text[]) AS name
  UNION
  SELECT d.refobjid FROM found
  JOIN pg_class c ON c.oid = found.o AND c.relkind IN ('v', 'm')
  JOIN pg_rewrite r ON r.ev_class = c.oid
  JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
    AND d.refclassid = 'pg_class'::regclass
)
SELECT DISTINCT n.nspname || '.' || c.relname FROM found
JOIN pg_class c ON c.oid = coalesce(pg_partition_root(found.o), found.o)
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind NOT IN ('v', 'm')
"""


class PostgreSQLSource(StreamedSource):
    """Raises SourceError where it cannot connect."""

    words = "PostgreSQL"
    failures = (psycopg.Error, pa.ArrowException)

    def __init__(self, file: Source, names: Iterable[str]) -> None:
        self._columns: dict[str, list[tuple[str, Sent]]] = {}
        self.connection = read_only(file)

    def described(self, origin: str, key: str) -> pa.Schema:
        if origin not in self._columns:
            try:
                self._columns[origin] = self._asked(origin)
            except psycopg.Error as error:
                raise refused(origin, key, error) from None
        return pa.schema([(name, column.type) for name, column in self._columns[origin]])

    def _asked(self, origin: str) -> list[tuple[str, Sent]]:
        # LIMIT 0 reads no row, and still checks what the role may read.
        with self.connection.transaction(), self.connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {relation(origin)} LIMIT 0".encode())
            names, result = [one.name for one in cursor.description or ()], cursor.pgresult
            if result is None:
                return []
            return [(n, sent(result.ftype(i), result.fmod(i))) for i, n in enumerate(names)]

    def value(self, origin: str, name: str) -> str:
        return dict(self._columns[origin])[name].read(identifier(name))

    def batches(
        self, origin: str, columns: Sequence[str], key: str, *, alike: bool
    ) -> pa.RecordBatchReader:
        asked = [(name, column) for name, column in self._columns[origin] if name in columns]
        # A row must fit in a block, even where each of its characters is a quote, and doubled.
        longest = BLOCK // (4 * len(asked))
        items = [
            f"{column.sql(identifier(name), longest)} AS {identifier(name)}"
            for name, column in asked
        ]
        fields = [(name, column.type) for name, column in asked]
        source = relation(origin)
        if alike and all(column.few for _, column in asked):
            # What is sent is computed once a group.
            apart = [f"{column.apart(identifier(n))} AS {identifier(n)}" for n, column in asked]
            apart.append(f"count(*) AS {identifier(NUMBER)}")
            places = ", ".join(str(i + 1) for i in range(len(asked)))
            source = f"(SELECT {', '.join(apart)} FROM {source} GROUP BY {places}) AS alike"
            items.append(identifier(NUMBER))
            fields.append((NUMBER, pa.int64()))
        select = f"SELECT {', '.join(items)} FROM {source}"
        schema = pa.schema(fields)
        rows = copied_rows(self.connection, select, schema)
        return pa.RecordBatchReader.from_batches(schema, rows)

    def relations(self, origin: str) -> frozenset[str] | None:
        explain = f"EXPLAIN (VERBOSE, FORMAT JSON) SELECT * FROM {relation(origin)}"
        with suppress(psycopg.Error), self.connection.transaction():
            ((plan,),) = self.connection.execute(explain.encode()).fetchall()
            if _calls(plan):
                return None
            found = self.connection.execute(_TABLES, [list(_named(plan))]).fetchall()
            return frozenset(name.casefold() for (name,) in found)
        return None

    def may_filter(self, origin: str) -> bool:
        """Whether it is anything but a table: also a foreign one may be a view where it is."""
        kinds = "SELECT relkind IN ('r', 'p') FROM pg_class WHERE oid = to_regclass(%s)"
        with suppress(psycopg.Error), self.connection.transaction():
            found = self.connection.execute(kinds, [origin]).fetchone()
            return found is not None and not found[0]
        return True

    def _lost(self, error: Exception, key: str) -> SourceError:
        return error if isinstance(error, SourceError) else failed(key, error)

    def close(self) -> None:
        self.connection.close()


def _named(plan: Any) -> Iterator[str]:
    """The relations that a plan reads, with their schemas."""
    if isinstance(plan, list):
        for each in plan:
            yield from _named(each)
    elif isinstance(plan, dict):
        if "Relation Name" in plan:
            yield f"{identifier(plan['Schema'])}.{identifier(plan['Relation Name'])}"
        for each in plan.values():
            yield from _named(each)


def _calls(plan: Any) -> bool:
    """Whether a plan has rows of functions that are not PostgreSQL's own, which may read any
    relation."""
    if isinstance(plan, list):
        return any(map(_calls, plan))
    if not isinstance(plan, dict):
        return False
    own = plan.get("Node Type") == "Function Scan" and plan.get("Schema") != "pg_catalog"
    return own or any(map(_calls, plan.values()))


POSTGRESQL: Final = Opener(confidential=PostgreSQLSource, public=PostgreSQLSource)
