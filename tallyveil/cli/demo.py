"""`tallyveil demo`: a synthetic table, a server for it, and a tour by a real client."""

from __future__ import annotations

import shlex
import shutil
import signal
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import psycopg
import typer

from tallyveil.cli.demo_data import copy_example, write_people
from tallyveil.cli.error_messages import message_lines
from tallyveil.cli.serving.serving import address_errors, catalog_beside, dsn
from tallyveil.cli.text import aligned
from tallyveil.errors import PolicyError
from tallyveil.gate import Gate, Notice
from tallyveil.policy import CatalogChoice, load_policy
from tallyveil.proxy import Server, ServerThread

__all__ = ["asked", "demo"]

_HOST: Final = "127.0.0.1"
_MARK: Final = ".tallyveil-demo"
_STYLES: Final[dict[str, dict[str, Any]]] = {
    "heading": {"bold": True},
    "sql": {"fg": "cyan"},
    "rows": {},
    "notice": {"fg": "green"},
    "error": {"fg": "red"},
    "remark": {"dim": True},
}

_Connection: TypeAlias = psycopg.Connection[tuple[object, ...]]


class Question(NamedTuple):
    title: str
    sql: str
    remark: str


QUESTIONS = (
    Question(
        "A count",
        "SELECT count(*) FROM person WHERE age >= 65 AND sex = 'F'",
        "The notice shows the cost, the possible error, and the remaining budget.",
    ),
    Question(
        "A GROUP BY, with its intervals",
        "SELECT education, count(*) AS people,\n"
        "       dp_interval_low(people) AS low, dp_interval_high(people) AS high\n"
        "FROM person GROUP BY education ORDER BY people DESC",
        "Everybody has one level of education, so all groups together cost as much as one.\n"
        "Every declared group is reported, empty or not.",
    ),
    Question(
        "The first question, in other words",
        "SELECT count(sex) AS women FROM person WHERE sex IN ('F') AND NOT age < 65",
        "It is the same question, so it has the same answer, and it is free.",
    ),
    Question(
        "A question that is refused",
        "SELECT max(age) FROM person",
        "A single person can determine a maximum. Nothing was charged.",
    ),
    Question(
        "What would it cost?",
        "EXPLAIN SELECT region, count(*) FROM adult JOIN region USING (state) GROUP BY region",
        "EXPLAIN is free. The region of a state is public.",
    ),
    Question(
        "The budget",
        "SELECT table_name, budget, spent, remaining FROM dp.budget",
        "Spent budget does not come back. When none is left, past answers are still free.",
    ),
)


def asked(connection: _Connection, sql: str) -> list[tuple[str, str]]:
    """Return what psql would print: lines, each with its kind, rows, notice or error."""
    notices: list[str] = []

    def note(notice: psycopg.errors.Diagnostic) -> None:
        notices.append(f"NOTICE: {notice.message_primary}")

    connection.add_notice_handler(note)
    try:
        kind, lines = "rows", _answer(connection.execute(sql.encode()))
    except psycopg.DatabaseError as error:
        kind, lines = "error", _refusal(error, sql)
    finally:
        connection.remove_notice_handler(note)
    return [*((kind, line) for line in lines), *(("notice", line) for line in notices)]


def _answer(cursor: psycopg.Cursor[tuple[object, ...]]) -> list[str]:
    """Return the last statement's rows as lines, or its tag."""
    while cursor.nextset():
        pass
    if cursor.description is None:
        return [cursor.statusmessage or ""]
    names = [column.name for column in cursor.description]
    rows = cursor.fetchall()
    return [str(line) for (line,) in rows] if names == ["QUERY PLAN"] else aligned(names, rows)


def _refusal(error: psycopg.DatabaseError, sql: str) -> list[str]:
    diag = error.diag
    position = int(diag.statement_position) if diag.statement_position else None
    notice = Notice(
        diag.message_primary or "", diag.message_detail, diag.message_hint, position=position
    )
    return message_lines(f"ERROR {error.sqlstate}", notice, sql)


def demo(folder: Path, port: int, rows: int, stay: bool | None) -> None:
    """Prepare the folder, serve it, give the tour, and keep serving if ``stay``.

    None means to keep serving on a terminal, where somebody can connect.

    Raises PolicyError for a folder that holds something else, and InvalidParameterValue for a port
    that cannot be opened.
    """
    policy = prepare(folder, rows)
    typer.secho(f"{rows:,} synthetic people in {folder}, protected by {policy}", dim=True)
    stay = stay if stay is not None else sys.stdin.isatty() and sys.stdout.isatty()
    with (
        closing(Gate(load_policy(policy))) as gate,
        catalog_beside(gate, CatalogChoice(enabled=stay)) as catalog,  # the tour needs none
    ):
        server = ServerThread(Server(gate.session, _HOST, port, catalog=catalog))
        with address_errors(_HOST, port):
            server.start()
        with closing(server):
            _tour(server.port)
            if stay:
                _wait(server.port)
    typer.echo(f"Serve it again:  {_program()} serve {shlex.quote(str(policy))}")
    typer.echo(f"See the budget:  {_program()} budget {shlex.quote(str(policy))}")


def prepare(folder: Path, rows: int) -> Path:
    """Write people and policy into ``folder``, remove its ledger, and return the policy's path.

    The demo starts with the whole budget each time, which is fine for people who do not exist.
    It writes only into folders that it created or that are empty, so it never removes a real
    ledger.

    Raises PolicyError for any other folder, and for one that cannot be written.
    """
    mark = folder / _MARK
    try:
        if folder.exists() and not mark.exists() and any(folder.iterdir()):
            raise PolicyError(
                f"{folder} contains files that are not the demo's",
                ["choose an empty folder or one that does not exist: --folder NAME"],
            )
        folder.mkdir(parents=True, exist_ok=True)
        mark.touch()
        policy = copy_example(folder)
        ledger = load_policy(policy).ledger
        for ending in ("", "-journal", "-wal", "-shm"):
            ledger.with_name(ledger.name + ending).unlink(missing_ok=True)
        write_people(folder / "people.parquet", rows)
    except OSError as error:
        raise PolicyError(
            f"the demo cannot write into {folder}: {error.strerror}",
            ["choose another folder: --folder NAME"],
        ) from None
    return policy


def _tour(port: int) -> None:
    with psycopg.connect(
        host=_HOST, port=port, user="analyst", dbname="tallyveil", autocommit=True
    ) as connection:
        version = connection.info.parameter_status("server_version")
        typer.secho(
            f"psycopg {psycopg.__version__} is connected to port {port}; the server\n"
            f"reports PostgreSQL {version} as its version, and answers counts only.\n",
            **_STYLES["heading"],
        )
        for number, question in enumerate(QUESTIONS, 1):
            typer.secho(f"{number}. {question.title}", **_STYLES["heading"])
            lines = [
                *(("sql", line) for line in question.sql.split("\n")),
                *asked(connection, question.sql),
                *(("remark", line) for line in question.remark.split("\n")),
            ]
            for kind, line in lines:
                typer.secho(f"   {line}".rstrip(), **_STYLES[kind])
            typer.echo()


def _wait(port: int) -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    typer.secho(f"Your turn: {dsn(_HOST, port)}", bold=True)
    typer.secho("Serving until Ctrl-C.", dim=True)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        typer.echo()


def _program() -> str:
    """Return the command that starts this program again."""
    called = Path(sys.argv[0])
    typed = called.stem == "tallyveil" and shutil.which("tallyveil") is None
    return str(called) if typed else "tallyveil"
