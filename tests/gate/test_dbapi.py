"""DB-API 2.0 (PEP 249) in process: what the PEP requires, by the driver's own statements."""

from __future__ import annotations

import datetime as dt
import inspect
import time
from typing import Any

import psycopg
import pytest

import tallyveil
import tallyveil.errors
from tests.gate.asking import Connect

ABSTRACT = [
    tallyveil.Warning, tallyveil.Error, tallyveil.InterfaceError, tallyveil.DatabaseError,
    tallyveil.DataError, tallyveil.OperationalError, tallyveil.IntegrityError,
    tallyveil.InternalError, tallyveil.ProgrammingError, tallyveil.NotSupportedError,
]  # fmt: skip
QUERY = "SELECT state, count(*) AS n FROM person GROUP BY state ORDER BY state"


def test_the_errors_are_a_tree_at_the_module_and_at_the_connection(connect: Connect) -> None:
    connection = connect()
    for kind in ABSTRACT:
        name = "Error" if kind is tallyveil.Error else kind.__name__
        assert getattr(connection, name) is kind
    assert issubclass(tallyveil.InterfaceError, tallyveil.Error)
    assert issubclass(tallyveil.DatabaseError, tallyveil.Error)
    assert all(issubclass(kind, tallyveil.DatabaseError) for kind in ABSTRACT[4:])
    assert not issubclass(tallyveil.Warning, tallyveil.Error)


def test_each_error_has_the_kind_that_psycopg_has_for_its_sqlstate() -> None:
    names = [kind.__name__ for kind in ABSTRACT[4:]]
    found = [
        kind
        for _, kind in inspect.getmembers(tallyveil.errors, inspect.isclass)
        if issubclass(kind, tallyveil.Error) and kind.__module__ == tallyveil.errors.__name__
    ]
    assert len(found) > 35
    for kind in found:
        if kind is tallyveil.StatementError:
            continue  # only its subclasses are raised
        theirs = psycopg.errors.lookup(kind.sqlstate)
        expected = [n for n in names if issubclass(theirs, getattr(psycopg, n))]
        assert [n for n in names if issubclass(kind, getattr(tallyveil, n))] == expected, kind


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("SELEC 1", tallyveil.ProgrammingError),
        ("SELECT count(*) FROM nowhere", tallyveil.ProgrammingError),
        ("SELECT * FROM person", tallyveil.NotSupportedError),
        ("INSERT INTO person VALUES (1)", tallyveil.NotSupportedError),
        ("SELECT 1 // CAST('a' AS INTEGER)", tallyveil.DataError),
        ("SET dp.epsilon = 3; ", None),
        ("SELECT count(*) FROM person", tallyveil.OperationalError),  # beyond the budget
    ],
)
def test_an_error_is_of_its_kind(connect: Connect, sql: str, kind: Any) -> None:
    connection = connect()
    connection.execute("SET dp.epsilon = 3")
    if kind is None:
        connection.execute(sql)
        return
    with pytest.raises(kind):
        connection.execute(sql)


def test_types_equal_those_of_columns(connect: Connect) -> None:
    cursor = connect().execute(
        "SELECT 'a' AS s, 1 AS i, 2.5 AS d, DATE '2020-01-01' AS day, TIME '10:00' AS t,"
        " TIMESTAMP '2020-01-01' AS at, true AS b"
    )
    assert cursor.description is not None
    assert all(len(column) == 7 for column in cursor.description)
    kinds = [
        [n for n in ("STRING", "BINARY", "NUMBER", "DATETIME", "ROWID")
         if column[1] == getattr(tallyveil, n)]
        for column in cursor.description
    ]  # fmt: skip
    assert kinds == [["STRING"], ["NUMBER"], ["NUMBER"], *[["DATETIME"]] * 3, []]
    assert tallyveil.STRING != tallyveil.NUMBER
    assert tallyveil.STRING == tallyveil.STRING


def test_constructors_make_values_for_parameters(connect: Connect) -> None:
    ticks = time.mktime((2002, 12, 25, 13, 45, 30, 0, 0, -1))
    day, clock = dt.date(2002, 12, 25), dt.time(13, 45, 30)
    made = [
        (tallyveil.Date(2002, 12, 25), tallyveil.DateFromTicks(ticks), day),
        (tallyveil.Time(13, 45, 30), tallyveil.TimeFromTicks(ticks), clock),
        (
            tallyveil.Timestamp(2002, 12, 25, 13, 45, 30),
            tallyveil.TimestampFromTicks(ticks),
            dt.datetime.combine(day, clock),
        ),
    ]
    connection = connect()
    for first, second, expected in made:
        assert first == second == expected
        sql = f"SELECT CAST(? AS {type(expected).__name__.replace('datetime', 'timestamp')})"
        assert connection.execute(sql, [first]).fetchone() == (expected,)
    assert tallyveil.Binary(b"abc") == b"abc"


def test_a_cursor_fetches_as_the_pep_says(connect: Connect) -> None:
    connection = connect()
    cursor = connection.cursor()
    assert (cursor.description, cursor.rowcount, cursor.arraysize) == (None, -1, 1)
    for fetch in (cursor.fetchone, cursor.fetchall, cursor.fetchmany):
        with pytest.raises(tallyveil.Error):
            fetch()
    rows = cursor.execute(QUERY).fetchall()
    assert len(rows) == cursor.rowcount == 5
    assert cursor.fetchall() == cursor.fetchmany() == cursor.fetchmany(3) == []
    assert cursor.fetchone() is None
    cursor.execute(QUERY)
    mixed = [cursor.fetchone(), *cursor.fetchmany(2), *cursor.fetchmany(), *cursor.fetchall()]
    assert mixed == rows
    cursor.execute(QUERY)
    cursor.arraysize = 4
    assert [len(cursor.fetchmany()) for _ in range(3)] == [4, 1, 0]
    assert list(cursor.execute(QUERY)) == rows
    assert cursor.execute(f"SELECT * FROM ({QUERY}) WHERE false").fetchone() is None
    assert cursor.rowcount == 0
    cursor.execute("SET dp.notices = off")
    assert (cursor.description, cursor.rowcount) == (None, -1)
    with pytest.raises(tallyveil.Error):
        cursor.fetchone()
    assert cursor.execute("SELECT NULL").fetchone() == (None,)
    cursor.executemany(f"{QUERY} LIMIT ?", [(1,), (2,)])
    assert cursor.fetchall() == rows[:2]
    cursor.setinputsizes((25,))
    cursor.setoutputsize(1000)
    cursor.setoutputsize(2000, 0)
    # Cursors of one connection see what the others did.
    assert connection.cursor().execute("SHOW dp.notices").fetchone() == ("off",)


def test_a_text_is_no_parameter_whatever_it_holds(connect: Connect) -> None:
    text = "thi%s :may ca%(u)se? troub:1e $x"
    found = connect().execute(f"SELECT ?, '{text}'", ["Cooper's"]).fetchall()
    assert found == [("Cooper's", text)]
    found = connect().execute(f"SELECT $beer, '{text}'", {"beer": "Cooper's"}).fetchall()
    assert found == [("Cooper's", text)]


@pytest.mark.parametrize("given", [3, "3", b"3", None])
def test_parameters_are_values_in_a_list_or_by_name(connect: Connect, given: Any) -> None:
    for ask in (connect().execute, connect().sql):
        with pytest.raises(tallyveil.Error, match=f"given as {type(given).__name__}"):
            ask("SELECT count(*) FROM person WHERE age > $1", given)


def test_a_closed_connection_closes_its_cursors(connect: Connect) -> None:
    connection = connect()
    cursor = connection.cursor()
    connection.commit()
    connection.rollback()
    connection.close()
    for use in (lambda: cursor.execute(QUERY), cursor.fetchone, connection.commit):
        with pytest.raises(tallyveil.Error):
            use()
