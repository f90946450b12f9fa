"""Keys of tables that share a unit: what follows from them, and mistakes in them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tallyveil.errors import PolicyError
from tallyveil.policy import parse_policy, summary

RIGHT: dict[str, Any] = {
    "tables": {
        "person": {
            "privacy_unit": {"column": "pid", "max_rows": 1},
            "budget": {"epsilon": 3},
            "attributes": {"sex": {"values": ["F", "M"], "other": True}},
            "per_unit": {"often": {"count": "visit", "where": "day > 2", "at_most": 3}},
        },
        "visit": {
            "privacy_unit": {"column": "patient", "max_rows": 5},
            "keys": {"patient": "person.pid"},
            "attributes": {"day": {"range": [1, 7]}},
        },
    }
}


def with_(key: str, value: Any) -> dict[str, Any]:
    policy = copy.deepcopy(RIGHT)
    *path, last = key.split("/")
    place = policy
    for part in path:
        place = place.setdefault(part, {})
    if value is None:
        del place[last]
    else:
        place[last] = value
    return policy


def test_a_keyed_table_has_its_heads_budget_and_attributes() -> None:
    policy = parse_policy(RIGHT)
    person, visit = policy.tables["person"], policy.tables["visit"]
    assert (visit.budget, visit.payer, policy.sharing("visit")) == (
        person.budget,
        "person",
        ["person", "visit"],
    )
    assert person.domain.names == person.cells.names == ("sex", "often")
    assert person.domain["often"].cells == (0, 1, 2, 3)
    assert visit.domain.names == ("day",)
    names = ("day", "person.pid found", "person.sex", "person.often")
    assert visit.cells.names == names
    assert [one.name for one in visit.cells.own] == ["day"]
    lines = summary(policy)
    assert "table visit: 7 cells, budget that of person" in lines
    joins = "  has the units of person, to be joined ON visit.patient = person.pid"
    assert joins in lines
    assert "  often: rows of the unit that visit counts WHERE day > 2, 0 to 3" in lines


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("tables/person/attributes/sex/values", ["F", "X"]),
        ("tables/person/from", "people"),
        ("tables/person/per_unit/often/where", "day > 3"),
        ("tables/person/per_unit/often/at_most", 2),
        ("tables/visit/privacy_unit/max_rows", 6),
        ("tables/visit/from", "visits"),
    ],
)
def test_what_the_cells_of_both_depend_on_is_in_both_fingerprints(key: str, value: Any) -> None:
    before, after = parse_policy(RIGHT).tables, parse_policy(with_(key, value)).tables
    assert all(before[name].fingerprint != after[name].fingerprint for name in before)


V, P = "tables/visit", "tables/person"
MISTAKES = [
    (f"{V}/budget", {"epsilon": 1}, "tables.visit.budget: expected none: the table shares"),
    (f"{V}/neighbours", "replace", 'neighbours = "replace": expected "add_remove", as tables.pers'),
    (f"{V}/keys/patient", "persn.pid", "no other such table; did you mean person?"),
    (f"{V}/keys/patient", "visit.patient", "no other such table; expected one of person"),
    (
        f"{V}/keys/patient",
        "person.id",
        'expected tables.person.privacy_unit = { column = "id", max',
    ),
    (f"{V}/keys/patient", "person", 'expected a protected table and its column, such as "person.p'),
    (f"{V}/keys", {"day": "person.pid"}, "the key must name the same unit"),
    (f"{V}/keys/other", "person.pid", 'expected one key such as pid = "person.pid"'),
    (f"{V}/privacy_unit", "row", "the key must name the same unit"),
    (f"{P}/privacy_unit/max_rows", 2, "max_rows = 1 }: each row has at most one row there"),
    (f"{P}/keys", {"pid": "visit.patient"}, "expected a table without keys; visit has keys"),
    (
        f"{V}/attributes/pid",
        {"range": [0, 1]},
        "tables.visit.attributes.pid: expected another name",
    ),
    (
        f"{P}/attributes/Patient",
        {"range": [0, 1]},
        "Patient: expected another name: a key of the t",
    ),
    (
        f"{P}/per_unit/often/count",
        "person",
        'count = "person": expected a table with keys = { … = "',
    ),
    (
        f"{P}/per_unit/Sex",
        {"count": "visit"},
        "per_unit.Sex: expected a name that differs from sex",
    ),
    (f"{P}/per_unit/often/at_most", -1, "at_most = -1: expected"),
    (
        f"{P}/invariants",
        [{"sql": "SELECT count(*) FROM person"}],
        "person.invariants: not supported",
    ),
    (f"{V}/inference_control", {"min_half_width": 5}, "visit.inference_control: not supported"),
    (f"{V}/count_range", 20, "visit.count_range: not supported for tables that share a unit"),
    (f"{P}/budget", None, "tables.person.budget: missing; expected a budget such as"),
    ("analysts/al/tables/visit/budget", {"epsilon": 1}, "visit: expected a share of person, whose"),
    ("analysts/al/budget", {"epsilon": 4}, "analysts.al.budget.epsilon = 4: expected at most 3"),
]


@pytest.mark.parametrize(("key", "value", "expected"), MISTAKES)
def test_a_mistake_is_named(key: str, value: Any, expected: str) -> None:
    with pytest.raises(PolicyError) as refused:
        parse_policy(with_(key, value))
    assert expected in (refused.value.detail or "")
