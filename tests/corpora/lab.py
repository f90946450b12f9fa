"""Statements by their seed, asked of tallyveil and of a database on the same rows.

There are two data sets under one policy, one of them empty. What is refused is to be refused on
both in the same words; what is answered is to be what the database answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import psycopg

from tallyveil.errors import TallyveilError
from tallyveil.proxy import Server, ServerThread
from tallyveil.rewriter import Dialect
from tests.corpora.compare import same_rows
from tests.corpora.draw import Draw, shrink
from tests.corpora.house import House, Rows, Silent, create, draw_rows, fill, policy, said
from tests.corpora.queries import Statement, statement
from tests.corpora.refusals import refusal

__all__ = ["Case", "Lab", "case"]

_Answer = tuple[list[str], list[tuple[Any, ...]]]


@dataclass(frozen=True)
class Case:
    """``refused`` says that it must be; ``numbers`` are what it was drawn from."""

    statement: Statement
    dialect: Dialect
    refused: bool
    numbers: tuple[int, ...]


def case(seed: int, size: int, numbers: Sequence[int] | None = None) -> Case:
    """The case of a seed: every fourth in PostgreSQL's dialect, one in six to be refused."""
    dialect: Dialect = "postgres" if seed % 4 == 3 else "duckdb"
    draw = Draw(seed, numbers)
    if draw.rarely(6):
        return Case(Statement(refusal(draw)), dialect, True, tuple(draw.made))
    return Case(statement(draw, size, dialect), dialect, False, tuple(draw.made))


class _Side:
    """A data set: a gate and a server over it, and the databases that are the oracle."""

    def __init__(self, rows: Rows, base: Path, postgres: str) -> None:
        self._stack = ExitStack()
        with duckdb.connect() as source:
            fill(source, create(rows, edges=False, division="//"))
            self.house = House(policy(base), source)
        self._stack.callback(self.house.close)
        self._raw = self._stack.enter_context(duckdb.connect())
        self._raw.execute("SET TimeZone = 'UTC'")
        fill(self._raw, create(rows, edges=True, division="//"))
        server = ServerThread(Server(self.house.gate.session, port=0))
        server.start()
        self._stack.callback(server.close)
        self._wire = self._stack.enter_context(
            psycopg.connect(
                f"postgresql://alice@127.0.0.1:{server.port}/db",
                autocommit=True,
                options=f"-cdp.mechanism={Silent.name}",
            )
        )
        self._oracle = self._stack.enter_context(psycopg.connect(postgres, autocommit=True))
        self._fill_oracle(rows)

    def _fill_oracle(self, rows: Rows) -> None:
        """The rows in a schema that ends with the connection."""
        self._oracle.execute("SET TimeZone = 'UTC'")
        for sql, values in create(rows, edges=True, division="/"):
            made = sql.replace("CREATE TABLE", "CREATE TEMPORARY TABLE")
            made = made.replace("CREATE VIEW", "CREATE TEMPORARY VIEW").replace("?", "%s")
            if values:
                self._oracle.cursor().executemany(made, values)
            else:
                self._oracle.execute(made)

    def ours(self, sql: str, dialect: Dialect) -> _Answer | tuple[Any, ...]:
        """The answer, or all that the refusal says."""
        try:
            if dialect == "duckdb":
                return self.house.answer(sql, dialect)
            cursor = self._wire.execute(sql)
            names = [column.name for column in cursor.description or ()]
            return names, cursor.fetchall() if cursor.description else []
        except TallyveilError as error:
            return said(error)
        except psycopg.Error as error:
            diag = error.diag
            position = diag.statement_position
            return (
                error.sqlstate, diag.message_primary, diag.message_detail, diag.message_hint,
                int(position) if position else None,
            )  # fmt: skip
        except Exception as error:  # noqa: BLE001  what escapes in process is an internal error
            return ("XX000", repr(error), None, None, None)

    def use(self, source: str) -> None:
        self.house.sessions["duckdb"].set("dp.source", source)
        self._wire.execute(f"SET dp.source = {source}".encode())

    def theirs(self, sql: str, dialect: Dialect) -> _Answer:
        cursor: Any
        if dialect == "duckdb":
            cursor = self._raw.execute(sql)
            return [column[0] for column in cursor.description], cursor.fetchall()
        cursor = self._oracle.execute(sql)
        return [column.name for column in cursor.description], cursor.fetchall()

    def close(self) -> None:
        self._stack.close()


class Lab:
    """``postgres`` is the address of a PostgreSQL to compare with."""

    def __init__(self, base: Path, postgres: str) -> None:
        self._base = base
        self._postgres = postgres
        self._number = 0
        self._sides: list[_Side] = []

    def renew(self) -> None:
        """Begin with ledgers of their own, so that long runs do not fill the memory."""
        self.close()
        self._number += 1
        sides = (("full", draw_rows(7, 300)), ("empty", {"person": [], "visit": []}))
        for name, rows in sides:
            folder = self._base / f"{name}{self._number}"
            folder.mkdir()
            self._sides.append(_Side(rows, folder, self._postgres))

    def use(self, source: str) -> None:
        """Answers come from history too, or are fresh."""
        for side in self._sides:
            side.use(source)

    def verdict(self, found: Case, *, both: bool = True) -> tuple[str, str]:
        """One of "answered", "refused" and what is wrong, and a few words about it.

        Unless ``both``, what is answered is asked of the full data set only.
        """
        sql, dialect = found.statement.sql, found.dialect
        first = self._sides[0].ours(sql, dialect)
        if len(first) != 2:
            other = self._sides[1].ours(sql, dialect)
            if other != first:
                return "refused otherwise without data", f"{first}\n{other}"
            internal = first[0] == "XX000"
            return ("crashed" if internal else "refused"), f"{first[0]} {first[1]}"
        if found.refused:
            return "answered what tells too much", str(first)
        wrong = self._compare(self._sides[0], found, first)
        if both and wrong is None:
            wrong = self._compare(self._sides[1], found, self._sides[1].ours(sql, dialect))
        return wrong or ("answered", "")

    def _compare(
        self, side: _Side, found: Case, ours: _Answer | tuple[Any, ...]
    ) -> tuple[str, str] | None:
        asked = found.statement
        if len(ours) != 2:
            return "refused because of data", str(ours)
        try:
            names, rows = side.theirs(asked.sql, found.dialect)
        except (duckdb.Error, psycopg.Error) as error:
            return "answered what the database refuses", f"{ours}\n{error}"
        if asked.counted:
            ours = ours[0], [row for row in ours[1] if row[-1] != 0]
            rows = [row for row in rows if row[-1] != 0]
        if not same_rows(ours[1], rows, ordered=asked.ordered):
            return "differs", f"ours   {ours[1][:9]}\ntheirs {rows[:9]}"
        # DuckDB names what has no name by its own way of writing it.
        if any(b.isidentifier() and a != b for a, b in zip(ours[0], names, strict=True)):
            return "named otherwise", f"ours   {ours[0]}\ntheirs {names}"
        return None

    def explain(self, seed: int, size: int, wrong: str) -> str:
        """The statement, and the smallest found that is wrong in the same way."""
        found = case(seed, size)
        tries = iter(range(400))

        def fails(numbers: Sequence[int]) -> bool:
            with suppress(StopIteration):
                next(tries)
                return self.verdict(case(seed, size, numbers))[0] == wrong
            return False

        small = case(seed, size, shrink(found.numbers, fails))
        told = self.verdict(small)[1]
        return (
            f"{wrong}: make fuzz-sql SEED={seed} SIZE={size} STATEMENTS=1 ({found.dialect})\n"
            f"{found.statement.sql}\nor shorter:\n{small.statement.sql}\n{told}"
        )

    def close(self) -> None:
        for side in self._sides:
            side.close()
        self._sides = []
