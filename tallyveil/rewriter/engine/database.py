"""The public DuckDB: where analysts' SQL is evaluated, on domains and noisy rows only.

It is an in-memory database that never holds a confidential value, with no file, network or
extension access, no view of Python's variables, a memory limit, and its configuration locked. It is
opened anew where a statement has broken it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import duckdb
import pyarrow as pa

from tallyveil.arrow import array_of
from tallyveil.policy.domain import Attribute, Domain
from tallyveil.rewriter.engine.cursor import Cursor, Engine
from tallyveil.rewriter.engine.watchdog import Watchdog
from tallyveil.truth import TRUTH_TEXTS

__all__ = ["BOUNDED_REPLACE", "PublicDatabase", "domain_table", "public_table"]


_SETTINGS: Final = (
    "SET python_enable_replacements = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET allow_community_extensions = false",
    "SET allow_persistent_secrets = false",
    "SET temp_directory = ''",  # what does not fit in memory is refused, not written down
    "SET enable_external_access = false",
    "SET enable_progress_bar = false",
    "SET arrow_large_buffer_size = false",
    "SET GLOBAL TimeZone = 'UTC'",  # that of each session, until it says another
    "SET allowed_configs = ['TimeZone']",  # each session has its own
)

# What may become of a text by one call of replace, in characters.
MAX_TEXT: Final = 1_000_000
BOUNDED_REPLACE: Final = "__replace"


def _texts(value: bool) -> str:
    return ", ".join(f"'{text}'" for text, stands_for in TRUTH_TEXTS.items() if stands_for is value)


# What PostgreSQL means by some functions, where DuckDB has no function that means the same, and
# replace, which could go on for hours.
_MACROS: Final = (
    # A text as an integer is digits with a sign and spaces around, or an error.
    "__pg_whole(t) AS CASE WHEN t IS NULL OR regexp_full_match(t, '\\s*[+-]?[0-9]+\\s*') THEN t "
    "ELSE error('a text of the domain is no integer') END",
    f"__pg_truth(t) AS list_transform([trim(lower(t), ' \t\n\r\f\v')], lambda w: "
    f"CASE WHEN w IN ({_texts(True)}) THEN true WHEN w IN ({_texts(False)}) THEN false "
    "WHEN w IS NOT NULL THEN error('a text of the domain is no truth value') END)[1]",
    # The length of the text is looked at before there is too much of it, and each argument stands
    # in the list once, since a macro writes its arguments out.
    f"{BOUNDED_REPLACE}(t, f, r) AS list_transform([{{'t': t, 'f': f, 'r': r}}], lambda x: "
    f"CASE WHEN length(x.t) * (1 + length(x.r)) > {MAX_TEXT} "
    "THEN error('replace could make too long a text here') "
    "ELSE replace(x.t, x.f, x.r) END)[1]",
    # Places below 1 are counted, though nothing stands there.
    "__pg_substring_from(t, place) AS "
    "CASE WHEN place IS NOT NULL THEN substring(t, greatest(place, 1)) END",
    "__pg_substring(t, place, length) AS "
    "CASE WHEN length < 0 THEN error('negative substring length not allowed') "
    "WHEN place IS NOT NULL AND length IS NOT NULL "
    "THEN substring(t, greatest(place, 1), greatest(place + length - greatest(place, 1), 0)) END",
    "__pg_year(y) AS list_transform([y], lambda v: CASE WHEN v < 1 "
    "THEN error('date field value out of range: years begin with 1') ELSE v END)[1]",
    "__bc_year(y) AS list_transform([y], lambda v: CASE WHEN v > 0 THEN v WHEN v < 0 THEN v + 1 "
    "END)[1]",
    "__finite_time(d) AS list_transform([d], lambda v: CASE WHEN isfinite(v) THEN v END)[1]",
    "__pg_finite_time(d, message) AS list_transform([d], lambda v: CASE WHEN isinf(v) "
    "THEN error(message) ELSE v END)[1]",
    # A lambda names its argument, which a macro would write out as often as it is used.
    "__pg_sqrt(x) AS list_transform([CAST(x AS DOUBLE)], lambda v: CASE WHEN v < 0 "
    "THEN error('cannot take square root of a negative number') ELSE sqrt(v) END)[1]",
    "__pg_positive(x) AS list_transform([CAST(x AS DOUBLE)], lambda v: CASE WHEN v <= 0 "
    "THEN error('cannot take logarithm of a number that is not positive') ELSE v END)[1]",
    "__pg_ln(x) AS ln(__pg_positive(x))",
    "__pg_log(x) AS log10(__pg_positive(x))",
    "__pg_finite(x) AS list_transform([x], lambda v: CASE WHEN isinf(v) "
    "THEN error('value out of range: overflow') ELSE v END)[1]",
    "__pg_exp(x) AS __pg_finite(exp(x))",
    "__pg_power(x, y) AS list_transform([CAST(x AS DOUBLE)], lambda a: "
    "list_transform([CAST(y AS DOUBLE)], lambda b: CASE WHEN a = 0 AND b < 0 "
    "THEN error('zero raised to a negative power is undefined') WHEN a < 0 AND b <> floor(b) "
    "THEN error('a negative number raised to a non-integer power yields a complex result') "
    "ELSE __pg_finite(pow(a, b)) END)[1])[1]",
)

# A variance from n, s = Σ (x − c) and q = Σ (x − c)², with noise: see `moments`.
_VARIANCE: Final = (
    "__variance(n, s, q, lost) AS CASE WHEN n > lost AND q - s * s / n > 0 "
    "THEN (q - s * s / n) / (n - lost) WHEN n > lost AND q - s * s / n <= 0 THEN 0e0 END"
)


def domain_table(domain: Domain, attribute: Attribute) -> str:
    """The name of the public table with the cells of one attribute: (code, value)."""
    return f"__domain_{domain.table}.{attribute.name}"  # no declared name has a dot


def public_table(name: str) -> str:
    """The name under which a public table of the policy is held."""
    return f"__public_{name}"


class PublicDatabase:
    """One per gate. `cursor` gives each session a connection of its own to it.

    Gates of this process over the same domains, without public tables, read the same database, with
    one memory limit: opening one takes most of the time that opening a gate takes.
    """

    def __init__(
        self,
        domains: Sequence[Domain],
        public: Mapping[str, pa.Table] = MappingProxyType({}),
        *,
        memory_limit: str = "1GiB",
        time_limit: float = 10.0,
    ) -> None:
        self._public = public
        if public:
            self._engine = Engine(lambda: _opened(domains, public, memory_limit))
        else:
            self._engine = _shared_engine(tuple(domains), memory_limit)
        self._watchdog = Watchdog(time_limit)

    def columns(self, name: str) -> dict[str, str]:
        """The columns of a public table and their DuckDB types."""
        cursor = self.cursor()
        try:
            return dict(cursor.describe(f'FROM "{public_table(name)}"'))
        finally:
            cursor.close()

    def cursor(self) -> Cursor:
        return Cursor(self._engine, self._watchdog)

    def close(self) -> None:
        self._watchdog.close()
        if self._public:
            self._engine.close()


# A few of the last ones stay for those who connect again.
@functools.lru_cache(maxsize=4)
def _shared_engine(domains: tuple[Domain, ...], memory_limit: str) -> Engine:
    return Engine(lambda: _opened(domains, {}, memory_limit))


def _opened(
    domains: Sequence[Domain], public: Mapping[str, pa.Table], memory_limit: str
) -> duckdb.DuckDBPyConnection:
    """The database with everything it will ever hold but noisy rows, shut off from the rest."""
    # A statement runs in the thread that asks: threads of DuckDB's own would call Python to read
    # noisy rows, and have ended the process with a segmentation fault while it collected garbage.
    connection = duckdb.connect(":memory:", config={"threads": 1})
    connection.execute(f"SET memory_limit = '{memory_limit}'")
    for domain in domains:
        for attribute in domain.attributes:
            _create_domain_table(connection, domain, attribute)
    for name, table in public.items():
        _create(connection, public_table(name), "SELECT * FROM __table", __table=table)
    for macro in (*_MACROS, _VARIANCE):
        connection.execute(f"CREATE MACRO {macro}")
    for setting in _SETTINGS:
        connection.execute(setting)
    connection.execute("SET lock_configuration = true")
    return connection


def _create_domain_table(
    connection: duckdb.DuckDBPyConnection, domain: Domain, attribute: Attribute
) -> None:
    cells = pa.table(
        {
            "code": pa.array(range(attribute.size), pa.int64()),
            "value": array_of(attribute.cells, attribute.sql_type),
        }
    )
    _create(
        connection,
        domain_table(domain, attribute),
        f"SELECT code, CAST(value AS {attribute.sql_type}) AS value FROM __cells ORDER BY code",
        __cells=cells,
    )


def _create(
    connection: duckdb.DuckDBPyConnection, name: str, query: str, **tables: pa.Table
) -> None:
    """A table of what the query makes of Arrow tables."""
    for given, table in tables.items():
        connection.register(given, table)
    connection.execute(f'CREATE TABLE "{name}" AS {query}')
    for given in tables:
        connection.unregister(given)
