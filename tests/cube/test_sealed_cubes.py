"""Counts that are kept: a restart needs no source, and nobody else's file is taken."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tallyveil
from tallyveil.errors import (
    InvalidParameterValue,
    LedgerError,
    LedgerMismatch,
    OutputError,
    SourceError,
)

ROWS = (
    "SELECT i % 3 AS a, CASE WHEN i % 7 > 0 THEN i % 5 END AS b, i // 2 AS pid FROM range(900) t(i)"
)


def policy(folder: Path, **keys: Any) -> tallyveil.Policy:
    attributes: dict[str, Any] = {
        "a": {"range": [0, 2]},
        "b": {"range": [0, 4], "nullable": True},
    }
    table = {"budget": {"epsilon": 1_000_000}, "attributes": attributes, "from": "people", **keys}
    document = {
        "source": {"url": "people.parquet"},
        "ledger": "people.ledger.sqlite",
        "cubes": "kept",
        "tables": {"person": table},
    }
    return tallyveil.parse_policy(document, base=folder)


def write(folder: Path, sql: str = ROWS) -> None:
    duckdb.sql(f"COPY ({sql}) TO '{folder / 'people.parquet'}'")


def counts(given: tallyveil.Policy) -> list[tuple[Any, ...]]:
    with tallyveil.connect(given) as connection:
        connection.execute("SET dp.epsilon = 1000")
        sql = "SELECT a, b, count(*) FROM person GROUP BY a, b ORDER BY a, b NULLS LAST"
        return connection.execute(sql).fetchall()


@pytest.mark.parametrize("unit", ["row", {"column": "pid", "max_rows": 1}])
def test_a_restart_needs_no_source(tmp_path: Path, unit: Any) -> None:
    write(tmp_path)
    given = policy(tmp_path, privacy_unit=unit)
    first = counts(given)
    file = tmp_path / "kept" / "person.cube"
    own = sorted(path.name for path in (tmp_path / "kept").iterdir())
    assert own == ["ledger.witness", file.name]
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    (tmp_path / "people.parquet").unlink()
    assert counts(given) == first
    # Fresh answers are of the same records.
    with tallyveil.connect(given) as connection:
        connection.execute("SET dp.epsilon = 10000")
        connection.execute("SET dp.source = fresh")
        (found,) = connection.execute("SELECT count(*) FROM person").fetchone()
    assert found == sum(n for _, _, n in first)


def test_units_are_kept_too(tmp_path: Path) -> None:
    """A file of an earlier version, which has none, is replaced."""
    write(tmp_path)
    given = policy(tmp_path, privacy_unit={"column": "pid", "max_rows": 2})
    sql = "SELECT a, count(DISTINCT pid) FROM person GROUP BY a ORDER BY a"

    def units() -> list[tuple[Any, ...]]:
        with tallyveil.connect(given) as connection:
            connection.execute("SET dp.epsilon = 1000")
            connection.execute("SET dp.source = fresh")
            return connection.execute(sql).fetchall()

    first = units()
    assert [n for _, n in first] == [300, 300, 300]
    (tmp_path / "people.parquet").unlink()
    assert units() == first


def test_files_that_were_changed_are_refused(tmp_path: Path) -> None:
    write(tmp_path)
    given = policy(tmp_path)
    first = counts(given)
    file = tmp_path / "kept" / "person.cube"
    whole = file.read_bytes()
    for place in (0, 30, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(SourceError, match="was changed, or was made under another ledger"):
            counts(given)
    for size in (0, 10, len(whole) - 1):
        file.write_bytes(whole[:size])
        with pytest.raises(SourceError, match="was changed, or was made under another ledger"):
            counts(given)
    file.unlink()
    assert counts(given) == first
    # DuckDB returns the groups in any order.
    assert len(file.read_bytes()) == len(whole)


def test_another_ledger_counts_for_itself(tmp_path: Path) -> None:
    write(tmp_path)
    given = policy(tmp_path)
    counts(given)
    given.ledger.unlink()
    with pytest.raises(SourceError, match="under another ledger") as refused:
        counts(given)
    assert "Delete the file" in str(refused.value.hint)


def test_another_declaration_does_not_take_it(tmp_path: Path) -> None:
    write(tmp_path)
    counts(policy(tmp_path))
    with pytest.raises(LedgerMismatch):
        counts(policy(tmp_path, privacy_unit={"column": "pid", "max_rows": 1}))


def test_other_data_is_still_refused_when_it_is_counted(tmp_path: Path) -> None:
    write(tmp_path)
    given = policy(tmp_path)
    counts(given)
    write(tmp_path, f"{ROWS} WHERE i > 0")
    (tmp_path / "kept" / "person.cube").unlink()
    with pytest.raises(LedgerMismatch, match="holds other data"):
        counts(given)
    assert not (tmp_path / "kept" / "person.cube").exists()


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    given = policy(tmp_path)
    counts(given)
    (tmp_path / "kept" / "person.cube").chmod(0o640)
    with pytest.raises(SourceError, match="others may read it"):
        counts(given)


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "kept").write_text("")
    with pytest.raises((OutputError, SourceError), match=r"cubes: .*person\.cube cannot be"):
        counts(policy(tmp_path))


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "kept").mkdir()
    left = tmp_path / "kept" / f"person.cube.{os.getpid() + 1}"
    left.write_bytes(b"unfinished")
    counts(policy(tmp_path))
    assert not left.exists()


def test_tables_of_the_same_people_are_kept_together(tmp_path: Path) -> None:
    write(tmp_path)
    document = {
        "source": {"url": "people.parquet"},
        "cubes": "kept",
        "tables": {
            "person": {
                "from": "people",
                "privacy_unit": {"column": "pid", "max_rows": 1},
                "budget": {"epsilon": 1_000_000},
                "attributes": {"a": {"range": [0, 2]}},
            },
            "visit": {
                "from": "people",
                "privacy_unit": {"column": "pid", "max_rows": 2},
                "keys": {"pid": "person.pid"},
                "attributes": {"b": {"range": [0, 4], "nullable": True}},
            },
        },
    }
    both = tallyveil.parse_policy(document, base=tmp_path)
    sql = "SELECT p.a, count(*) FROM visit v JOIN person p ON v.pid = p.pid GROUP BY 1 ORDER BY 1"

    def joined() -> list[tuple[Any, ...]]:
        with tallyveil.connect(both) as connection:
            connection.execute("SET dp.epsilon = 10000")
            connection.execute("SET dp.source = fresh")
            return connection.execute(sql).fetchall()

    first = joined()
    assert sum(n for _, n in first) == 900
    (tmp_path / "kept" / "visit.cube").unlink()
    assert joined() == first
    (tmp_path / "people.parquet").unlink()
    assert joined() == first


def test_a_restart_promises_no_more(tmp_path: Path) -> None:
    """Which tables may count the same records is kept too, since it belongs to the guarantee."""
    write(tmp_path)
    table = {"budget": {"epsilon": 1}, "attributes": {"a": {"range": [0, 2]}}, "from": "people"}
    total = {"invariants": [{"sql": "SELECT count(*) FROM person WHERE a = 0"}]}
    document = {
        "source": {"url": "people.parquet"},
        "cubes": "kept",
        "tables": {"person": table | total, "member": table | {"neighbours": "add_remove"}},
    }
    given = tallyveil.parse_policy(document, base=tmp_path)

    def guarantees() -> dict[str, str]:
        with tallyveil.connect(given) as connection:
            return dict(
                connection.execute("SELECT table_name, guarantee FROM dp.budget").fetchall()
            )

    first = guarantees()
    assert "agree on the invariants of person, which may count the same records" in first["member"]
    (tmp_path / "people.parquet").unlink()
    assert guarantees() == first


def test_an_older_ledger_beside_the_counts_is_noticed(tmp_path: Path) -> None:
    write(tmp_path)
    given = policy(tmp_path)
    counts(given)
    with tallyveil.connect(given) as connection:
        older = given.ledger.read_bytes()
        connection.execute("SET dp.source = fresh")
        connection.execute("SELECT count(*) FROM person")
    whole = given.ledger.read_bytes()
    given.ledger.write_bytes(older)
    with pytest.raises(LedgerError, match="it is an older copy, or another ledger") as refused:
        tallyveil.connect(given)
    assert "treat the budget as spent" in (refused.value.hint or "")
    given.ledger.write_bytes(whole)
    counts(given)
    (tmp_path / "kept" / "ledger.witness").write_text("2-xyz")
    with pytest.raises(InvalidParameterValue, match="no witness"):
        tallyveil.connect(given)
