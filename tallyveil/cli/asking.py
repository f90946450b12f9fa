"""`tallyveil sql` and `tallyveil explain`: a gate in this process, opened for some statements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from tallyveil.cli.text import aligned, plain, print_json
from tallyveil.errors import FeatureNotSupported, StatementError
from tallyveil.gate import Gate, GateSession, Notice, Result
from tallyveil.policy import load_policy
from tallyveil.proxy.inprocess import login_name
from tallyveil.rewriter import Dialect

__all__ = ["ask", "explain", "opened"]

_PREFIX = "EXPLAIN "


def ask(
    path: Path,
    query: str,
    dialect: Dialect,
    analyst: str | None,
    settings: Mapping[str, str | None],
    *,
    json: bool,
) -> None:
    """Execute the statements of ``query`` and print each result.

    ``analyst`` is the operating system's user unless given. With ``json``, one object per
    statement and line: columns, types, rows, and notices with all their fields.
    """
    with opened(path, dialect, analyst, settings) as session:
        for statement in session.parse(query):
            if statement.kind != "empty":
                result = session.execute(statement)
                if json:
                    print_json(_document(result))
                else:
                    typer.echo(_as_text(result))
                    _say(result.notices)


def explain(
    path: Path,
    query: str,
    dialect: Dialect,
    analyst: str | None,
    settings: Mapping[str, str | None],
    *,
    json: bool,
) -> None:
    """Print the lines of EXPLAIN, or with ``json`` an object with them under ``plan``."""
    with opened(path, dialect, analyst, settings) as session:
        try:
            lines = _plan(session, query)
        except StatementError as error:
            if error.position is not None:
                error.position = max(1, error.position - len(_PREFIX))
            raise
    if json:
        print_json({"plan": lines})
    else:
        typer.echo("\n".join(lines))


def _plan(session: GateSession, query: str) -> list[str]:
    lines: list[str] = []
    for statement in session.parse(_PREFIX + query):
        if statement.kind != "explain":
            # The first statement got the prefix; what follows it must not run.
            raise FeatureNotSupported("explain takes one query", hint="Explain them one by one.")
        lines += [str(row[0]) for row in session.execute(statement).rows]
    return lines


@contextmanager
def opened(
    path: Path, dialect: Dialect, analyst: str | None, settings: Mapping[str, str | None]
) -> Iterator[GateSession]:
    """A session with these settings, of a gate that is closed behind it."""
    with (
        closing(Gate(load_policy(path))) as gate,
        closing(_open(gate, dialect, analyst)) as session,
    ):
        for name, value in settings.items():
            if value is not None:
                session.set(name, value)
        yield session


def _open(gate: Gate, dialect: Dialect, analyst: str | None) -> GateSession:
    return gate.session(login_name() if analyst is None else analyst, "tallyveil", dialect)


def _as_text(result: Result) -> str:
    if result.columns is None:
        return result.tag
    return "\n".join(aligned([column.name for column in result.columns], result.rows))


def _document(result: Result) -> dict[str, Any]:
    columns = result.columns or ()
    return {
        "tag": result.tag,
        "columns": [column.name for column in columns],
        "types": [column.type for column in columns],
        "rows": [[plain(value) for value in row] for row in result.rows],
        "notices": [asdict(notice) for notice in result.notices],
    }


def _say(notices: tuple[Notice, ...]) -> None:
    for notice in notices:
        typer.echo(f"{notice.severity}: {notice.message}", err=True)
        if notice.detail:
            typer.echo(f"DETAIL: {notice.detail}", err=True)
        if notice.hint:
            typer.echo(f"HINT: {notice.hint}", err=True)
