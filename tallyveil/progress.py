"""How far the reading of a table is, for whoever waits at a terminal; nowhere else it is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import duckdb

__all__ = ["Display", "displayed_by", "reading"]

Follow: TypeAlias = Callable[["duckdb.DuckDBPyConnection"], None]
"""Takes the connection whose statements read the table."""

Display: TypeAlias = Callable[[str], AbstractContextManager[Follow]]
"""Shows that the table of this name is read, until the context is left."""

_DISPLAY: ContextVar[Display | None] = ContextVar("display", default=None)


@contextmanager
def displayed_by(display: Display | None) -> Iterator[None]:
    token = _DISPLAY.set(display)
    try:
        yield
    finally:
        _DISPLAY.reset(token)


@contextmanager
def reading(table: str) -> Iterator[Follow]:
    """Where tables are read together, the first is shown for all."""
    display = _DISPLAY.get()
    if display is None:
        yield lambda connection: None
    else:
        with displayed_by(None), display(table) as follow:
            yield follow
