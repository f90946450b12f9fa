"""A gate that knows a handful of statements, remembers what it ran, and can be slow."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from tallyveil import deadline
from tallyveil.deadline import Deadline
from tallyveil.errors import (
    BudgetExceeded,
    FeatureNotSupported,
    SQLSyntaxError,
    UndefinedSetting,
    UndefinedTable,
)
from tallyveil.gate.interface import (
    ColumnType,
    Notice,
    Receive,
    Result,
    Statement,
    StatementDescription,
    StatementKind,
)

REPORTED = (
    "server_version",
    "client_encoding",
    "DateStyle",
    "TimeZone",
    "standard_conforming_strings",
    "integer_datetimes",
    "application_name",
)

_FIRST_WORDS: dict[str, tuple[StatementKind, str]] = {
    "select": ("select", "SELECT"),
    "set": ("set", "SET"),
    "reset": ("set", "RESET"),
    "discard": ("set", "DISCARD ALL"),
    "show": ("show", "SHOW"),
    "begin": ("begin", "BEGIN"),
    "commit": ("commit", "COMMIT"),
    "rollback": ("rollback", "ROLLBACK"),
    "savepoint": ("savepoint", "SAVEPOINT"),
    "release": ("savepoint", "RELEASE"),
    "close": ("close", "CLOSE CURSOR ALL"),
    "unlisten": ("no_op", "UNLISTEN"),
    "deallocate": ("deallocate", "DEALLOCATE"),
}


class FakeSession:
    """See `tallyveil.gate.session.GateSession`."""

    def __init__(self, user: str = "alice", database: str = "demo") -> None:
        self.user = user
        self.database = database
        self.executed: list[str] = []
        self.described: list[str] = []
        self.closed = threading.Event()
        self.started = threading.Event()
        self.stopped = threading.Event()
        self.position = 0
        self.values = {
            "server_version": "18.0",
            "server_encoding": "UTF8",
            "client_encoding": "UTF8",
            "datestyle": "ISO, MDY",
            "timezone": "UTC",
            "standard_conforming_strings": "on",
            "integer_datetimes": "on",
            "application_name": "",
            "transaction_isolation": "read committed",
            "transaction isolation level": "read committed",
            "dp.epsilon": "0.05",
            "jit": "off",
            "extra_float_digits": "1",
        }

    @property
    def settings(self) -> FakeSession:
        return self

    def connected(self, pid: int) -> None: ...

    def limited(self, cancelled: Callable[[], bool]) -> AbstractContextManager[object]:
        return Deadline(cancelled=cancelled).entered()

    def parse(self, sql: str, aside: Any = None) -> tuple[Statement, ...]:
        statements = []
        for match in re.finditer(r"[^;]+", sql):
            text = match[0].strip()
            if not text:
                continue
            offset = match.start() + len(match[0]) - len(match[0].lstrip())
            statements.append(self._statement(text, offset))
        return tuple(statements)

    def _statement(self, text: str, offset: int) -> Statement:
        first, *rest = text.lower().split()
        if first not in _FIRST_WORDS:
            raise SQLSyntaxError(f'syntax error at or near "{first}"', position=offset + 1)
        kind, tag = _FIRST_WORDS[first]
        if first == "rollback" and rest[:1] == ["to"]:
            kind = "rollback_to"
        named = kind in ("savepoint", "rollback_to", "deallocate", "close")
        target = text.split()[-1].strip('"') if named and rest else None
        if target in ("all", "ALL"):
            target, tag = None, f"{tag} ALL" if kind == "deallocate" else tag
        count = max((int(n) for n in re.findall(r"\$(\d+)", text)), default=0)
        return Statement(text, kind, tag, count, target, offset=offset)

    def describe(
        self, statement: Statement, parameter_types: Sequence[str | None] = ()
    ) -> StatementDescription:
        self.described.append(statement.sql)
        sql = statement.sql.lower()
        cast = re.search(r"\$1::(\w+(?:\[\])?)", sql)
        default = "BIGINT" if "$1 + 1" in sql else cast[1].upper() if cast else "VARCHAR"
        types = list(parameter_types) + [None] * statement.parameter_count
        found = tuple(t or default for t in types[: statement.parameter_count])
        if statement.kind in ("set", "no_op"):
            return StatementDescription(found, None)
        return StatementDescription(found, self._columns(statement, found))

    def _columns(self, statement: Statement, types: Sequence[str]) -> tuple[ColumnType, ...]:
        sql = statement.sql.lower()
        if statement.kind == "show":
            return (ColumnType(sql.split(maxsplit=1)[1], "VARCHAR"),)
        if "$1 + 1" in sql or re.search(r"series|wait|select \d|notices|fail|crash", sql):
            return (ColumnType("n", "INTEGER" if sql == "select 1" else "BIGINT"),)
        if match := re.search(r"\$1::(\w+(?:\[\])?)", sql):
            return (ColumnType("value", match[1].upper()),)
        if "$" in sql:
            return tuple(ColumnType(f"value{i}", t) for i, t in enumerate(types, 1))
        if re.search(r"wide|fickle|unlock_all", sql):
            return (ColumnType("text", "VARCHAR"),)
        if "struct" in sql:
            return (ColumnType("s", "STRUCT(a INTEGER)"),)
        if "nothing" in sql:
            return ()
        raise UndefinedTable(
            'relation "x" does not exist', hint="Ask for sample.", position=statement.offset + 1
        )

    def execute(
        self,
        statement: Statement,
        parameters: Sequence[Any] = (),
        *,
        parameter_types: Sequence[str | None] = (),
        receive: Receive | None = None,
    ) -> Result:
        self.executed.append(statement.sql)
        if statement.kind == "set":
            return self._set(statement)
        if statement.kind == "no_op":
            return Result(None, (), statement.tag)
        columns = self.describe(statement).columns
        self.described.pop()
        sql = statement.sql.lower()
        if sql == "select fickle":
            columns = (ColumnType("text", "BIGINT"),)
        if "$" in sql and not re.search(r"\$1 \+|::", sql):
            columns = tuple(
                ColumnType(f"value{i}", self._type_of(v)) for i, v in enumerate(parameters, 1)
            )
        rows = self._rows(sql, parameters)
        notices: tuple[Notice, ...] = ()
        if "notices" in sql:
            notices = (
                Notice("cost 0.05", detail="of 3.0", hint="ask again, free"),
                Notice("careful", sqlstate="01000", severity="WARNING"),
            )
        tag = "SHOW" if statement.kind == "show" else f"SELECT {len(rows)}"
        return Result(columns, rows, tag, notices, "repeatable" in sql)

    @staticmethod
    def _type_of(value: Any) -> str:
        return {int: "BIGINT", float: "DOUBLE", bool: "BOOLEAN"}.get(type(value), "VARCHAR")

    def _set(self, statement: Statement) -> Result:
        match = re.fullmatch(r"set (\S+?)\s*(?:=|to)\s*'?(.*?)'?", statement.sql, re.IGNORECASE)
        if match:
            self.set(match[1], match[2])
        return Result(None, (), statement.tag)

    def _rows(self, sql: str, parameters: Sequence[Any]) -> Sequence[tuple[Any, ...]]:
        if "fail" in sql:
            raise BudgetExceeded("budget exhausted", requested=1.0, remaining=0.5, hint="history")
        if "crash" in sql:
            raise RuntimeError("the confidential count is 4711")
        if "wait" in sql:
            return self._wait()
        if match := re.search(r"(series|wide)\((\d+)\)", sql):
            numbers = range(int(match[2]))
            return [(i,) if match[1] == "series" else ("x" * 1000,) for i in numbers]
        if "$1 + 1" in sql:
            return [(parameters[0] + 1,)]
        if "$" in sql:
            return [tuple(parameters)]
        return [(self._scalar(sql),)]

    def _scalar(self, sql: str) -> Any:
        if sql.startswith("show "):
            return self.show(sql.split(maxsplit=1)[1])
        if match := re.match(r"select (\d+)", sql):
            return int(match[1])
        return 1 if "fickle" in sql or "notices" in sql else None

    def _wait(self) -> Sequence[tuple[Any, ...]]:
        """Until cancelled; a test that never does so fails by its own timeout."""
        self.started.set()
        try:
            for _ in range(3000):
                deadline.check()
                threading.Event().wait(0.01)
        finally:
            self.stopped.set()
        return [(0,)]

    def begin(self, modes: Mapping[str, str]) -> None:
        """A block has no settings here."""

    def end(self) -> None:
        """Nothing is local to a transaction."""

    def snapshot(self) -> object:
        return dict(self.values)

    def restore(self, snapshot: object) -> None:
        assert isinstance(snapshot, dict)
        self.values = dict(snapshot)

    def set(self, name: str, value: str) -> None:
        if name.lower() not in self.values:
            raise UndefinedSetting(f'unrecognized configuration parameter "{name}"')
        if name.lower() == "client_encoding":
            value = "UTF8"
        self.values[name.lower()] = value

    def show(self, name: str) -> str:
        if name.lower() not in self.values:
            raise UndefinedSetting(f'unrecognized configuration parameter "{name}"')
        return self.values[name.lower()]

    def standing(self) -> tuple[Hashable, Hashable] | None:
        return (self.user, *self.values.items()), self.position

    def reportable(self) -> dict[str, str]:
        return {name: self.values[name.lower()] for name in REPORTED}

    def wanted(self, notices: tuple[Notice, ...]) -> tuple[Notice, ...]:
        return notices

    def close(self) -> None:
        self.closed.set()


class Sessions:
    """A session factory that keeps what it made; database ``closed`` is refused."""

    def __init__(self) -> None:
        self.all: list[FakeSession] = []

    def __call__(self, user: str, database: str) -> FakeSession:
        if database == "closed":
            raise FeatureNotSupported("this database is closed")
        session = FakeSession(user, database)
        self.all.append(session)
        return session

    @property
    def last(self) -> FakeSession:
        return self.all[-1]
