"""DECLARE, FETCH, MOVE and CLOSE: PostgreSQL's answers, one by one, and one charge."""

from __future__ import annotations

import asyncio
from itertools import product
from typing import Any

import asyncpg
import psycopg
import pytest

from tallyveil.proxy.protocol import messages as m
from tests.proxy.raw_client import RawClient
from tests.wire.dialogue import differences

COUNT = "SELECT state, count(*) FROM person GROUP BY state ORDER BY state"
ROWS = "SELECT * FROM (VALUES (1, 'a'), (2, 'b'), (3, NULL), (4, 'd'), (5, 'e')) t(n, s)"
NONE = "SELECT 1 AS n WHERE false"

MOVES = [
    "c", "FROM c", "IN c", "NEXT c", "NEXT FROM c", "PRIOR c", "FIRST c", "LAST c", "ALL c",
    "2 c", "0 c", "-1 c", "-2 IN c", "+1 c", "100 c", "-100 c",
    "ABSOLUTE 2 c", "ABSOLUTE 0 c", "ABSOLUTE -2 FROM c", "ABSOLUTE 9 c", "ABSOLUTE -9 c",
    "RELATIVE 2 c", "RELATIVE 0 c", "RELATIVE -2 c", "RELATIVE 9 c",
    "FORWARD c", "FORWARD 2 c", "FORWARD 0 c", "FORWARD -1 c", "FORWARD ALL c",
    "BACKWARD c", "BACKWARD 2 c", "BACKWARD 0 c", "BACKWARD -2 c", "BACKWARD ALL IN c",
]  # fmt: skip
STARTS = ["MOVE 0 c", "MOVE 2 c", "MOVE 5 c", "MOVE ALL c"]

TALKS: list[list[str]] = [
    *(
        ["BEGIN", f"DECLARE c {scroll} CURSOR FOR {query}", start, f"{verb} {move}",
         "MOVE RELATIVE 0 c", "FETCH NEXT c", "ROLLBACK"]
        for scroll, query in [("SCROLL", ROWS), ("NO SCROLL", ROWS), ("SCROLL", NONE)]
        for start, verb, move in product(STARTS, ("FETCH", "MOVE"), MOVES)
        # Where it stands matters to what scrolls; the others have all moves, and two places.
        if (verb == "FETCH" and (query, scroll) == (ROWS, "SCROLL"))
        or (verb == "FETCH" and start in STARTS[: 2 if query == ROWS else 1])
        or (start == "MOVE 2 c" and query == ROWS)
    ),
    [f"DECLARE c CURSOR FOR {ROWS}"],
    [f"DECLARE c CURSOR WITH HOLD FOR {ROWS}", "FETCH 2 c", "FETCH c", "CLOSE c", "FETCH c"],
    ["BEGIN", f"DECLARE c CURSOR WITH HOLD FOR {ROWS}", "FETCH c", "COMMIT", "FETCH c", "CLOSE c"],
    ["BEGIN", f"DECLARE c CURSOR WITH HOLD FOR {ROWS}", "ROLLBACK", "FETCH c"],
    [f"DECLARE c CURSOR WITH HOLD FOR {ROWS}", "BEGIN", "FETCH c", "ROLLBACK", "FETCH c"],
    [f"DECLARE c CURSOR WITH HOLD FOR {ROWS}", "BEGIN", "CLOSE c", "ROLLBACK", "FETCH c"],
    ["BEGIN", f"DECLARE c CURSOR WITHOUT HOLD FOR {ROWS}", "COMMIT", "FETCH c"],
    ["BEGIN", f"DECLARE c CURSOR FOR {ROWS}", f"DECLARE c CURSOR FOR {ROWS}", "ROLLBACK"],
    ["BEGIN", f"DECLARE C CURSOR FOR {ROWS}", "FETCH c", 'FETCH "C"', "ROLLBACK"],
    ["BEGIN", f'DECLARE "C d" CURSOR FOR {ROWS}', 'FETCH 1 "C d"', 'CLOSE "C d"', "ROLLBACK"],
    ["BEGIN", f"DECLARE forward CURSOR FOR {ROWS}", "FETCH forward", "FETCH 1 forward", "COMMIT"],
    ["BEGIN", "FETCH c", "ROLLBACK", "MOVE c", "CLOSE c", "CLOSE ALL"],
    ["BEGIN", f"DECLARE a CURSOR FOR {ROWS}", f"DECLARE b CURSOR FOR {ROWS}", "CLOSE ALL",
     "FETCH a", "ROLLBACK"],
    ["BEGIN", f"DECLARE c NO SCROLL CURSOR FOR {ROWS}", "SAVEPOINT s", "FETCH BACKWARD c",
     "ROLLBACK TO s", "FETCH c", "ROLLBACK"],
    ["BEGIN", f"DECLARE c CURSOR FOR {ROWS}", "SAVEPOINT s", "FETCH 2 c", "ROLLBACK TO s",
     "FETCH c", "COMMIT"],
    ["BEGIN", "SAVEPOINT s", f"DECLARE c CURSOR FOR {ROWS}", "ROLLBACK TO s", "FETCH c",
     "ROLLBACK"],
    ["BEGIN", "SAVEPOINT s", f"DECLARE c CURSOR FOR {ROWS}", "RELEASE s", "FETCH c", "COMMIT"],
    ["BEGIN", "SAVEPOINT s", "SAVEPOINT t", f"DECLARE c CURSOR FOR {ROWS}", "RELEASE t",
     "FETCH c", "ROLLBACK TO s", "FETCH c", "ROLLBACK"],
    ["BEGIN", "SAVEPOINT s", f"DECLARE c CURSOR WITH HOLD FOR {ROWS}", "?", "ROLLBACK TO s",
     "FETCH c", "COMMIT"],
    ["BEGIN", f"DECLARE c CURSOR FOR {ROWS}", "?", "FETCH c", "ROLLBACK"],
    [f"DECLARE c CURSOR FOR {ROWS}; FETCH 2 c; CLOSE c"],
    [f"BEGIN; DECLARE c CURSOR FOR {ROWS}; FETCH 2 c", "FETCH c", "COMMIT"],
    [f"DECLARE c CURSOR FOR {ROWS}; FETCH 2 c", "FETCH c"],
    ["BEGIN", f"DECLARE c BINARY CURSOR FOR {ROWS}", "FETCH c", "COMMIT"],
    ["BEGIN", f"DECLARE c INSENSITIVE NO SCROLL CURSOR FOR {ROWS}", "FETCH c", "COMMIT"],
    [f"DECLARE c SCROLL NO SCROLL CURSOR WITH HOLD FOR {ROWS}"],
    [f"DECLARE c INSENSITIVE ASENSITIVE CURSOR WITH HOLD FOR {ROWS}"],
    ["DECLARE c CURSOR WITH HOLD FOR SELECT no_such FROM (SELECT 1) t(a)", "FETCH c"],
    ["BEGIN", f"DECLARE c CURSOR FOR {ROWS}", "FETCH ABSOLUTE c", "ROLLBACK"],
    ["FETCH 99999999999 c", "FETCH 1.5 c", "FETCH c d", "FETCH", "CLOSE", "MOVE FORWARD ALL"],
    ["DECLARE c CURSOR", "DECLARE CURSOR FOR SELECT 1", "DECLARE c CURSOR FOR"],
    ["BEGIN", "DISCARD ALL", "ROLLBACK"],
    [f"DECLARE c CURSOR WITH HOLD FOR {ROWS}", "DISCARD ALL", "FETCH c"],
]  # fmt: skip


def test_cursors_are_postgresqls(free_house: Any, postgres: psycopg.Connection[Any]) -> None:
    with free_house.connect() as connection:
        assert differences(connection, postgres, TALKS) == []


def test_a_cursor_is_charged_once_at_declare(house: Any) -> None:
    with house.connect() as connection, connection.transaction():
        connection.execute(f"DECLARE c SCROLL CURSOR FOR {COUNT}")
        assert house.spent() == 0.05
        first = connection.execute("FETCH ALL FROM c").fetchall()
        again = connection.execute("FETCH BACKWARD ALL FROM c").fetchall()
        moved = connection.execute("MOVE LAST c").statusmessage
    assert (moved, again, len(first)) == ("MOVE 1", first[::-1], 3)
    assert house.spent() == 0.05


def test_the_settings_at_declare_hold(house: Any) -> None:
    with house.connect() as connection, connection.transaction():
        connection.execute("SET LOCAL dp.epsilon = 0.25")
        connection.execute(f"DECLARE c CURSOR FOR {COUNT}")
        connection.execute("SET LOCAL dp.epsilon = 0.5")
        connection.execute("FETCH c")
    assert house.spent() == 0.25


def test_declare_that_is_refused_or_described_is_free(house: Any) -> None:
    with house.connect() as connection:
        for statement in (
            f"DECLARE c CURSOR FOR {COUNT}",
            "DECLARE c CURSOR WITH HOLD FOR SELECT * FROM person",
            "DECLARE c CURSOR WITH HOLD FOR DELETE FROM person",
        ):
            with pytest.raises(psycopg.Error):
                connection.execute(statement)
    with RawClient(house.port) as client:
        client.start()
        client.send(m.Parse("d", f"DECLARE c CURSOR WITH HOLD FOR {COUNT}".encode()))
        client.send(m.Describe("S", "d"), m.Sync())
        assert [kind for kind, _ in client.until("Z")] == ["1", "t", "n", "Z"]
    assert house.spent() == 0


def test_psycopgs_named_cursors(house: Any) -> None:
    """By pages, in binary, with parameters, scrolling, and held over the transaction."""
    asked = "SELECT age, count(*) FROM person WHERE state = %s AND age < %s GROUP BY 1 ORDER BY 1"
    with psycopg.connect(house.dsn) as connection:
        with connection.cursor("named", scrollable=True) as cursor:
            cursor.itersize = 3
            cursor.execute(asked, ("AL", 10))
            rows = list(cursor)
            cursor.scroll(0, mode="absolute")
            assert cursor.fetchmany(4) == rows[:4]
        with connection.cursor("other", binary=True, withhold=True) as held:
            held.execute(asked, ("AL", 10))
            assert [column.name for column in held.description or ()] == ["age", "count"]
            connection.commit()
            assert held.fetchall() == rows
    assert len(rows) == 10
    assert house.spent() == 0.05


def test_asyncpgs_cursors(house: Any) -> None:
    async def ask() -> None:
        connection = await asyncpg.connect(house.dsn)
        async with connection.transaction():
            cursor = await connection.cursor(COUNT)
            first = await cursor.fetchrow()
            assert await cursor.forward(1) == 1
            last = await cursor.fetch(5)
            assert [row["state"] for row in (first, *last)] == ["AK", "WY"]
            rows = [row["state"] async for row in connection.cursor(COUNT, prefetch=2)]
        assert rows == ["AK", "AL", "WY"]
        await connection.close()

    asyncio.run(ask())
    assert house.spent() == 0.05


def test_what_a_cursor_holds_is_counted_and_given_back(free_house: Any) -> None:
    numbers = ", ".join(f"({n})" for n in range(80))
    many, room = f"(VALUES {numbers})", f"'{'a text that takes some room' * 40}'"
    large = f"SELECT a.n, b.n AS m, {room} AS a, {room} AS b FROM {many} a(n), {many} b(n)"
    with free_house.connect() as connection:
        for hold in ("", "WITH HOLD"):
            declared = "; ".join(f"DECLARE c{n} CURSOR {hold} FOR {large}" for n in range(12))
            with pytest.raises(psycopg.Error) as refused:
                connection.execute(declared)
            assert refused.value.sqlstate == "54000"
        connection.execute(f"DECLARE c CURSOR WITH HOLD FOR {large}")
        assert connection.execute("MOVE ALL c").statusmessage == "MOVE 6400"
