"""Every mistake in a policy is told, by key, value and what was expected, all at once."""

from __future__ import annotations

import copy
import datetime as dt
import math
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tallyveil.errors import PolicyError
from tallyveil.policy import load_policy, parse_policy

RIGHT: dict[str, Any] = {
    "tables": {
        "person": {
            "budget": {"epsilon": 1.0},
            "attributes": {"age": {"range": [0, 115]}, "sex": {"values": ["F", "M"]}},
        }
    }
}


def with_(key: str, value: Any) -> dict[str, Any]:
    """The right policy with one key set; `.` separates the steps."""
    policy = copy.deepcopy(RIGHT)
    *steps, last = key.split(".")
    owner = policy
    for step in steps:
        owner = owner.setdefault(step, {})
    owner[last] = value
    return policy


def mistakes_of(policy: dict[str, Any]) -> tuple[str, ...]:
    with pytest.raises(PolicyError) as caught:
        parse_policy(policy)
    return caught.value.mistakes


AGE = "tables.person.attributes.age"
SEX = "tables.person.attributes.sex"
SHARE = "analysts.alice.budget"
OWN = "analysts.alice.tables"

TLS = {"certificate": "a.crt", "key": "a.key"}

# key set, value, what the one message starts with, what it goes on to say
CASES: list[tuple[str, Any, str, str]] = [
    ("server.workers", 0, "server.workers = 0: ", "processes from 1 to 32"),
    ("server.max_connections", 0, "server.max_connections = 0: ", "from 1 to 10,000"),
    ("server.max_user_connections", 1.5, "server.max_user_connections = 1.5: ", "a whole number"),
    ("server.max_message", True, "server.max_message = true: ", "MiB"),
    ("server.memory", "1", 'server.memory = "1": ', "MiB"),
    ("server.startup_timeout", 0, "server.startup_timeout = 0: ", "seconds above 0"),
    ("server.idle_timeout", math.nan, "server.idle_timeout = nan: ", "seconds above 0"),
    ("server.statement_timeout", math.inf, "server.statement_timeout = inf: ", "seconds"),
    ("server.send_timeout", 86_401, "server.send_timeout = 86401: ", "at most 86,400"),
    ("server.users", 3, "server.users = 3: ", "a path in quotes"),
    ("server.plaintext_passwords", "no", 'server.plaintext_passwords = "no": ', "true or false"),
    ("server.password", "x", "server.password: unknown key; ", "expected one of tls, users"),
    ("catalog", "off", 'catalog = "off": ', "[catalog]"),
    ("catalog.enabled", "no", 'catalog.enabled = "no": ', "true or false"),
    ("catalog.binaries", 16, "catalog.binaries = 16: ", "a path in quotes"),
    ("catalog.url", "postgresql://", "catalog.url: unknown key; ", "binaries"),
    ("server.tls", "server.crt", 'server.tls = "server.crt": ', "certificate ="),
    ("server.tls", {"key": "a.key"}, "server.tls.certificate: missing; ", "a path in quotes"),
    ("server.tls", TLS | {"cert": "x"}, "server.tls.cert: unknown key; ", "clientcert"),
    (
        "server.tls",
        TLS | {"clientcert": "verify-ca", "client_ca": "ca.crt"},
        'server.tls.clientcert = "verify-ca": ',
        '"cert"',
    ),
    ("server.tls", TLS | {"clientcert": "cert"}, "server.tls.clientcert: ", "client_ca beside it"),
    ("tables.person.budget.epsilon", 0, "tables.person.budget.epsilon = 0: ", "a number ε"),
    ("tables.person.budget.epsilon", -1.5, "tables.person.budget.epsilon = -1.5: ", "1e-12"),
    ("tables.person.budget.epsilon", math.nan, "tables.person.budget.epsilon = nan: ", "ε"),
    ("tables.person.budget.epsilon", math.inf, "tables.person.budget.epsilon = inf: ", "ε"),
    ("tables.person.budget.epsilon", True, "tables.person.budget.epsilon = true: ", "ε"),
    ("tables.person.budget.epsilon", "1", 'tables.person.budget.epsilon = "1": ', "ε"),
    ("tables.person.budget", {"rho": 0.1, "epsilon": 1}, "tables.person.budget: ", "both are"),
    ("tables.person.budget", {"rho": 0.1}, "tables.person.budget: ", "delta missing"),
    ("tables.person.budget", {"delta": 1e-9}, "tables.person.budget: ", "neither is given"),
    ("tables.person.budget", {"rho": -1, "delta": 1e-9}, "tables.person.budget.rho = -1: ", "ρ"),
    ("tables.person.budget.delta", 0, "tables.person.budget.delta = 0: ", "a number δ"),
    ("tables.person.budget.delta", 0.5, "tables.person.budget.delta = 0.5: ", "0.001"),
    ("tables.person.budget.delta", math.nan, "tables.person.budget.delta = nan: ", "a number δ"),
    ("tables.person.mechanisms", [], "tables.person.mechanisms = []: ", "a list of names"),
    ("tables.person.mechanisms", "laplace", "tables.person.mechanisms = ", "a list of names"),
    ("tables.person.mechanisms", ["auto"], "tables.person.mechanisms = ", "a list of names"),
    ("tables.person.mechanisms", ["La Place"], "tables.person.mechanisms = ", "the name of a"),
    ("tables.person.inference_control", 5, "tables.person.inference_control = 5: ", "a limit such"),
    (
        "tables.person.inference_control",
        {"confidence": 0.9},
        "tables.person.inference_control.min_half_width: missing",
        "the least half-width",
    ),
    (
        "tables.person.inference_control",
        {"min_half_width": math.nan},
        "tables.person.inference_control.min_half_width = nan: ",
        "a positive number",
    ),
    (
        "tables.person.inference_control",
        {"min_half_width": 5, "confidence": 1},
        "tables.person.inference_control.confidence = 1: ",
        "strictly between 0 and 1",
    ),
    (
        "tables.person.inference_control",
        {"min_half_width": 5, "min_count": 0},
        "tables.person.inference_control.min_count = 0: ",
        "a whole number of records",
    ),
    (
        "tables.person.inference_control",
        {"min_half_width": 5, "min_cuont": 2},
        "tables.person.inference_control.min_cuont: ",
        "did you mean min_count?",
    ),
    ("defaults.rho", 0.1, "defaults.rho: ", "expected epsilon or half_width"),
    ("defaults.mechanism", 3, "defaults.mechanism = 3: ", "the name of a mechanism"),
    ("tables.person.budget", 3, "tables.person.budget = 3: ", "{ epsilon = 3.0 }"),
    ("tables.person.neighbours", "swap", 'tables.person.neighbours = "swap": ', '"replace"'),
    ("tables.person.from", "two words", 'tables.person.from = "two words": ', "a SELECT"),
    ("tables.person.from", "a; DROP TABLE b", "tables.person.from = ", "a SELECT"),
    ("tables.person.form", "people", "tables.person.form: ", "did you mean from?"),
    (
        "tables.person.invariants",
        [{"sql": ""}],
        "tables.person.invariants[0].sql = ",
        "expected a SELECT",
    ),
    ("tables.person.invariants", [{}], "tables.person.invariants[0]: ", "neither is given"),
    ("tables.person.invariants", {"sql": "SELECT 1"}, "tables.person.invariants = ", "[[tables."),
    (
        "tables.person.invariants",
        [{"sql": "SELECT 1", "from_public": "a.b"}],
        "tables.person.invariants[0]: ",
        "both are given",
    ),
    (
        "tables.person.invariants",
        [{"from_public": "a"}],
        "tables.person.invariants[0].from_public = ",
        '"census.persons"',
    ),
    (
        "tables.person.invariants",
        [{"from_public": "a.b"}],
        "tables.person.invariants[0].from_public = ",
        "[public.a]",
    ),
    (
        "tables.person.invariants",
        [{"sql": "SELECT 1", "query": "SELECT 1"}],
        "tables.person.invariants[0].query: ",
        "one of sql",
    ),
    (
        "tables.person.invariants",
        [{"sql": "SELECT 1", "acknowledge": "all"}],
        "tables.person.invariants[0].acknowledge = ",
        "a list of counts",
    ),
    ("tables.person.count", 3, "tables.person.count = 3: ", "how many records a row stands for"),
    ("tables.person.count", "", 'tables.person.count = "": ', "how many records"),
    (
        "tables.person",
        {**RIGHT["tables"]["person"], "count": "n", "privacy_unit": {"column": "p", "max_rows": 2}},
        "tables.person: ",
        "either count or privacy_unit",
    ),
    ("tables.person.privacy_unit", "person", "tables.person.privacy_unit = ", '"row" or {'),
    ("tables.person.privacy_unit", {"column": "pid"}, "tables.person.privacy_unit: ", "max_rows"),
    (
        "tables.person.privacy_unit",
        {"column": "pid", "max_rows": 0},
        "tables.person.privacy_unit.max_rows = 0: ",
        "a whole number of rows",
    ),
    ("tables.person.attributes", {}, "tables.person.attributes = {}: ", "at least one attribute"),
    (AGE, 3, f"{AGE} = 3: ", "a table of keys"),
    (AGE, {}, f"{AGE}: ", "exactly one of values, range, bins; found none"),
    (AGE, {"range": [0, 1], "bins": [0, 1]}, f"{AGE}: ", "found range and bins"),
    (AGE, {"range": [1, 0]}, f"{AGE}.range = [1, 0]: ", "lower end first"),
    (AGE, {"range": [0, 1.5]}, f"{AGE}.range = [0, 1.5]: ", "two whole numbers"),
    (AGE, {"range": [False, True]}, f"{AGE}.range = [false, true]: ", "two whole numbers"),
    (AGE, {"range": [0, 10**6]}, f"{AGE}.range = [0, 1000000]: ", "1,000,001; declare bins"),
    (AGE, {"range": [0, 2**63]}, f"{AGE}.range = ", "64 bits"),
    (AGE, {"range": [0, dt.date(2020, 1, 1)]}, f"{AGE}.range = [0, 2020-01-01]: ", "two dates"),
    (AGE, {"bins": [1]}, f"{AGE}.bins = [1]: ", "at least two increasing"),
    (AGE, {"bins": [1, 1]}, f"{AGE}.bins = [1, 1]: ", "at least two increasing"),
    (AGE, {"bins": [0, math.nan]}, f"{AGE}.bins = [0, nan]: ", "at least two increasing"),
    (AGE, {"bins": [0, math.inf]}, f"{AGE}.bins = [0, inf]: ", "at least two increasing"),
    (AGE, {"bins": [0.0, 2**53, 2**53 + 1]}, f"{AGE}.bins = ", "at least two increasing"),
    (
        "tables.person.count_range",
        {"at_most": 9, "by": [""]},
        'tables.person.count_range.by = [""]: ',
        "a list of attributes",
    ),
    (
        "tables.person.count_range",
        {"at_most": 9, "by": ["no"]},
        "tables.person.count_range.by: ",
        '"no" is none',
    ),
    (AGE, {"values": []}, f"{AGE}.values = []: ", "it is empty"),
    (AGE, {"values": [1, "1"]}, f'{AGE}.values = [1, "1"]: ', "one type"),
    (AGE, {"values": [1, True]}, f"{AGE}.values = [1, true]: ", "one type"),
    (AGE, {"values": [1, 1]}, f"{AGE}.values = [1, 1]: ", "1 occurs twice"),
    (SEX, {"values": ["F", "F"]}, f'{SEX}.values = ["F", "F"]: ', '"F" occurs twice'),
    (AGE, {"values": 2 * [dt.date(2020, 1, 1)]}, f"{AGE}.values = ", "; 2020-01-01 occurs twice"),
    (AGE, {"bins": [0, 0.5, 10**400]}, f"{AGE}.bins = [0, 0.5, 1", "at least two increasing"),
    (AGE, {"values": [0.5]}, f"{AGE}.values = [0.5]: ", "declare bins"),
    (AGE, {"values": [dt.datetime(2020, 1, 1)]}, f"{AGE}.values = ", "one type"),
    (AGE, {"values": "ab"}, f'{AGE}.values = "ab": ', "a list of values"),
    (AGE, {"range": [0, 1], "nullable": "no"}, f'{AGE}.nullable = "no": ', "true or false"),
    (AGE, {"range": [0, 1], "other": "rest"}, f'{AGE}.other = "rest": ', "reads as NULL"),
    (AGE, {"range": [0, 1], "other": True, "clamp": True}, f"{AGE}: ", "either clamp or other"),
    (AGE, {"range": [0, 1], "nulable": True}, f"{AGE}.nulable: ", "did you mean nullable?"),
    (SEX, {"values": ["F"], "clamp": True}, f"{SEX}.clamp = true: ", "range or bins only"),
    (SEX, {"values": ["F"], "other": "F"}, f'{SEX}.other = "F": ', "another label"),
    (SEX, {"values": ["other"], "other": True}, f"{SEX}.other = true: ", "another label"),
    (SEX, {"values": ["F"], "other": "a\0b"}, f'{SEX}.other = "a\\u0000b": ', "without NUL"),
    (SEX, {"values": ["F"], "other": 3}, f"{SEX}.other = 3: ", "a label"),
    (SEX, {"values": ["F"], "column": ""}, f'{SEX}.column = "": ', "name of a column"),
    ("tables.person.attributes.Age", {"range": [0, 1]}, "tables.person.attributes.Age: ", "lower"),
    ("tables.person.attributes.__n", {"range": [0, 1]}, "tables.person.attributes.__n: ", "__"),
    ("tables.person.attributes.user", {"range": [0, 1]}, "tables.person.attributes.user: ", "resv"),
    ("tables.person.attributes.a b", {"range": [0, 1]}, 'tables.person.attributes."a b": ', "lett"),
    ("tables.dp", RIGHT["tables"]["person"], "tables.dp: ", "the schema of tallyveil's"),
    ("source.url", "postgresql://h/d", 'source.url = "postgresql://h/d": ', "a Parquet file"),
    ("source.url", "people.xlsx", 'source.url = "people.xlsx": ', "a Parquet file"),
    ("source", "people.csv", 'source = "people.csv": ', "[source]"),
    ("defaults.epsilon", 0, "defaults.epsilon = 0: ", "a number ε"),
    ("defaults.half_width", -1, "defaults.half_width = -1: ", "a positive number"),
    ("defaults.nonnegative", "perhaps", "defaults.nonnegative = ", "true or false"),
    ("defaults.confidence", 1, "defaults.confidence = 1: ", "strictly between 0 and 1"),
    ("defaults.confidence", Decimal("1e400"), "defaults.confidence = 1", "strictly between 0"),
    ("defaults.half_width", Decimal("1e350"), "defaults.half_width = 1", "a positive number"),
    ("defaults", {"epsilon": 1, "half_width": 5}, "defaults: ", "either epsilon or half_width"),
    ("analysts", {}, "analysts = {}: ", "[analysts.alice]"),
    ("analysts", 3, "analysts = 3: ", "[analysts.alice]"),
    ("analysts.alice", 3, "analysts.alice = 3: ", "a table of keys"),
    ("analysts.alice", {}, "analysts.alice: ", "budget missing"),
    ("analysts.alice", {"bugdet": 1, "budget": {"epsilon": 1}}, "analysts.alice.bugdet: ", "budge"),
    ("analysts", {"": {"budget": {"epsilon": 1}}}, 'analysts."": ', "connects by"),
    ("analysts", {" al": {"budget": {"epsilon": 1}}}, 'analysts." al": ', "connects by"),
    ("analysts", {"a\0": {"budget": {"epsilon": 1}}}, "analysts.", "connects by"),
    ("analysts", {"a@b.c": {"budget": {"epsilon": 2}}}, 'analysts."a@b.c".budget.epsilon = 2', "1"),
    (SHARE, 1, f"{SHARE} = 1: ", "a share of the tables' budgets"),
    (SHARE, {}, f"{SHARE}: ", "neither is given"),
    (SHARE, {"epsilon": 1, "rho": 1}, f"{SHARE}: ", "both are given"),
    (SHARE, {"rho": 0.1}, f"{SHARE}.rho = 0.1: ", "expected epsilon, as in tables.person.budget"),
    (SHARE, {"epsilon": 1, "delta": 1e-9}, f"{SHARE}.delta = 1e-09: ", "expected none"),
    (f"{SHARE}.epsilon", 0, f"{SHARE}.epsilon = 0: ", "a number ε"),
    (f"{SHARE}.epsilon", -1, f"{SHARE}.epsilon = -1: ", "a number ε"),
    (f"{SHARE}.epsilon", math.nan, f"{SHARE}.epsilon = nan: ", "a number ε"),
    (f"{SHARE}.epsilon", math.inf, f"{SHARE}.epsilon = inf: ", "a number ε"),
    (f"{SHARE}.epsilon", True, f"{SHARE}.epsilon = true: ", "a number ε"),
    (f"{SHARE}.epsilon", "1", f'{SHARE}.epsilon = "1": ', "a number ε"),
    (f"{SHARE}.epsilon", 1.5, f"{SHARE}.epsilon = 1.5: ", "at most 1.0, the epsilon of tables.per"),
    ("analysts.alice.tables", {}, "analysts.alice.tables = {}: ", "shares by table"),
    (f"{OWN}.persn", {"budget": {"epsilon": 1}}, f"{OWN}.persn: ", "did you mean person?"),
    (f"{OWN}.visit", {"budget": {"epsilon": 1}}, f"{OWN}.visit: ", "expected one of person"),
    (f"{OWN}.person", {}, f"{OWN}.person.budget: ", "missing; expected a share"),
    (f"{OWN}.person", 1, f"{OWN}.person = 1: ", "a table of keys"),
    (f"{OWN}.person.budget", {"epsilon": 2}, f"{OWN}.person.budget.epsilon = 2: ", "at most 1.0"),
    (f"{OWN}.person.budget", {"rho": 1}, f"{OWN}.person.budget.rho = 1: ", "expected epsilon"),
    ("ledger", ":memory:", 'ledger = ":memory:": ', "an SQLite file"),
    ("ledger", "./:memory:", 'ledger = "./:memory:": ', "an SQLite file"),
    ("ledger", "postgresql://h/d", 'ledger = "postgresql://h/d": ', "an SQLite file"),
    (
        "tables.person.count_range",
        {"at_most": 20, "by": ["x", ""]},
        'tables.person.count_range.by = ["x", ""]: ',
        "a list of attributes",
    ),
    ("tabels", {}, "tabels: ", "did you mean tables?"),
]


@pytest.mark.parametrize(("key", "value", "start", "says"), CASES)
def test_one_mistake_one_message(key: str, value: Any, start: str, says: str) -> None:
    (message,) = mistakes_of(with_(key, value))
    assert message.startswith(start)
    assert says.replace("resv", "reserved word") in message


def test_the_keys_of_a_table_are_listed_as_the_guide_lists_them() -> None:
    (message,) = mistakes_of(with_("tables.person.zzz", 1))
    listed = message.partition("expected one of ")[2].split(", ")
    guide = (Path(__file__).parents[2] / "docs" / "custodian.md").read_text()
    found = re.findall(r"^\| `(?:tables\.NAME|…)\.(\w+)(?:\.NAME)?` \|", guide, re.MULTILINE)
    assert listed == [key for key in found if key in listed]


def test_all_mistakes_are_told_at_once() -> None:
    wrong = with_("tables.person.budget.epsilon", -1)
    wrong["tables"]["person"]["attributes"]["age"] = {"range": [3, 1], "clamp": True, "other": True}
    wrong["tables"]["person"]["colour"] = "red"
    wrong["analysts"] = {"alice": {"budget": {"epsilon": math.nan}}, "bob": {}}
    assert [m.split(":")[0] for m in mistakes_of(wrong)] == [
        "tables.person.budget.epsilon = -1",
        "tables.person.attributes.age.range = [3, 1]",
        "tables.person.colour",
        "analysts.alice.budget.epsilon = nan",
        "tables.person.attributes.age",
        "analysts.bob",
    ]


def test_a_share_is_of_its_tables_kind() -> None:
    policy = with_(
        "tables.visit", RIGHT["tables"]["person"] | {"budget": {"rho": 1, "delta": 1e-9}}
    )
    policy["tables"]["trip"] = RIGHT["tables"]["person"] | {"budget": {"epsilon": 2, "delta": 1e-9}}
    policy["analysts"] = {"alice": {"budget": {"epsilon": 1}}}
    (message,) = mistakes_of(policy)
    assert message.startswith("analysts.alice.budget.epsilon = 1: expected rho, as in tables.visit")
    assert "table by table" in message
    policy["analysts"]["alice"]["tables"] = {"visit": {"budget": {"rho": 1, "delta": 1e-6}}}
    (message,) = mistakes_of(policy)
    assert message.startswith("analysts.alice.tables.visit.budget.delta = 1e-06: expected none")
    policy["analysts"]["alice"]["tables"]["visit"]["budget"]["delta"] = 1e-9
    shares = parse_policy(policy).analysts["alice"]
    assert {name: (b.epsilon, b.rho, b.pure) for name, b in shares.items()} == {
        "person": (1, None, True),
        "visit": (None, 1, False),
        "trip": (1, None, False),
    }


@pytest.mark.parametrize("policy", [{}, {"tables": {}}, {"tables": {"person": {}}}])
def test_what_is_missing_is_named(policy: dict[str, Any]) -> None:
    told = "\n".join(mistakes_of(policy))
    assert "expected at least one table" in told or "tables.person.budget: missing" in told


def test_messages_speak_no_pydantic() -> None:
    for key, value, _, _ in CASES:
        with pytest.raises(PolicyError) as caught:
            parse_policy(with_(key, value))
        for word in ("pydantic", "http", "Input should", "type=", "validation error"):
            assert word not in str(caught.value)


def test_a_huge_exponent_is_refused_at_once(tmp_path: Path) -> None:
    file = tmp_path / "people.toml"
    file.write_text(
        "[tables.person]\nbudget = { epsilon = 1e999999999 }\n"
        "attributes = { age = { bins = [0, 1e999999999] } }\n"
    )
    with pytest.raises(PolicyError) as caught:
        load_policy(file)
    assert len(caught.value.mistakes) == 2


def test_toml_errors_name_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "people.toml"
    file.write_text("[tables.person]\nbudget = \n")
    with pytest.raises(PolicyError, match=r"people\.toml is not valid TOML: .*line 2"):
        load_policy(file)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(PolicyError, match="is not UTF-8 text"):
        load_policy(file)
    with pytest.raises(PolicyError, match="cannot be read: No such file"):
        load_policy(tmp_path / "absent.toml")


def test_the_ledger_is_not_the_source() -> None:
    wrong = with_("source.url", "people.db")
    wrong["ledger"] = "./people.db"
    (message,) = mistakes_of(wrong)
    assert message.startswith('ledger = "./people.db": ')
