"""`tallyveil serve` with a catalog, and with one that is not there."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import pytest
from typer.testing import CliRunner

from tallyveil.cli.app import app
from tallyveil.cli.demo_data import copy_example, write_people
from tests.catalog.waiting import SLEEPING, SOON, UNHEEDING, canceled
from tests.programs import FORKING, TALLYVEIL, start
from tests.wire.waiting import until


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return _policy(tmp_path)


def _policy(folder: Path) -> Path:
    write_people(folder / "people.parquet", 1_000)
    return copy_example(folder)


@contextmanager
def serving(policy: Path, *options: str, **variables: str) -> Iterator[str]:
    """The address it listens at; it is ended in order."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", **variables}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    arguments = ("serve", policy, "--port", "0", *options)
    with start(FORKING + TALLYVEIL, *arguments, env=environment, **pipes) as process:
        assert process.stdout is not None
        try:
            found = re.search(r"psql '?(postgresql://[^'\s]+)", process.stdout.readline())
            assert found is not None
            yield found[1]
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        finally:
            process.kill()


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Two of them, with a catalog."""
    policy = _policy(tmp_path_factory.mktemp("workers"))
    with serving(policy, "--workers", "2") as address:
        yield address


def test_all_workers_tell_the_same(workers: str) -> None:
    """Clients keep the numbers of types and tables from one connection for the next."""
    query = "SELECT oid, pg_backend_pid() FROM pg_class WHERE relname = 'person'"
    with ExitStack() as open_:
        found = [
            open_.enter_context(psycopg.connect(workers, user="alice", autocommit=True))
            for _ in range(4)
        ]
        rows = [connection.execute(query).fetchone() for connection in found]
    assert len({row[0] for row in rows if row is not None}) == 1
    assert len({row[1] for row in rows if row is not None}) > 1


def test_all_workers_have_the_databases_of_the_same_names(workers: str) -> None:
    """The first eight, whichever worker was asked: the second time around it is the other one."""
    names = [f"other{number}" for number in range(12)]
    with ExitStack() as open_:

        def ask(name: str) -> object:
            one = psycopg.connect(workers, user="alice", dbname=name, autocommit=True)
            open_.enter_context(one)
            return one.execute("SELECT current_database() FROM pg_class LIMIT 1").fetchone()

        first = [ask(name) for name in names]
        ask("tallyveil")
        assert [ask(name) for name in names] == first
        assert 5 < len(set(first)) <= 9


def test_a_cancel_reaches_the_worker_whose_question_it_is(workers: str) -> None:
    with ExitStack() as stack, ThreadPoolExecutor(5) as beside:
        five = [
            stack.enter_context(psycopg.connect(workers, user="alice", autocommit=True))
            for _ in range(5)
        ]
        running = [beside.submit(one.execute, SLEEPING) for one in five]
        for one, each in zip(five, running, strict=True):
            for _ in range(int(SOON)):  # a cancel that comes before its question is lost
                one.cancel_safe()
                if wait([each], 1.0).done:
                    break
            canceled(each)


def test_a_folder_without_the_programs_is_refused_at_the_start(policy: Path) -> None:
    done = CliRunner().invoke(
        app, ["serve", str(policy), "--port", "0", "--catalog", str(policy.parent)]
    )
    assert done.exit_code in (1, 2)
    assert f"there is no initdb in {policy.parent}" in done.stderr


def test_serve_answers_and_leaves_nothing_where_it_ends_though_a_statement_still_runs(
    policy: Path,
) -> None:
    query = "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attname = 'age'"
    searching = (
        "SELECT FROM pg_stat_activity WHERE usename = 'alice' AND pid <> pg_backend_pid() "
        "AND backend_start < clock_timestamp() - INTERVAL '1 second'"
    )
    with tempfile.TemporaryDirectory(prefix="tv", dir="/tmp") as folder:
        os.chmod(folder, 0o777)  # root's runs as nobody
        with ThreadPoolExecutor(1) as beside:
            with serving(policy, TMPDIR=folder) as address:
                running = beside.submit(_ask, address, UNHEEDING)
                with psycopg.connect(address, user="alice", autocommit=True) as connection:
                    assert ("integer",) in connection.execute(query).fetchall()
                    until(lambda: connection.execute(searching).fetchall() != [])
                assert not running.done()
            assert isinstance(running.result(), psycopg.Error)
        assert os.listdir(folder) == []


def _ask(address: str, statement: str) -> psycopg.Error | None:
    try:
        with psycopg.connect(address, user="alice", autocommit=True) as connection:
            connection.execute(statement)
    except psycopg.Error as error:
        return error
    return None
