"""A ledger's answers are about one set of rows: other rows, or a new name, are the custodian's."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import tallyveil
from tallyveil.accountant.store.ledger_records import DataRecord
from tallyveil.errors import LedgerMismatch, PolicyError
from tallyveil.gate import Gate
from tallyveil.policy import parse_policy

AGES = {"age": {"range": [0, 99], "clamp": True}}
COUNT = "SELECT count(*) FROM person WHERE age < 50"


@pytest.fixture
def source(database: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    return database


def fill(source: duckdb.DuckDBPyConnection, query: str) -> None:
    source.execute(f"CREATE OR REPLACE TABLE people AS {query}")


def policy(folder: Path, table: str = "person", **keys: Any) -> Any:
    declared = {"from": "people", "budget": {"epsilon": 3.0}, "attributes": AGES}
    return parse_policy({"tables": {table: declared | keys}}, base=folder)


Ask = Callable[..., Any]


@pytest.fixture
def ask(source: duckdb.DuckDBPyConnection, tmp_path: Path) -> Ask:
    """Opens anew, and asks."""

    def run(sql: str = COUNT, **keys: Any) -> Any:
        with tallyveil.connect(policy(tmp_path, **keys), source=source) as connection:
            return connection.sql(sql).fetchall()

    return run


def test_answers_about_other_rows_are_not_averaged(
    ask: Ask, source: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    fill(source, "SELECT i % 100 AS age FROM range(100) t(i)")
    ask()
    for rows in (10_000, 101, 99):
        fill(source, f"SELECT i % 100 AS age FROM range({rows}) t(i)")
        with pytest.raises(LedgerMismatch, match="other data") as refused:
            ask()
        # Nothing of the rows: how many they are, what they hold, what they were recognised by.
        assert not any(c.isdigit() for c in str(refused.value).replace(str(tmp_path), ""))
        assert "Restore the data" in (refused.value.hint or "")
        assert refused.value.sqlstate == "55000"
    fill(source, "SELECT i % 100 AS age FROM range(100) t(i)")
    ask()


def test_one_record_in_another_cell_is_other_data(
    ask: Ask, source: duckdb.DuckDBPyConnection
) -> None:
    fill(source, "SELECT i % 100 AS age FROM range(100) t(i)")
    ask()
    fill(source, "SELECT greatest(i % 100, 1) AS age FROM range(100) t(i)")
    with pytest.raises(LedgerMismatch, match="other data"):
        ask()


@pytest.mark.parametrize(
    "again",
    [
        "SELECT i % 100 AS age FROM range(1000) t(i)",
        "SELECT 99 - i % 100 AS age FROM range(1000) t(i) ORDER BY hash(i)",
        "SELECT CAST(i % 100 AS VARCHAR) AS age, 'x' AS name FROM range(1000) t(i)",
        "SELECT CASE i % 100 WHEN 99 THEN 150 ELSE i % 100 END AS age FROM range(1000) t(i)",
        "SELECT age FROM '{file}'",
    ],
)
def test_the_same_records_in_another_form_go_on(
    ask: Ask, source: duckdb.DuckDBPyConnection, tmp_path: Path, again: str
) -> None:
    fill(source, "SELECT i % 100 AS age FROM range(1000) t(i)")
    source.execute(f"COPY people TO '{tmp_path / 'p.parquet'}'")
    first = ask()
    fill(source, again.format(file=tmp_path / "p.parquet"))
    assert ask() == first


def test_a_file_that_was_rewritten_with_the_same_records_goes_on(
    source: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    declared = {"budget": {"epsilon": 3.0}, "attributes": AGES}
    keys = {"source": {"url": "person.parquet"}, "tables": {"person": declared}}
    file = tmp_path / "person.parquet"

    def ask() -> Any:
        with tallyveil.connect(parse_policy(keys, base=tmp_path)) as connection:
            return connection.sql(COUNT).fetchall()

    source.execute(f"COPY (SELECT i % 100 AS age FROM range(500) t(i)) TO '{file}'")
    first = ask()
    assert ask() == first
    ordered = "SELECT i % 100 AS age FROM range(500) t(i) ORDER BY age DESC"
    source.execute(f"COPY ({ordered}) TO '{file}' (COMPRESSION zstd)")
    assert ask() == first
    source.execute(f"COPY (SELECT i % 100 AS age FROM range(501) t(i)) TO '{file}'")
    with pytest.raises(LedgerMismatch, match="other data"):
        ask()


UNITS = {"privacy_unit": {"column": "pid", "max_rows": 2}}
PAIRS = "SELECT i % 100 AS age, i // 2 AS pid FROM range(200) t(i)"


def test_people_who_exchange_their_cells_are_other_data(
    ask: Ask, source: duckdb.DuckDBPyConnection
) -> None:
    """Where there is a unit column, the same counts of other units are noticed."""
    for keys, refused in (({}, False), (UNITS, True)):
        table = "persons" if refused else "person"
        count = COUNT.replace("person", table)
        fill(source, PAIRS)
        ask(count, table=table, **keys, beside=["person"])
        fill(
            source,
            f"SELECT age, CASE pid WHEN 3 THEN 4 WHEN 4 THEN 3 ELSE pid END AS pid FROM ({PAIRS})",
        )
        if not refused:
            ask(count)
            continue
        with pytest.raises(LedgerMismatch, match="other data"):
            ask(count, table=table, **keys, beside=["person"])


@pytest.mark.parametrize(
    "again",
    [
        f"FROM ({PAIRS}) ORDER BY hash(age + pid)",
        f"SELECT pid::VARCHAR AS pid, age::SMALLINT AS age FROM ({PAIRS})",
        # Of units that keep all their rows, other columns do not matter.
        f"SELECT *, age * 3 AS height FROM ({PAIRS})",
    ],
)
def test_the_same_units_in_another_form_go_on(
    ask: Ask, source: duckdb.DuckDBPyConnection, again: str
) -> None:
    fill(source, PAIRS)
    first = ask(**UNITS)
    fill(source, again)
    assert ask(**UNITS) == first


def test_of_two_servers_with_other_data_the_second_is_refused(
    source: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    fill(source, "SELECT 1 AS age")
    with closing(Gate(policy(tmp_path), source)):
        fill(source, "SELECT 2 AS age")
        with pytest.raises(LedgerMismatch, match="other data") as refused:
            Gate(policy(tmp_path), source)
        assert "Nothing was charged yet: delete the ledger" in (refused.value.hint or "")


def test_what_data_is_recognised_by_differs_from_ledger_to_ledger(
    source: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    fill(source, "SELECT 1 AS age")
    seen = set()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        with closing(Gate(policy(tmp_path / name), source)) as gate:
            ledger = gate.accountant._ledger
            with ledger.snapshot() as view:
                ((data, _),) = view.after(DataRecord)
            seen |= {data.digest, ledger.key("data"), ledger.key("rows")}
    assert len(seen) == 6


@pytest.mark.parametrize("word", ["append", "live", True])
def test_data_that_is_none_of_the_kinds_is_refused_by_name(tmp_path: Path, word: Any) -> None:
    with pytest.raises(PolicyError, match=r'tables\.person\.data = .*: expected "fixed"'):
        policy(tmp_path, data=word)
    assert policy(tmp_path, data="fixed") == policy(tmp_path)


STATES = {"values": ["AL", "AK", "WY"], "other": True}
BOTH = {"age": AGES["age"], "state": STATES}


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        (
            {"attributes": BOTH | {"age": {"range": [0, 120], "clamp": True}}},
            "tables.person.attributes.age.range: [0, 99] in the ledger, [0, 120] here",
        ),
        (
            {"attributes": BOTH | {"age": {"range": [0, 99]}}},
            "tables.person.attributes.age.clamp: true in the ledger, not given here",
        ),
        (
            {"attributes": BOTH | {"state": STATES | {"values": ["AK", "AL", "WY"]}}},
            'tables.person.attributes.state.values: in another order; the ledger has ["AL", "AK",'
            ' "WY"]',
        ),
        (
            {"attributes": {"state": STATES, **AGES}},
            "tables.person.attributes: in the order age, state in the ledger, state, age here",
        ),
        (
            {"attributes": AGES},
            'tables.person.attributes.state: { values = ["AL", "AK", "WY"], other = "other" }'
            " in the ledger, not given here",
        ),
        (
            {"privacy_unit": {"column": "pid", "max_rows": 2}},
            'tables.person.privacy_unit: "row" in the ledger, { column = "pid", max_rows = 2 }'
            " here",
        ),
        (
            {"neighbours": "replace"},
            'tables.person.neighbours: "add_remove" in the ledger, "replace" here',
        ),
        ({"from": "adults"}, 'tables.person.from: "people" in the ledger, "adults" here'),
    ],
)
def test_a_changed_policy_is_refused_by_the_key_that_changed(
    source: duckdb.DuckDBPyConnection, tmp_path: Path, changed: dict[str, Any], named: str
) -> None:
    fill(source, "SELECT 1 AS age, 'AL' AS state, 7 AS pid")
    source.execute("CREATE TABLE adults AS FROM people")
    keys: dict[str, Any] = {"attributes": BOTH}
    tallyveil.connect(policy(tmp_path, **keys), source=source).close()
    with pytest.raises(LedgerMismatch, match="another declaration") as refused:
        tallyveil.connect(policy(tmp_path, **keys | changed), source=source)
    assert refused.value.detail == named
    tallyveil.connect(policy(tmp_path, **keys, budget={"epsilon": 1}), source=source).close()


def test_of_long_lists_the_refusal_names_what_differs(
    source: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    fill(source, "SELECT 'a' AS word")
    words = [f"word {i}" for i in range(100)]

    def opened(values: list[str]) -> None:
        axes = {"word": {"values": values}}
        tallyveil.connect(policy(tmp_path, attributes=axes), source=source).close()

    opened(words)
    with pytest.raises(LedgerMismatch) as refused:
        opened([*words[1:], "another"])
    assert refused.value.detail == (
        'tables.person.attributes.word.values: only in the ledger: "word 0"; only in the policy:'
        ' "another"'
    )


def test_a_renamed_table_does_not_start_with_a_whole_budget(
    ask: Ask, source: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    fill(source, "SELECT 1 AS age")
    ask()
    again = COUNT.replace("person", "persons")
    with pytest.raises(LedgerMismatch, match=r'charges of table "person".*"persons"') as refused:
        ask(again, table="persons")
    assert 'beside = ["person"] in [tables.persons]' in (refused.value.hint or "")
    with pytest.raises(LedgerMismatch, match="no longer declares"):
        ask(again, table="persons", beside=["people"])
    ask(again, table="persons", beside=["person"])
    # It is known now, and so is the other.
    ask(again, table="persons")
    ask()


@pytest.mark.parametrize(
    "origin",
    [
        "people",
        "  People",
        '"people"',
        "main.people",
        "Memory.Main.PEOPLE",
        "everybody",
        "SELECT * FROM people WHERE age < 18 -- children",
        "WITH visits AS (FROM everybody) SELECT * FROM visits",
    ],
)
def test_a_second_name_for_the_same_rows_does_not_start_with_a_whole_budget(
    ask: Ask, source: duckdb.DuckDBPyConnection, tmp_path: Path, origin: str
) -> None:
    """Else a table would be renamed in two steps: first both names, then the second alone."""
    fill(source, "SELECT 1 AS age")
    source.execute("CREATE VIEW everybody AS FROM people")
    ask()
    one = {"from": "people", "budget": {"epsilon": 3.0}, "attributes": AGES}

    def both(**keys: Any) -> None:
        tables = {"person": one, "persons": one | {"from": origin} | keys}
        made = parse_policy({"tables": tables}, base=tmp_path)
        tallyveil.connect(made, source=source).close()

    with pytest.raises(
        LedgerMismatch, match='same rows of the source as table "person"'
    ) as refused:
        both()
    assert 'beside = ["person"] in [tables.persons]' in (refused.value.hint or "")
    again = COUNT.replace("person", "persons")
    with pytest.raises(LedgerMismatch, match="no longer declares"):
        ask(again, table="persons", **{"from": origin})
    both(beside=["person"])
    both()
    ask(again, table="persons", **{"from": origin})


@pytest.mark.parametrize("kind", ["csv", "data frame"])
def test_a_second_name_for_the_same_file_or_frame_is_one_for_the_same_rows(
    tmp_path: Path, kind: str
) -> None:
    (tmp_path / "people.csv").write_text("age\n1\n")
    source = pa.table({"age": [1]}) if kind == "data frame" else None
    one = {"budget": {"epsilon": 3.0}, "attributes": AGES}

    def asked(**tables: Any) -> None:
        declared = {"source": {"url": "people.csv"}, "tables": tables}
        made = parse_policy(declared, base=tmp_path)
        with tallyveil.connect(made, source=source) as connection:
            connection.sql(COUNT).fetchall()

    asked(person=one)
    with pytest.raises(LedgerMismatch, match='same rows of the source as table "person"'):
        asked(person=one, persons=one)
    asked(person=one, persons=one | {"beside": ["person"]})


def test_two_names_for_the_same_rows_from_the_start_have_a_budget_each(
    source: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    fill(source, "SELECT 1 AS age")
    one = {"from": "people", "budget": {"epsilon": 3.0}, "attributes": AGES}
    made = parse_policy({"tables": {"person": one, "persons": one}}, base=tmp_path)
    for _ in range(2):
        with tallyveil.connect(made, source=source) as connection:
            connection.sql(COUNT).fetchall()


def test_a_table_nothing_was_asked_of_may_be_renamed(
    ask: Ask, source: duckdb.DuckDBPyConnection
) -> None:
    fill(source, "SELECT 1 AS age")
    ask("SELECT 1")
    ask(COUNT.replace("person", "persons"), table="persons")


def test_a_name_the_ledger_knows_without_charges_does_not_start_with_a_whole_budget(
    ask: Ask, source: duckdb.DuckDBPyConnection
) -> None:
    fill(source, "SELECT 1 AS age")
    ask("SELECT 1")
    ask(COUNT.replace("person", "persons"), table="persons")
    with pytest.raises(LedgerMismatch, match=r'charges of table "persons".*none of "person"'):
        ask()
    ask(beside=["persons"])
    ask()


def test_a_table_may_be_added(ask: Ask, source: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    fill(source, "SELECT 1 AS age")
    ask()
    declared = {"from": "people", "budget": {"epsilon": 3.0}, "attributes": AGES}
    source.execute("CREATE TABLE visits AS SELECT 2 AS age")
    other = declared | {"from": "visits"}
    both = parse_policy({"tables": {"person": declared, "visit": other}}, base=tmp_path)
    with closing(Gate(both, source)) as gate:
        assert gate.accountant.balance("visit").spent == 0


@pytest.mark.parametrize("names", ["person", [1], [""], {"person": True}])
def test_beside_is_a_list_of_tables(tmp_path: Path, names: Any) -> None:
    with pytest.raises(
        PolicyError, match=r"tables\.person\.beside = .*: expected a list of tables"
    ):
        policy(tmp_path, beside=names)
