"""Databases with an ADBC driver as the source: tables, views, and SELECTs in their own SQL.

Rows come as the driver's Arrow batches. The database counts equal rows only where the types of all
columns say that what it calls equal is the same value: a collation may join texts, and -0 is 0.
SQLite has no types, so it sends what each value is, and counts equal rows by that.

What a driver reports before it has read a row is quoted, but for secrets; its other words may quote
a record.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from tallyveil.cube.sources.extra import imported
from tallyveil.cube.sources.file_kinds import Opener
from tallyveil.cube.sources.streamed_source import StreamedSource, counted_select, relation
from tallyveil.errors import SourceError
from tallyveil.policy import Source
from tallyveil.policy.database_urls import AdbcUrl, adbc_url
from tallyveil.policy.mistakes import without_passwords
from tallyveil.quoting import identifier

__all__ = ["ADBC"]

_SHORT: Final = 3  # characters of a value that is no secret by itself
_QUOTES: Final = ('"', "`")
_SNAPSHOT: Final = (
    "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
)
_ABOUT_SQL: Final = ("42", "3F", "0A")
# The driver takes a column's type from its first rows: so no value is NULL, and all are texts.
_DYNAMIC: Final = (
    "CASE typeof({0}) WHEN 'null' THEN '' WHEN 'real' THEN 'r' || printf('%!.17g', {0})"
    " ELSE 'x' || {0} END"
)
# The digits of a double that SQLite writes are those of no other, but more than DuckDB's.
_DOUBLE: Final = "replace(CAST(TRY_CAST(substr({0}, 2) AS DOUBLE) AS VARCHAR), 'inf', '1e308')"
_TEXT: Final = "coalesce(TRY(decode({0})), CAST({0} AS VARCHAR))"


class _Adbc(StreamedSource):
    """Raises SourceError where it cannot connect."""

    words = "the database"

    def __init__(self, file: Source, names: Iterable[str]) -> None:
        self._dbapi: Any = imported("adbc_driver_manager.dbapi", file.key, "adbc")
        self.failures = (self._dbapi.Error, pa.ArrowException, OSError)
        self._columns: dict[str, pa.Schema] = {}
        self._quote, self._dynamic = "", False
        url = adbc_url(file.url) or AdbcUrl("", {})
        options = {name: _value(value, name, file.key) for name, value in url.options.items()}
        self._secrets = [
            options[n]
            for n, v in url.options.items()
            if options[n] and (v != options[n] or (n != "uri" and len(v) > _SHORT))
        ]
        self._connection = self._connected(file, url.driver, options)
        with suppress(self._dbapi.Error):
            self._dynamic = self._connection.adbc_get_info().get("vendor_name") == "SQLite"

    def _connected(self, file: Source, driver: str, options: dict[str, str]) -> Any:
        if driver:
            options = {**options, "driver": _library(driver)}
        try:
            return self._dbapi.connect(db_kwargs=options, autocommit=True)
        except self._dbapi.Error as error:
            raise SourceError(
                f"{file.key}: cannot connect to {file.shown}",
                detail=self._said(error),
                hint="The driver must be installed, as by pip install adbc-driver-NAME. An option"
                " that is a secret is given as $NAME, a variable of the environment.",
            ) from None

    def _said(self, error: Exception) -> str:
        """The driver's words; further lines repeat the statement."""
        said = str(error).split("\n", 1)[0]
        for secret in self._secrets:
            said = said.replace(secret, "…")
        return without_passwords(said)

    def described(self, origin: str, key: str) -> pa.Schema:
        if origin not in self._columns:
            found = self._asked(f"SELECT * FROM {relation(origin)} WHERE 1 = 0", origin, key)
            self._quote = self._quote or self._quoting(origin, (found.names or [""])[0])
            self._columns[origin] = found
        return pa.schema([(one.name, self._sent(one.type)) for one in self._columns[origin]])

    def _asked(self, select: str, origin: str, key: str) -> pa.Schema:
        """The columns of a SELECT that has no rows."""
        prepared = False
        try:
            with self._connection.cursor() as cursor:
                with suppress(self._dbapi.NotSupportedError):
                    cursor.adbc_prepare(select)
                prepared = True
                cursor.execute(select)
                return cursor.fetch_record_batch().schema
        except self.failures as error:
            if prepared and not (getattr(error, "sqlstate", "") or "").startswith(_ABOUT_SQL):
                raise
            raise SourceError(
                f"{key}: the database cannot read it: {without_passwords(origin)}",
                detail=self._said(error),
                hint="from is the name of a table or view, or a SELECT in the database's own SQL.",
            ) from None

    def _quoting(self, origin: str, name: str) -> str:
        """How the database quotes names. What follows a point is a name and no text."""
        for self._quote in _QUOTES:
            select = f"SELECT {self._name(name)} FROM {relation(origin)} WHERE 1 = 0"
            with suppress(*self.failures), self._connection.cursor() as cursor:
                cursor.execute(select)
                return self._quote
        return _QUOTES[0]

    def _name(self, name: str) -> str:
        return f"origin.{self._quote}{name.replace(self._quote, self._quote * 2)}{self._quote}"

    def _sent(self, kind: pa.DataType) -> pa.DataType:
        """The type in which a column reaches DuckDB; texts as bytes, since not every driver checks
        that they are UTF-8."""
        if self._dynamic or _is_text(kind):
            return pa.large_binary()
        return pa.string() if pa.types.is_decimal256(kind) else kind

    def value(self, origin: str, name: str) -> str:
        column = identifier(name)
        if self._dynamic:
            text, double = _TEXT.format(column), _DOUBLE.format(_TEXT.format(column))
            return (
                f"CASE left({text}, 1) WHEN 'r' THEN {double} WHEN 'x' THEN substr({text}, 2) END"
            )
        return _TEXT.format(column) if _is_text(self._columns[origin].field(name).type) else column

    def batches(
        self, origin: str, columns: Sequence[str], key: str, *, alike: bool
    ) -> pa.RecordBatchReader:
        asked = [field for field in self._columns[origin] if field.name in columns]
        items = [self._name(field.name) for field in asked]
        if self._dynamic:
            items = [_DYNAMIC.format(item) for item in items]
        grouped = alike and (self._dynamic or all(_has_one_form(field.type) for field in asked))
        fields = [(field.name, self._sent(field.type)) for field in asked]
        select, schema = counted_select(items, fields, relation(origin), alike=grouped)

        def each() -> Iterator[pa.RecordBatch]:
            with self._connection.cursor() as cursor:
                cursor.execute(select)
                for batch in cursor.fetch_record_batch():
                    yield batch.rename_columns(schema.names).cast(schema)

        return pa.RecordBatchReader.from_batches(schema, each())

    def begin(self) -> None:
        with suppress(*self.failures), self._connection.cursor() as cursor:
            cursor.execute(_SNAPSHOT)  # outside a transaction, which an error could end
        with suppress(*self.failures):
            self._connection.adbc_connection.set_autocommit(False)

    def may_filter(self, origin: str) -> bool:
        """Also a table may: what its driver tells of it does not say which rows the user sees."""
        return True

    def close(self) -> None:
        self._connection.close()


def _value(value: str, name: str, key: str) -> str:
    if not value.startswith("$"):
        return value
    found = os.environ.get(value[1:])
    if found is None:
        raise SourceError(
            f"{key}: the environment has no variable {value[1:]}, which {name} names",
            hint=f"Set it before the command: export {value[1:]}=…",
        )
    return found


def _library(driver: str) -> str:
    """The library in the driver's package; without one, the driver manager knows the name."""
    package = f"adbc_driver_{driver.removeprefix('adbc_driver_')}"
    found = find_spec(package) if package.isidentifier() else None
    for folder in (found and found.submodule_search_locations) or ():
        library = Path(folder) / f"lib{package}.so"  # so named on every platform
        if library.is_file():
            return str(library)
    return driver


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    kind = getattr(kind, "storage_type", kind)
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(is_text(kind) for is_text in texts)


def _has_one_form(kind: pa.DataType) -> bool:
    """Whether values that any database calls equal are the same."""
    known = (pa.types.is_integer, pa.types.is_boolean, pa.types.is_date32, pa.types.is_decimal)
    return any(is_known(kind) for is_known in known)


ADBC: Final = Opener(confidential=_Adbc, public=_Adbc)
