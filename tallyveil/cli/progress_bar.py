"""A bar on standard error while tables are read, where that takes long and is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

from tallyveil.progress import Display

if TYPE_CHECKING:
    import duckdb

__all__ = ["progress_bar"]

_PATIENCE: Final = 2.0
_INTERVAL: Final = 0.1


def progress_bar(*, json: bool) -> Display | None:
    """None for a program that reads what is printed."""
    return None if json or not sys.stderr.isatty() else _bar


@contextmanager
def _bar(table: str) -> Iterator[Callable[[duckdb.DuckDBPyConnection], None]]:
    followed: list[duckdb.DuckDBPyConnection] = []
    done = Event()

    def follow(connection: duckdb.DuckDBPyConnection) -> None:
        connection.execute("SET enable_progress_bar_print = false")
        connection.execute("SET enable_progress_bar = true")
        followed.append(connection)

    thread = Thread(target=_show, args=(table, followed, done), daemon=True)
    thread.start()
    try:
        yield follow
    finally:
        done.set()
        thread.join()


def _show(table: str, followed: list[duckdb.DuckDBPyConnection], done: Event) -> None:
    if done.wait(_PATIENCE):
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), *Progress.get_default_columns()[:-1], TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, redirect_stdout=False) as bar:
        task = bar.add_task(f"reading {table}", total=None)
        while not done.wait(_INTERVAL):
            percent = followed[-1].query_progress() if followed else -1.0
            if percent >= 0:  # it is unknown of what another library streams
                bar.update(task, total=100, completed=percent)
