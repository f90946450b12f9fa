"""The public databases of gates that are gone serve later gates, over other domains and public
tables too.

Opening one and defining its macros takes most of the time of opening a gate, and the tests open
thousands. One that was replaced, since a statement had broken it, is not used again.
"""

from __future__ import annotations

import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import duckdb
import pyarrow as pa
import pytest

from tallyveil.policy.domain import Domain
from tallyveil.rewriter.engine import public_database
from tallyveil.rewriter.engine.public_cursor import Engine

__all__ = ["use_again"]


class _Opened(NamedTuple):
    """A database, and what it was opened over."""

    connection: duckdb.DuckDBPyConnection
    domains: tuple[Domain, ...]
    public: dict[str, pa.Table]


_free: defaultdict[str, list[_Opened]] = defaultdict(list)
_choosing = threading.Lock()
_opened = public_database._opened


class _Last(threading.local):
    """What this thread opened last, and the pool that it is of."""

    opened: _Opened
    pool: list[_Opened]


_last = _Last()


class _Engine(Engine):
    def __init__(self, opened: Callable[[], duckdb.DuckDBPyConnection]) -> None:
        made: list[_Opened] = []

        def noted() -> duckdb.DuckDBPyConnection:
            cursor = opened()
            made.append(_last.opened)
            return cursor

        super().__init__(noted)
        weakref.finalize(self, _freed, made, _last.pool)  # whoever has a cursor has the engine


def _freed(made: Sequence[_Opened], pool: list[_Opened]) -> None:
    if len(made) == 1:
        pool += made


def _from_pool(
    domains: Sequence[Domain], public: Mapping[str, pa.Table], memory_limit: str
) -> duckdb.DuckDBPyConnection:
    """As `public_database._opened`, with the settings made before the tables."""
    pool = _last.pool = _free[memory_limit]
    over = tuple(domains), dict(public)
    with _choosing:
        same = next((n for n, one in enumerate(pool) if one[1:] == over), None)
        free = pool.pop(same or 0) if pool else None
    found = free.connection if free else _opened(domains, public, memory_limit)
    _last.opened = _Opened(found, *over)
    if free is None or same is not None:
        return found.cursor()
    tables = found.execute("SELECT table_name FROM duckdb_tables() WHERE NOT internal").fetchall()
    for (name,) in tables:
        found.execute(f'DROP TABLE "{name}"')
    for domain in domains:
        for attribute in domain.attributes:
            public_database._create_domain_table(found, domain, attribute)
    for name, table in public.items():
        own = public_database.public_table(name)
        public_database._create(found, own, "SELECT * FROM __table", __table=table)
    return found.cursor()


def use_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(public_database, "Engine", _Engine)
    patch.setattr(public_database, "_opened", _from_pool)
