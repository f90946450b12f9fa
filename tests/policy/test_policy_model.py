"""What a right policy becomes: axes, defaults, paths and fingerprints."""

from __future__ import annotations

import copy
import datetime as dt
import tomllib
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tallyveil.policy import (
    Attribute,
    CatalogChoice,
    Certificate,
    InferenceControl,
    Policy,
    Serving,
    load_policy,
    parse_policy,
    serving_options,
    summary,
)

TOML = """
[source]
url = "data/people.parquet"

[tables.person]
from = "people"
privacy_unit = { column = "pid", max_rows = 3 }
neighbours = "replace"
budget = { epsilon = 0.1 }

[tables.person.attributes]
state  = { values = ["AL", "AK"], other = "elsewhere", nullable = true }
sex    = { values = ["F", "M"], nullable = true }
age    = { range = [0, 115], clamp = true, column = "Age at census" }
born   = { range = [2020-02-28, 2020-03-01] }
income = { bins = [0, 15000, 60000], other = true }
"""


def attribute(**declared: Any) -> Attribute:
    table = {"budget": {"epsilon": 1}, "attributes": {"a": declared}}
    return parse_policy({"tables": {"t": table}}).tables["t"].domain["a"]


def read(tmp_path: Path, text: str = TOML) -> Policy:
    file = tmp_path / "people.toml"
    file.write_text(text)
    return load_policy(file)


def test_a_policy_file(tmp_path: Path) -> None:
    policy = read(tmp_path)
    person = policy.tables["person"]
    assert policy.source is not None
    assert policy.source.path == tmp_path / "data/people.parquet"
    assert policy.source.kind.name == "parquet"
    assert policy.ledger == tmp_path / "people.ledger.sqlite"
    assert person.origin == "people"
    assert (person.privacy_unit.column, person.privacy_unit.max_rows) == ("pid", 3)
    assert person.neighbours == "replace"
    assert person.budget.epsilon == Fraction(1, 10)  # not the float's 3602879701896397/2**55
    assert person.domain.names == ("state", "sex", "age", "born", "income")
    assert person.columns == ("state", "sex", "Age at census", "born", "income")
    assert person.domain.size == 4 * 3 * 116 * 3 * 3
    assert not person.domain.complete


def test_defaults() -> None:
    minimal: dict[str, Any] = {
        "tables": {"t": {"budget": {"epsilon": 2}, "attributes": {"a": {"range": [0, 1]}}}}
    }
    policy = parse_policy(minimal, base="/somewhere")
    table = policy.tables["t"]
    assert policy.source is None
    assert policy.ledger == Path("/somewhere/tallyveil.ledger.sqlite")
    assert (policy.defaults.epsilon, policy.defaults.confidence) == (Fraction(1, 10), 0.95)
    assert (table.origin, table.neighbours) == ("t", "add_remove")
    assert (table.privacy_unit.column, table.privacy_unit.max_rows) == (None, 1)
    target = parse_policy({**minimal, "defaults": {"half_width": 20, "confidence": 0.9}})
    assert target.defaults.epsilon is None
    assert not target.defaults.nonnegative
    assert (target.defaults.half_width, target.defaults.confidence) == (20.0, 0.9)


@pytest.mark.parametrize(
    ("declared", "cells", "sql_type", "null", "other"),
    [
        ({"values": ["b", "a"]}, ("b", "a"), "VARCHAR", None, None),
        ({"values": ["b"], "other": True}, ("b", "other"), "VARCHAR", None, 1),
        (
            {"values": ["b"], "other": "rest", "nullable": True},
            ("b", "rest", None),
            "VARCHAR",
            2,
            1,
        ),
        ({"values": [True, False], "nullable": True}, (True, False, None), "BOOLEAN", 2, None),
        ({"values": [3, 2**31]}, (3, 2**31), "BIGINT", None, None),
        ({"values": [dt.date(2020, 1, 1)]}, (dt.date(2020, 1, 1),), "DATE", None, None),
        ({"range": [-1, 1]}, (-1, 0, 1), "INTEGER", None, None),
        ({"range": [-1, 0], "other": True}, (-1, 0, None), "INTEGER", 2, 2),
        ({"range": [2**31, 2**31]}, (2**31,), "BIGINT", None, None),
        (
            {"range": [dt.date(2020, 2, 28), dt.date(2020, 3, 1)]},
            (dt.date(2020, 2, 28), dt.date(2020, 2, 29), dt.date(2020, 3, 1)),
            "DATE",
            None,
            None,
        ),
        ({"bins": [0, 10, 20]}, (0, 10), "INTEGER", None, None),
        ({"bins": [0, 10, 2**31]}, (0, 10), "BIGINT", None, None),
        ({"bins": [0, 0.5, 20], "nullable": True}, (0.0, 0.5, None), "DOUBLE", 2, None),
    ],
)
def test_cells(
    declared: dict[str, Any],
    cells: tuple[Any, ...],
    sql_type: str,
    null: int | None,
    other: int | None,
) -> None:
    axis = attribute(**declared)
    assert axis.cells == cells
    assert [type(c) for c in axis.cells] == [type(c) for c in cells]
    assert (axis.sql_type, axis.null_cell, axis.other_cell) == (sql_type, null, other)


@pytest.mark.parametrize(
    ("declared", "complete"),
    [
        ({"values": ["a"]}, False),
        ({"values": ["a"], "nullable": True}, False),
        ({"values": ["a"], "other": True}, True),
        ({"range": [0, 1], "other": True}, True),
        ({"range": [0, 1], "clamp": True}, False),
        ({"range": [0, 1], "clamp": True, "nullable": True}, True),
    ],
)
def test_complete(declared: dict[str, Any], complete: bool) -> None:
    assert attribute(**declared).complete is complete


@given(st.decimals(min_value="0.000001", max_value=1000, places=9))
def test_a_budget_is_what_the_decimal_says(epsilon: Any) -> None:
    if epsilon <= 0:
        return
    table = {"budget": {"epsilon": epsilon}, "attributes": {"a": {"range": [0, 1]}}}
    policy = parse_policy({"tables": {"t": table}})
    assert policy.tables["t"].budget.epsilon == Fraction(str(epsilon))


CHANGES: list[tuple[str, str, bool]] = [
    ("epsilon = 0.1", "epsilon = 5.0", False),
    ("[source]", "[defaults]\nepsilon = 0.5\n[source]", False),
    ('url = "data/people.parquet"', 'url = "people.parquet"', True),
    ('from = "people"', 'from = "SELECT * FROM people"', True),
    ("max_rows = 3", "max_rows = 2", True),
    ('"pid"', '"person_id"', True),
    ("replace", "add_remove", True),
    ("[tables.person", "[tables.human", True),
    ('{ column = "pid", max_rows = 3 }', '"row"\ncount = "persons"', True),
    ('["AL", "AK"]', '["AK", "AL"]', True),
    ('"elsewhere"', "true", True),
    ("nullable = true }\nage", "nullable = false }\nage", True),
    ("clamp = true", "clamp = false", True),
    ('"Age at census"', '"age"', True),
    ("[0, 15000, 60000]", "[0, 15000, 60001]", True),
    ("2020-03-01]", "2020-03-02]", True),
    ('"data/people.parquet"', '"./data//people.parquet"', False),
    ('from = "people"', 'from = "  people "', False),
]


@pytest.mark.parametrize(("old", "new", "differs"), CHANGES)
def test_fingerprint(tmp_path: Path, old: str, new: str, differs: bool) -> None:
    assert old in TOML
    (before,) = read(tmp_path).tables.values()
    (after,) = read(tmp_path, TOML.replace(old, new)).tables.values()
    assert (before.fingerprint != after.fingerprint) is differs


@pytest.mark.parametrize(
    ("old", "new", "differs"),
    [
        ("SELECT a  FROM t\n", "SELECT a FROM t", False),
        ("SELECT a FROM t WHERE b = 'x  y'", "SELECT a FROM t WHERE b = 'x y'", True),
        ('SELECT a FROM "t  u"', 'SELECT a FROM "t u"', True),
        ("SELECT a -- b\nFROM t", "SELECT a -- b FROM t", True),
        ("SELECT a FROM t WHERE b = $$x  y$$", "SELECT a FROM t WHERE b = $$x y$$", True),
    ],
)
def test_an_equal_select_is_the_same_declaration(old: str, new: str, differs: bool) -> None:
    def print_of(origin: str) -> str:
        table = {"from": origin, "budget": {"epsilon": 1}, "attributes": {"a": {"range": [0, 1]}}}
        return parse_policy({"tables": {"t": table}}).tables["t"].fingerprint

    assert (print_of(old) != print_of(new)) is differs


def test_an_absolute_path_inside_the_folder_is_the_relative_one(tmp_path: Path) -> None:
    def print_of(url: object, base: Path = tmp_path) -> str:
        table = {"budget": {"epsilon": 1}, "attributes": {"a": {"range": [0, 1]}}}
        keys = {"source": {"url": str(url)}, "tables": {"t": table}}
        return parse_policy(keys, base=base).tables["t"].fingerprint

    assert print_of(tmp_path / "data" / "t.csv") == print_of("data/t.csv")
    assert print_of("t.csv") == print_of("t.csv", tmp_path / "moved")
    assert print_of("/elsewhere/t.csv") == print_of("/elsewhere/t.csv", tmp_path / "moved")
    assert print_of("t.csv") != print_of(tmp_path.parent / "t.csv")


def test_a_declaration_has_no_password() -> None:
    def table(password: str) -> Any:
        origin = f"SELECT * FROM postgres_query('host=h password={password}', 'SELECT 1 AS a')"
        keys = {"from": origin, "budget": {"epsilon": 1}, "attributes": {"a": {"range": [0, 1]}}}
        return parse_policy({"tables": {"t": keys}}).tables["t"]

    assert "hunter2" not in table("hunter2").declaration()
    assert "password=" in table("hunter2").declaration()
    assert table("hunter2").fingerprint != table("other").fingerprint


def test_fingerprints_tell_types_apart() -> None:
    def print_of(values: list[Any]) -> str:
        table = {"budget": {"epsilon": 1}, "attributes": {"a": {"values": values}}}
        return parse_policy({"tables": {"t": table}}).tables["t"].fingerprint

    assert len({print_of(v) for v in ([1], ["1"], [True], ["2020-01-01"])}) == 4
    assert print_of([dt.date(2020, 1, 1)]) != print_of(["2020-01-01"])


def test_a_fingerprint_is_stable() -> None:
    """A change here makes every ledger in the world refuse its policy."""
    table = {
        "budget": {"epsilon": 1},
        "attributes": {"sex": {"values": ["F", "M"], "nullable": True}, "age": {"range": [0, 2]}},
    }
    policy = parse_policy({"tables": {"person": table}})
    assert policy.tables["person"].fingerprint == "801ac1947ea8409cd58ad0478e2fb2e2"


def test_policies_are_immutable(tmp_path: Path) -> None:
    policy: Any = read(tmp_path)
    with pytest.raises(ValidationError, match="frozen"):
        policy.ledger_file = Path("x")
    with pytest.raises(TypeError):
        policy.tables["person"] = policy.tables["person"]


def test_code_and_file_agree(tmp_path: Path) -> None:
    mapping = tomllib.loads(TOML)
    axes = mapping["tables"]["person"]["attributes"]
    axes["state"]["values"], axes["age"]["range"] = ("AL", "AK"), (0, 115)
    before = copy.deepcopy(mapping)
    made, loaded = parse_policy(mapping, base=tmp_path), read(tmp_path)
    assert made.tables == loaded.tables
    assert made.source == loaded.source
    assert mapping == before


def test_inference_control_is_told(tmp_path: Path) -> None:
    said = "inference_control = { min_half_width = 5, confidence = 0.9, min_count = 1000 }"
    policy = read(tmp_path, TOML.replace("budget = {", f"{said}\nbudget = {{"))
    assert policy.tables["person"].inference_control == InferenceControl(
        min_half_width=5.0, confidence=0.9, min_count=1000
    )
    assert summary(policy)[1] == (
        "  inference control: no purchase may make a count known more precisely than ±5 at 0.9"
        " confidence, unless it is at least 1,000 at this confidence"
    )
    # It gives charges no other meaning, and may be set later on.
    assert policy.tables["person"].fingerprint == read(tmp_path).tables["person"].fingerprint


def test_summary(tmp_path: Path) -> None:
    lines = summary(read(tmp_path))
    assert lines[0] == "table person: 12,528 cells, budget ε = 0.1"
    assert lines[1] == (
        "  protects: all rows of one pid, exchanged for another; at most 3 rows of each pid are"
        " counted, and totals are too low where one has more"
    )
    assert lines[2:7] == [
        "  state: 2 values, VARCHAR; other values go to 'elsewhere'; NULLs go to the NULL cell",
        "  sex: 2 values, VARCHAR; records with other values are left out; "
        "NULLs go to the NULL cell",
        "  age (from Age at census): range 0 to 115, 116 cells, INTEGER; "
        "values beyond an end go to the nearest cell; records with a NULL are left out",
        "  born: range 2020-02-28 to 2020-03-01, 3 cells, DATE; "
        "records with other values are left out; records with a NULL are left out",
        "  income: 2 bins [0, 60000), INTEGER; other values go to the NULL cell; "
        "NULLs go to the NULL cell",
    ]
    assert lines[7].endswith("attributes that allow this: sex, age, born")
    assert lines[-1] == f"ledger: {tmp_path / 'people.ledger.sqlite'}"


@pytest.mark.parametrize(
    ("url", "unit", "counted"),
    [
        ("people.parquet", "row", "all records"),
        (
            "people.csv.gz",
            "row",
            "all records; lines that are not UTF-8, or longer than 2 MB, are left out",
        ),
        (
            "people.parquet",
            {"column": "pid", "max_rows": 3},
            "at most 3 of each pid, and none without a pid",
        ),
    ],
)
def test_the_summary_says_which_records_are_counted(
    tmp_path: Path, url: str, unit: Any, counted: str
) -> None:
    axes = {"sex": {"values": ["F", "M"], "other": True}}
    table = {"budget": {"epsilon": 1}, "privacy_unit": unit, "attributes": axes}
    policy = parse_policy({"source": {"url": url}, "tables": {"person": table}}, base=tmp_path)
    assert f"  every record has a cell: count(*) counts {counted}" in summary(policy)


PLAIN = {"person": {"budget": {"epsilon": 1}, "attributes": {"sex": {"values": ["F", "M"]}}}}


def test_how_it_is_served_changes_no_charge(tmp_path: Path) -> None:
    plain = parse_policy({"tables": PLAIN}, base=tmp_path)
    server = {
        "users": "people.users",
        "tls": {"certificate": "a.crt", "key": "/b.key", "client_ca": "ca.crt"},
        "idle_timeout": 90,
        "max_connections": 7,
    }
    policy = parse_policy({"tables": PLAIN, "server": server}, base=tmp_path)
    assert policy.tables["person"].fingerprint == plain.tables["person"].fingerprint
    assert policy.server.users == tmp_path / "people.users"
    assert policy.server.tls == Certificate(
        certificate=tmp_path / "a.crt", key=Path("/b.key"), client_ca=tmp_path / "ca.crt"
    )
    assert policy.server.limits == {"idle_timeout": 90.0, "max_connections": 7}


def test_options_go_before_the_policy(tmp_path: Path) -> None:
    files = {"certificate": Path("a.crt"), "key": Path("a.key")}
    declared = Serving(tls=Certificate(**files), memory=1)
    given = {"tls.client_ca": "ca.crt", "tls.clientcert": "cert", "memory": 2, "users": None}
    found = declared.but(serving_options(given, declared, tmp_path / "p.toml"))
    assert found.tls == Certificate(**files, client_ca=Path("ca.crt"), clientcert="cert")
    assert found.limits == {"memory": 2}
    made = serving_options({"tls.self_signed": True}, Serving(), tmp_path / "p.toml").tls
    assert made == Certificate(
        certificate=tmp_path / "p.crt", key=tmp_path / "p.key", self_signed=True
    )


def test_the_catalogs_programs_are_beside_the_policy(tmp_path: Path) -> None:
    declared = {"tables": PLAIN, "catalog": {"binaries": "pg/bin"}}
    found = parse_policy(declared, base=tmp_path).catalog
    assert found == CatalogChoice(enabled=True, binaries=tmp_path / "pg/bin")
    assert parse_policy({"tables": PLAIN}, base=tmp_path).catalog == CatalogChoice()
