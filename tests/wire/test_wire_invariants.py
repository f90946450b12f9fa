"""Counts that a policy publishes exactly, with a client's eyes."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import psycopg

from tallyveil.gate import Gate
from tallyveil.policy import parse_policy
from tallyveil.proxy import Server, ServerThread
from tests.wire.conftest import House

BY_STATE = "SELECT state, count(*) FROM person GROUP BY state"
EXACT = {"AL": 3000, "AK": 3000, "WY": 3000}


def house(serve: Any) -> House:
    started: House = serve(neighbours="replace", invariants=[{"sql": BY_STATE}])
    return started


def test_they_are_exact_and_free_and_said(serve: Any) -> None:
    """Also of an extended query with a parameter, of a repeated one, and of another client."""
    running = house(serve)
    for _ in range(2):
        with running.connect() as client:
            notices: list[str] = []
            client.add_notice_handler(lambda d, heard=notices: heard.append(d.message_primary))
            for _ in range(2):
                assert dict(client.execute(BY_STATE).fetchall()) == EXACT
                sql = "SELECT count(*) FROM person WHERE state <> %s"
                assert client.execute(sql, ["WY"]).fetchone() == (6000,)
            assert notices[0].startswith("exact, from public facts; free; interval ±0")
            said = [text for text in notices if "agree on the invariants" in text]
            assert len(said) == 1
            assert said[0].endswith("the invariants are exact and have no protection")
            client.execute("SET dp.source = fresh")
            assert dict(client.execute(BY_STATE).fetchall()) == EXACT
            listed = client.execute("SELECT counted, value FROM dp.invariants").fetchall()
            assert dict(listed) == {f"state = '{state}'": n for state, n in EXACT.items()}
            ((text,),) = client.execute("SELECT guarantee FROM dp.budget").fetchall()
            assert said[0] == f"person: {text}"
    assert running.spent() == 0


def test_what_does_not_follow_is_charged_and_known_better(serve: Any) -> None:
    """Of two groups of a known total one is bought, and the other follows from it."""
    running = house(serve)
    ask = "SELECT count(*) FROM person WHERE state = 'AL' AND married"
    with running.connect() as client:
        ((married,),) = client.execute(ask).fetchall()
        spent = running.spent()
        assert spent > 0
        client.execute("SET dp.source = history")
        ((single,),) = client.execute(ask.replace("AND married", "AND NOT married")).fetchall()
        assert married + single == 3000
        assert running.spent() == spent


def test_a_policy_without_them_says_nothing_of_them(serve: Any) -> None:
    running = serve()
    with running.connect() as client:
        notices: list[str] = []
        client.add_notice_handler(lambda d: notices.append(d.message_primary))
        client.execute("SELECT count(*) FROM person")
        assert client.execute("TABLE dp.invariants").fetchall() == []
        assert not [text for text in notices if "invariants" in text]


def test_conditioned_answers_agree_over_the_wire_and_in_another_session(serve: Any) -> None:
    """As integers, in one statement and the next, and for a client that comes later."""
    running = house(serve)
    ask = "SELECT state, married, count(*) FROM person GROUP BY 1, 2 ORDER BY 1, 2"
    with running.connect() as client:
        client.execute("SET dp.mechanism = conditioned")
        rows = client.execute(ask).fetchall()
        spent = running.spent()
        assert spent > 0
    with running.connect() as client:
        client.execute("SET dp.source = history")
        assert client.execute(ask).fetchall() == rows
        for state in EXACT:
            sql = "SELECT count(*) FROM person WHERE state = %s AND married"
            ((married,),) = client.execute(sql, [state]).fetchall()
            ((single,),) = client.execute(sql.replace("AND", "AND NOT"), [state]).fetchall()
            assert married + single == EXACT[state]
            assert (state, True, married) in rows


def test_prefix_sums_at_the_least_error(serve: Any) -> None:
    """Other rows are bought, and what is told agrees with the exact counts, twice."""
    running: House = serve(
        epsilon=1.0,
        budget={"epsilon": 100.0, "delta": 1e-6},
        neighbours="replace",
        invariants=[{"sql": BY_STATE}],
    )
    counts = [f"count(*) FILTER (WHERE age < {age})" for age in range(10, 100, 10)]
    ask = f"SELECT {', '.join(counts)}, count(*) FROM person WHERE state = 'AL'"
    with running.connect() as client:
        client.execute("SET dp.mechanism = optimal")
        assert client.execute("SHOW dp.mechanism").fetchall() == [("optimal",)]
        told = client.execute(ask).fetchall()
        spent = running.spent()
        assert spent > 0
        assert told[0][-1] == 3000
        assert client.execute(ask).fetchall() == told
    with running.connect() as client:
        assert client.execute(ask).fetchall() == told
        assert running.spent() == spent


def test_the_guarantee_said_is_of_the_tables_that_were_asked(
    source: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    """Of each with the first answer about it, also where the answer is repeated from another's."""
    source.execute("CREATE TABLE visits AS SELECT i % 3 AS kind FROM range(90) t(i)")
    tables = {
        name: {
            "from": name,
            "budget": {"epsilon": 3.0},
            "neighbours": "replace",
            "attributes": {attribute: {"range": [0, 115]}},
            "invariants": [{"sql": f"SELECT count(*) FROM {name}"}],
        }
        for name, attribute in (("people", "age"), ("visits", "kind"))
    }
    policy = parse_policy({"tables": tables, "defaults": {"epsilon": 0.1}}, base=tmp_path)
    heard: list[str] = []

    def ask(client: psycopg.Connection[Any], table: str) -> list[str]:
        heard.clear()
        client.execute(f"SELECT count(*) FROM {table}".encode())
        return [text.partition(":")[0] for text in heard if "agree on the invariants" in text]

    with (
        closing(Gate(policy, source)) as gate,
        ServerThread(Server(gate.session, port=0)) as server,
    ):
        for _ in range(2):
            with psycopg.connect(
                f"postgresql://alice@127.0.0.1:{server.port}/db", autocommit=True
            ) as client:
                client.add_notice_handler(lambda d: heard.append(d.message_primary or ""))
                found = [ask(client, name) for name in ("visits", "visits", "people", "people")]
                assert found == [["visits"], [], ["people"], []]
