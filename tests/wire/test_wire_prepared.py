"""PREPARE, EXECUTE and DEALLOCATE: PostgreSQL's answers, one by one, and what they cost."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tallyveil.proxy.protocol import messages as m
from tests.proxy.raw_client import RawClient
from tests.wire.dialogue import differences

TALKS: list[list[str]] = [
    ["PREPARE p AS SELECT 1", "EXECUTE p", "EXECUTE p", "DEALLOCATE p", "EXECUTE p"],
    ["PREPARE p (int, text) AS SELECT $1 + 1 AS n, $2 || 'x' AS s", "EXECUTE p (1, 'a')",
     "EXECUTE p(-7, 'it''s')", "EXECUTE p(2 + 3, NULL)", "EXECUTE p('4', upper('b'))"],
    ["PREPARE p (int[]) AS SELECT 2 = ANY($1) AS found", "EXECUTE p('{1,2}')",
     "EXECUTE p(ARRAY[3, 4])"],
    ["PREPARE p (date, numeric, float8, boolean) AS SELECT $1, $2, $3, $4",
     "EXECUTE p(date '2024-02-29', 1.50, 1e3, true)", "EXECUTE p('2024-03-01', '2', 3, 'off')"],
    ["PREPARE p (timestamp) AS SELECT $1", "EXECUTE p('2024-02-29 12:00:00.5')"],
    ["PREPARE p (double precision, character varying) AS SELECT $1, $2", "EXECUTE p(1, 2)"],
    ["PREPARE p (unknown) AS SELECT $1::int + 1 AS n", "EXECUTE p('41')"],
    ["PREPARE p AS SELECT $1::int + 1 AS n", "EXECUTE p(41)"],
    ["PREPARE p AS SELECT 1", "PREPARE p AS SELECT 2", "EXECUTE p"],
    ["PREPARE p (int) AS SELECT $1 AS n", "EXECUTE p", "EXECUTE p(1, 2)", "EXECUTE p('x')",
     "EXECUTE p(1)"],
    ["PREPARE p (int) AS SELECT $1 AS n", "EXECUTE p((SELECT 1))", "EXECUTE p(nothing)"],
    ["EXECUTE nothing", "DEALLOCATE nothing", "DEALLOCATE PREPARE nothing", "DEALLOCATE ALL"],
    ['PREPARE "P q" AS SELECT 1', 'EXECUTE "P q"', 'DEALLOCATE "P q"'],
    ["PREPARE p AS SELECT no_such FROM (SELECT 1) t(a)", "EXECUTE p"],
    ["PREPARE p (no_such_type) AS SELECT 1"],
    ["BEGIN", "PREPARE p AS SELECT 1", "ROLLBACK", "EXECUTE p"],
    ["BEGIN", "?", "PREPARE p AS SELECT 1", "EXECUTE p", "DEALLOCATE ALL", "ROLLBACK"],
    ["PREPARE p AS SELECT 1; EXECUTE p; DEALLOCATE p"],
    ["PREPARE", "PREPARE p", "PREPARE p AS", "PREPARE p () AS SELECT 1", "EXECUTE", "EXECUTE p (",
     "EXECUTE p ()", "EXECUTE p (1,)", "DEALLOCATE", "EXECUTE p q"],
    ["PREPARE PÄ AS SELECT 1", "EXECUTE pä", "EXECUTE PÄ", 'EXECUTE "pÄ"'],
    ["SET client_min_messages = warning", f"PREPARE {64 * 'p'} AS SELECT 1",
     f"EXECUTE {63 * 'p'}", f"EXECUTE {65 * 'p'}",
     f"PREPARE {40 * 'ä'} AS SELECT 2", f"EXECUTE {31 * 'ä'}"],
    ["PREPARE p AS SELECT * FROM (VALUES (1, 'a'), (2, 'b')) t(n, s)", "EXECUTE p"],
]  # fmt: skip


def test_prepared_statements_are_postgresqls(
    free_house: Any, postgres: psycopg.Connection[Any]
) -> None:
    with free_house.connect() as connection:
        assert differences(connection, postgres, TALKS) == []


def test_only_execute_is_charged(house: Any) -> None:
    with house.connect() as connection:
        connection.execute(
            "PREPARE p (int, text) AS SELECT count(*) FROM person WHERE age = $1 AND state = $2"
        )
        assert house.spent() == 0
        for refused in ("EXECUTE p((SELECT count(*) FROM person), 'AL')", "EXECUTE p(1)"):
            with pytest.raises(psycopg.Error):
                connection.execute(refused)
        assert house.spent() == 0
        first = connection.execute("EXECUTE p(30, 'AL')").fetchall()
        assert house.spent() == 0.05
        assert connection.execute("EXECUTE p(30, 'AL')").fetchall() == first
        asked = "SELECT count(*) FROM person WHERE age = 30 AND state = 'AL'"
        assert connection.execute(asked).fetchall() == first
    assert house.spent() == 0.05


def test_sql_and_the_protocol_share_their_names(free_house: Any) -> None:
    with RawClient(free_house.port) as client:
        client.start()
        client.ask("PREPARE s (int) AS SELECT $1 + 1 AS n")
        client.send(m.Bind("", "s", (), (b"41",), ()), m.Describe("P", ""), m.Execute(""), m.Sync())
        answer = client.until("Z")
        assert [kind for kind, _ in answer] == ["2", "T", "D", "C", "Z"]
        assert answer[2] == ("D", [b"42"])
        client.send(m.Parse("t", b"SELECT $1::int + 2 AS n", ()), m.Sync())
        client.until("Z")
        assert ("D", [b"42"]) in client.ask("EXECUTE t(40)")
        client.send(m.Parse("e", b"EXECUTE t(1)", ()), m.Describe("S", "e"), m.Sync())
        described = client.until("Z")
        assert [kind for kind, _ in described] == ["1", "t", "T", "Z"]
        client.send(m.Bind("", "e", (), (), (1,)), m.Execute(""), m.Sync())
        assert client.until("Z")[1] == ("D", [b"\0\0\0\3"])
        client.send(m.Parse("self", b"EXECUTE self", ()), m.Sync())
        client.until("Z")
        assert "E" in [kind for kind, _ in client.ask("EXECUTE self")]
