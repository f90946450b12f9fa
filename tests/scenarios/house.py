"""Where a scenario takes place: a gate over a small table, and sessions with it, in this process or
over a socket."""

from __future__ import annotations

import functools
import json
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

import duckdb
import psycopg

import tallyveil
from tallyveil.gate import Gate
from tallyveil.proxy import Server, ServerThread, Trust
from tests.gate.many_sessions import PATIENCE
from tests.scenarios.comparison import Shown, agrees
from tests.scenarios.noise import injected
from tests.scenarios.scenario import Problem, Scenario, Step

__all__ = ["Different", "play"]

_WORLDS = tomllib.loads(Path(__file__).with_name("worlds.toml").read_text(encoding="utf-8"))
_OF_RUNNER = ("world", "records", "noise", "dialect", "only", "sources")
_OF_POLICY = ("defaults", "analysts", "tables", "source", "views", "public")


class Different(AssertionError):
    """A step shows something else than is expected."""

    def __init__(self, step: Step, found: Sequence[str]) -> None:
        caret = [" " * (step.caret - 1) + "^"] if step.caret and "\n" not in step.text else []
        super().__init__("\n".join([f"line {step.line}:", step.text, *caret, *found]))


class _Session(Protocol):
    def show(self, sql: str, values: Sequence[Any] | None) -> Shown: ...

    def close(self) -> None: ...


class _InProcess:
    def __init__(self, gate: Gate, user: str) -> None:
        self._connection = tallyveil.Connection(gate, user)

    def show(self, sql: str, values: Sequence[Any] | None) -> Shown:
        try:
            cursor = self._connection.execute(sql, values or ())
        except tallyveil.Error as error:
            return Shown(error=_problem(error))
        notices = [
            Problem(
                one.severity, _line(one.message), one.sqlstate, _line(one.detail), _line(one.hint)
            )
            for one in cursor.notices
        ]
        return Shown(None if cursor.description is None else cursor.fetchall(), None, notices)

    def close(self) -> None:
        self._connection.close()


class _OverTheWire:
    def __init__(self, port: int, user: str) -> None:
        self._notices: list[Problem] = []
        self._connection = psycopg.connect(
            host="127.0.0.1", port=port, user=user, dbname="people", autocommit=True,
            cursor_factory=psycopg.RawCursor,
        )  # fmt: skip
        self._connection.add_notice_handler(lambda said: self._notices.append(_said(said)))

    def show(self, sql: str, values: Sequence[Any] | None) -> Shown:
        self._notices.clear()
        try:
            cursor = self._connection.execute(sql.encode(), values)
        except psycopg.Error as error:
            return Shown(None, _said(error.diag), list(self._notices))
        rows = cursor.fetchall() if cursor.description is not None else None
        return Shown(rows, None, list(self._notices))

    def close(self) -> None:
        self._connection.close()


def _problem(error: Any) -> Problem:
    said = (error.detail, error.hint)
    position = getattr(error, "position", None)
    return Problem("ERROR", _line(error.message), error.sqlstate, *map(_line, said), position)


def _said(diagnostic: psycopg.errors.Diagnostic) -> Problem:
    return Problem(
        diagnostic.severity or "",
        _line(diagnostic.message_primary),
        diagnostic.sqlstate,
        _line(diagnostic.message_detail),
        _line(diagnostic.message_hint),
        int(diagnostic.statement_position) if diagnostic.statement_position else None,
    )


def _line(text: str | None) -> str:
    return " ".join((text or "").split())


@functools.cache
def _source(statements: tuple[str, ...]) -> duckdb.DuckDBPyConnection:
    """The scenarios of a run share it, since they only read."""
    connection = duckdb.connect()
    for statement in statements:
        connection.execute(statement)
    return connection


class _House:
    """What is open: the gate and, by user, the sessions; the last one is gone on with."""

    def __init__(self, declared: dict[str, Any], folder: Path, wire: bool) -> None:
        self._declared, self._folder, self._wire = declared, folder, wire
        self._open = ExitStack()
        self._gate: Gate | None = None
        self._port = 0
        self._sessions: dict[str, _Session] = {}
        self._name = "analyst"

    def restart(self, declared: dict[str, Any]) -> Shown:
        self.close()
        self._declared = self._declared | declared
        return self.connect("analyst")

    def connect(self, name: str) -> Shown:
        self._name = name
        try:
            self._session()
        except (tallyveil.Error, psycopg.Error) as error:
            return Shown(error=_problem(error) if isinstance(error, tallyveil.Error) else None)
        return Shown()

    def show(self, sql: str, values: Sequence[Any] | None) -> Shown:
        return self._session().show(sql, values)

    def _session(self) -> _Session:
        gate, user = self._opened(), self._name.split()[0]
        if self._name not in self._sessions:
            self._sessions[self._name] = (
                _OverTheWire(self._port, user) if self._wire else _InProcess(gate, user)
            )
        return self._sessions[self._name]

    def _opened(self) -> Gate:
        if self._gate is None:
            source, policy = _policy(self._declared, self._folder)
            gate = Gate(policy, source, time_limit=PATIENCE)
            self._open.callback(gate.close)
            if self._wire:
                server = Server(gate.session, port=0, auth=Trust())
                self._port = self._open.enter_context(ServerThread(server)).port
            self._gate = gate
        return self._gate

    def spent(self, table: str = "") -> Fraction:
        gate = self._opened()
        return gate.accountant.balance(table or next(iter(gate.policy.tables))).spent

    def close(self) -> None:
        for session in self._sessions.values():
            session.close()
        self._sessions, self._gate = {}, None
        self._open.close()


def _policy(declared: dict[str, Any], folder: Path) -> tuple[duckdb.DuckDBPyConnection, Any]:
    world = _WORLDS[declared.get("world", "people")]
    records = declared.get("records", world["records"])
    statements = (f"CREATE TABLE people AS {records}", *declared.get("sources", ()))
    ours = {key: value for key, value in declared.items() if key in _OF_POLICY}
    table = {k: v for k, v in declared.items() if k not in (*_OF_RUNNER, *_OF_POLICY)}
    tables = {world["table"]: world["declared"] | table} | ours.pop("tables", {})
    keys = {"tables": tables, "defaults": world["defaults"]} | ours
    return _source(statements), tallyveil.parse_policy(keys, base=folder)


@contextmanager
def _house(scenario: Scenario, folder: Path, wire: bool) -> Iterator[_House]:
    house = _House(scenario.declared, folder, wire)
    try:
        if scenario.declared.get("noise") == "drawn":
            yield house
        else:
            with injected(scenario.declared.get("noise", [])):
                yield house
    finally:
        house.close()


def play(scenario: Scenario, folder: Path, wire: bool) -> None:
    """Raises `Different`."""
    values = None
    with _house(scenario, folder, wire) as house:
        for step in scenario.steps:
            command, _, rest = step.text.partition(" ")
            if command == "\\bind":
                values = json.loads(rest)
                continue
            before = house.spent() if not command.startswith("\\") else None
            match command:
                case "\\connect":
                    shown = house.connect(rest)
                case "\\restart":
                    shown = house.restart(step.declared)
                case _:
                    shown = house.show(step.text, values)
            values = None
            if not agrees(step, shown):
                raise Different(step, shown.lines())
            if step.spent is not None:
                spent = house.spent(step.spent[0])
                if not abs(spent - Fraction(step.spent[1])) <= Fraction(1, 10**6):
                    raise Different(step, [*shown.lines(), f" SPENT {float(spent)}"])
            elif before is not None and (step.free or step.error) and house.spent() != before:
                raise Different(step, [*shown.lines(), f" SPENT {float(house.spent())}"])
