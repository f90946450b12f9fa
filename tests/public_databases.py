"""The public databases of gates that are gone serve gates over other domains.

Opening one and defining its macros takes most of the time of opening a gate, and the tests open
thousands. One that was replaced, since a statement had broken it, is not used again.
"""

from __future__ import annotations

import functools
import weakref
from collections import defaultdict

import duckdb

from tallyveil.policy.domain import Domain
from tallyveil.rewriter.engine import public_database
from tallyveil.rewriter.engine.public_cursor import Engine

__all__ = ["shared_engine"]

_free: defaultdict[str, list[duckdb.DuckDBPyConnection]] = defaultdict(list)
_opened, _held = public_database._opened, public_database._shared_engine.cache_parameters()


@functools.lru_cache(**_held)
def shared_engine(domains: tuple[Domain, ...], memory_limit: str) -> Engine:
    """As `public_database._shared_engine`."""
    made: list[duckdb.DuckDBPyConnection] = []

    def opened() -> duckdb.DuckDBPyConnection:
        again = None if made else _emptied(memory_limit)
        made.append(again or _opened(domains, {}, memory_limit))
        if again is not None:
            for domain in domains:
                for attribute in domain.attributes:
                    public_database._create_domain_table(again, domain, attribute)
        return made[-1].cursor()

    engine = Engine(opened)
    weakref.finalize(engine, _freed, made, memory_limit)  # whoever has a cursor has the engine
    return engine


def _freed(made: list[duckdb.DuckDBPyConnection], memory_limit: str) -> None:
    if len(made) == 1:
        _free[memory_limit].append(made[0])


def _emptied(memory_limit: str) -> duckdb.DuckDBPyConnection | None:
    if not _free[memory_limit]:
        return None
    found = _free[memory_limit].pop()
    tables = found.execute("SELECT table_name FROM duckdb_tables() WHERE NOT internal").fetchall()
    for (name,) in tables:
        found.execute(f'DROP TABLE "{name}"')
    return found
