"""psql's commands about the catalogs, with the real psql."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

from bench.postgres import program
from tallyveil.gate import Gate
from tallyveil.policy import parse_policy
from tallyveil.proxy import Server, ServerThread
from tests.catalog.conftest import PASSWORD
from tests.proxy.scram_users import with_passwords


@pytest.fixture(scope="module")
def plain(catalogued: Any) -> Iterator[str]:
    """The address of a server with the same catalog, without TLS: the psql of a wheel has none.
    tests/clients/test_clients_programs.py connects psql over TLS."""
    auth = with_passwords({"alice": PASSWORD})
    server = Server(catalogued.gate.session, port=0, auth=auth, catalog=catalogued.catalog)
    with ServerThread(server) as running:
        password = PASSWORD.replace(" ", "%20")
        yield f"postgresql://alice:{password}@127.0.0.1:{running.port}/tallyveil"


def psql(address: str, *commands: str) -> str:
    """What it prints; nothing may fail."""
    settings = ("-X", "-v", "ON_ERROR_STOP=1", "-P", "pager=off")
    asked = [part for command in commands for part in ("-c", command)]
    done = subprocess.run(
        [program("psql"), address, *settings, *asked],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (r"\d", ["public | by_city  | view  | tallyveil", "public | patients | table | tallyveil"]),
        (r"\dt", ["public | patients | table", "public | towns    | table"]),
        (r"\dt dp.*", ["dp     | attributes", "dp     | budget"]),
        (r"\dv", ["public | adults  | view", "public | by_city | view"]),
        (r"\dn", ["dp     | tallyveil", "public |"]),
        (r"\du", ["alice", "Superuser, Create role"]),
        (r"\df", ["(0 rows)"]),
        (r"\l", ["tallyveil | tallyveil | UTF8"]),
        (r"\conninfo", ['as user "alice"', 'on host "127.0.0.1"']),
        (r"\dp patients", ["analyst=r/tallyveil"]),
        (r"\d+ by_city", ["View definition:", "FROM patients"]),
        (
            r"\d patients",
            [
                " city      | text    |           | not null",
                " sex       | text    |           |          ",
            ],
        ),
        (r"\d towns", ["millions | numeric(2,1)"]),
        (r"\dx", ["plpgsql"]),
        (r"\sv by_city", ["CREATE OR REPLACE VIEW public.by_city AS"]),
    ],
)
def test_a_command_shows_what_the_policy_declares(
    plain: str, command: str, shown: list[str]
) -> None:
    said = psql(plain, command)
    for text in shown:
        assert text in said


def test_comments_say_what_each_attribute_may_hold(plain: str) -> None:
    said = psql(plain, r"\d+ patients")
    assert "Berlin, Paris, Rome, elsewhere; others as elsewhere" in said
    assert "0 to 115; others clamped" in said
    assert "bins [0, 100, 1000, 10000); others left out" in said
    assert "protected: counts and sums are answered" in psql(plain, r"\dt+ patients")


def test_the_comment_of_numbers_beside_others_speaks_sql(tmp_path: Path) -> None:
    """Other numbers than those declared have no name."""
    county = {"range": [1, 12], "other": True}
    table = {"budget": {"epsilon": 1.0}, "attributes": {"county": county}}
    with (
        duckdb.connect(":memory:").execute("CREATE TABLE person AS SELECT 5 AS county") as source,
        closing(Gate(parse_policy({"tables": {"person": table}}, base=tmp_path), source)) as gate,
    ):
        person = next(one for one in gate.session().relations() if one.name == "person")
    assert person.columns[0].comment == "1 to 12; others as NULL"


def test_the_comment_of_a_table_says_that_not_all_rows_are_counted(tmp_path: Path) -> None:
    table = {
        "budget": {"epsilon": 1.0},
        "privacy_unit": {"column": "pid", "max_rows": 3},
        "attributes": {"county": {"range": [1, 12]}},
    }
    query = "CREATE TABLE person AS SELECT 5 AS county, 1 AS pid"
    with (
        duckdb.connect(":memory:").execute(query) as source,
        closing(Gate(parse_policy({"tables": {"person": table}}, base=tmp_path), source)) as gate,
    ):
        comments = {relation.name: relation.comment for relation in gate.session().relations()}
    assert comments["person"] == (
        "protected: counts and sums are answered; at most 3 rows of each pid are counted, and"
        " totals are too low where one has more"
    )


def test_looking_costs_nothing(catalogued: Any, plain: str) -> None:
    spent = catalogued.spent()
    psql(plain, r"\d+ patients", r"\dt+", r"\l+", r"\dp")
    assert catalogued.spent() == spent
