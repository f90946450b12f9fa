"""The demo's questions, asked through psycopg over TCP, with their answers and their costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import psycopg

from tallyveil.cli.error_messages import laid_out
from tallyveil.cli.text import aligned

__all__ = ["QUESTIONS", "Question", "tour"]


@dataclass(frozen=True)
class Question:
    title: str
    sql: str
    remark: str


QUESTIONS = (
    Question(
        "A count",
        "SELECT count(*) FROM person WHERE age >= 65 AND sex = 'F'",
        "The notice says what it cost, how far off it may be, and what remains.",
    ),
    Question(
        "A GROUP BY, with its intervals",
        "SELECT education, count(*) AS people,\n"
        "       dp_interval_low(people) AS low, dp_interval_high(people) AS high\n"
        "FROM person GROUP BY education ORDER BY people DESC",
        "Everybody has one level of education: all groups together cost what one does.\n"
        "Every declared group is there, empty or not.",
    ),
    Question(
        "Two counts by FILTER, in one state",
        "SELECT count(*) FILTER (WHERE income >= 60000) AS upper,\n"
        "       count(*) FILTER (WHERE income < 15000) AS lower\n"
        "FROM person WHERE state = 'CA'",
        "Nobody is in both: one charge.",
    ),
    Question(
        "The same, in another state",
        "SELECT count(*) FILTER (WHERE income >= 60000) AS upper,\n"
        "       count(*) FILTER (WHERE income < 15000) AS lower\n"
        "FROM person WHERE state = 'NY'",
        "Other people pay for it, so what remains is what remained before.",
    ),
    Question(
        "The first question, in other words",
        "SELECT count(sex) AS women FROM person WHERE sex IN ('F') AND NOT age < 65",
        "It is the same question, so it has the same answer, and it is free.",
    ),
    Question(
        "A join with a public table, and a total",
        "SELECT region, count(*) AS adults\n"
        "FROM adult JOIN region USING (state) GROUP BY ROLLUP (region) ORDER BY region",
        "Which region a state is in is no secret. The total is summed up from the regions.",
    ),
    Question(
        "A question that is refused",
        "SELECT max(income) FROM person",
        "One person decides a maximum. Nothing was charged.",
    ),
    Question(
        "What would it cost?",
        "EXPLAIN SELECT state, count(*) FROM person WHERE age < 18 GROUP BY state",
        "EXPLAIN is free.",
    ),
    Question(
        "The budget",
        "SELECT table_name, budget, spent, remaining FROM dp.budget",
        "What is spent stays spent. Once nothing is left, what was answered is still free.",
    ),
)


def tour(
    connection: psycopg.Connection[tuple[object, ...]],
    write: Callable[[str, str], None],
    questions: tuple[Question, ...] = QUESTIONS,
) -> None:
    """Ask the questions in order. ``write(kind, line)`` gets every line; kind is heading, sql,
    rows, notice, error or remark.
    """
    notices: list[str] = []
    connection.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
    for number, question in enumerate(questions, 1):
        write("heading", f"{number}. {question.title}")
        _lines(write, "sql", question.sql.split("\n"))
        notices.clear()
        try:
            cursor = connection.execute(question.sql.encode())
        except psycopg.DatabaseError as error:
            _lines(write, "error", _refusal(error, question.sql))
        else:
            _lines(write, "rows", _answer(cursor))
        _lines(write, "notice", [f"NOTICE: {notice}" for notice in notices])
        _lines(write, "remark", question.remark.split("\n"))
        write("remark", "")


def _lines(write: Callable[[str, str], None], kind: str, lines: list[str]) -> None:
    for line in lines:
        write(kind, line)


def _answer(cursor: psycopg.Cursor[tuple[object, ...]]) -> list[str]:
    """The last statement's rows, or its tag."""
    while cursor.nextset():
        pass
    if cursor.description is None:
        return [cursor.statusmessage or ""]
    names = [column.name for column in cursor.description]
    rows = cursor.fetchall()
    if names == ["QUERY PLAN"]:
        return [str(line) for (line,) in rows]
    return aligned(names, rows)


def _refusal(error: psycopg.DatabaseError, sql: str) -> list[str]:
    said = error.diag
    position = int(said.statement_position) if said.statement_position else None
    return laid_out(
        error.sqlstate or "",
        said.message_primary or "",
        detail=said.message_detail,
        hint=said.message_hint,
        pointed=(sql, position),
    )
