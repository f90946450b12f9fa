"""Spark as the source: tables and views of its catalogs, and SELECTs in its own SQL.

Spark counts equal rows, and the groups come as Arrow; `reading` and `coding` then give them their
cells, as those of any other source. Texts are compared byte by byte, whatever their collation, and
doubles by their texts, since Spark groups -0 with 0.

Where a SELECT fails on a record, Spark and its driver for Python log the record: both are silenced.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tallyveil.cube.sources.extra import imported
from tallyveil.cube.sources.file_kinds import Opener
from tallyveil.cube.sources.open_source import OpenSource
from tallyveil.cube.sources.streamed_source import StreamedSource, counted_select, relation
from tallyveil.errors import SourceError
from tallyveil.policy import Source
from tallyveil.policy.mistakes import without_passwords
from tallyveil.policy.sql_names import is_table_reference
from tallyveil.quoting import identifier

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SPARK"]

_PLAIN: Final = MappingProxyType(
    {
        "boolean": pa.bool_(),
        "tinyint": pa.int8(),
        "smallint": pa.int16(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestamp_ntz": pa.timestamp("us"),
        "binary": pa.binary(),
    }
)
_FLOATS: Final = MappingProxyType({"float": "FLOAT", "double": "DOUBLE"})
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")
# A plan names relations of a catalog in three parts, and a statement's own in one.
_NAMED: Final = re.compile(r"\b(?:SubqueryAlias|Relation) ([^\s.\[]+\.[^\s\[]+\.[^\s.\[]+)")
_TABLES: Final = ("MANAGED", "EXTERNAL")


class _Spark(StreamedSource):
    words = "Spark"

    def __init__(self, url: str) -> None:
        self.failures = (*_errors(), pa.ArrowException)
        self._types: dict[str, list[tuple[str, str]]] = {}
        self._session, self._own = _session(url)

    def described(self, origin: str, key: str) -> pa.Schema:
        if origin not in self._types:
            self._types[origin] = self._analysed(origin, key)
        return pa.schema([(name, _sent(kind)) for name, kind in self._types[origin]])

    def _analysed(self, origin: str, key: str) -> list[tuple[str, str]]:
        from pyspark.errors import AnalysisException

        try:
            fields = self._session.sql(f"SELECT * FROM {_relation(origin)}").schema
        except AnalysisException as error:
            # Found before any row is read. Further lines repeat the statement.
            raise SourceError(
                f"{key}: Spark cannot read it: {without_passwords(origin)}",
                detail=without_passwords(str(error).strip().split("\n", 1)[0]),
                hint="from is the name of a table or view, or a SELECT in Spark's SQL.",
            ) from None
        return [(field.name, field.dataType.simpleString()) for field in fields]

    def value(self, origin: str, name: str) -> str:
        kind = dict(self._types[origin])[name]
        if kind not in _FLOATS:
            return identifier(name)
        return f"TRY_CAST({identifier(name)} AS {_FLOATS[kind]})"

    def batches(
        self, origin: str, columns: Sequence[str], key: str, *, alike: bool
    ) -> pa.RecordBatchReader:
        asked = [(name, kind) for name, kind in self._types[origin] if name in columns]
        items = [_item(name, kind) for name, kind in asked]
        fields = [(name, _sent(kind)) for name, kind in asked]
        select, schema = counted_select(items, fields, _relation(origin), alike=alike)
        found = self._session.sql(select)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of pandas, which is not used
            rows = found.toArrow()
        return rows.rename_columns(schema.names).cast(schema).to_reader()

    def relations(self, origin: str) -> frozenset[str] | None:
        with suppress(*self.failures):
            explain = f"EXPLAIN EXTENDED SELECT * FROM {_relation(origin)}"
            plan = self._session.sql(explain).collect()[0][0]
            return frozenset(name.casefold() for name in _NAMED.findall(plan))
        return None

    def may_filter(self, origin: str) -> bool:
        with suppress(*self.failures):
            return self._session.catalog.getTable(_name(origin)).tableType not in _TABLES
        return True

    def close(self) -> None:
        if self._own:
            self._session.stop()


def _errors() -> tuple[type[Exception], ...]:
    """What pyspark raises: its own errors, and those of the library that talks to Java."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return PySparkException, Py4JError


def _session(url: str) -> tuple[SparkSession, bool]:
    """A session of this source's own, and whether Spark was started for it."""
    from pyspark import SparkContext
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True
    own = SparkContext._active_spark_context is None
    builder = SparkSession.builder.appName("tallyveil")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    if url.partition("://")[2]:
        builder = builder.master(url)
    session = builder.getOrCreate().newSession()
    if own:
        session.sparkContext.setLogLevel("OFF")
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return session, own


def _relation(origin: str) -> str:
    named = is_table_reference(origin)
    return relation(f"SELECT * FROM {_name(origin)}" if named else origin)


def _name(reference: str) -> str:
    """A reference as Spark quotes it."""
    parts = re.findall(r'"(?:[^"]|"")+"|[^."]+', reference)
    plain = (part[1:-1].replace('""', '"') if part[0] == '"' else part for part in parts)
    return ".".join(f"`{part.replace('`', '``')}`" for part in plain)


def _sent(kind: str) -> pa.DataType:
    decimal = _DECIMAL.fullmatch(kind)
    if decimal is not None:
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    return _PLAIN.get(kind, pa.string())


def _item(name: str, kind: str) -> str:
    column = f"`{name.replace('`', '``')}`"
    if kind in _PLAIN or _DECIMAL.fullmatch(kind):
        return column
    return f"make_valid_utf8(collate(CAST({column} AS STRING), 'UTF8_BINARY'))"


def _opened(file: Source, names: Iterable[str]) -> OpenSource:
    """Raises SourceError where there is no pyspark, or Spark does not start."""
    imported("pyspark", file.key, "spark")
    failures: tuple[type[Exception], ...] = (*_errors(), OSError, RuntimeError, ValueError)
    try:
        return _Spark(file.url)
    except failures as error:
        raise SourceError(
            f"{file.key}: cannot start Spark for {file.shown} ({type(error).__name__})",
            hint="JAVA_HOME must name Java 17 or later, and the cluster must be reached.",
        ) from None


SPARK: Final = Opener(confidential=_opened, public=_opened)
