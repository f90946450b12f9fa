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
from pydantic import ValidationError

from tallyveil.errors import PolicyError
from tallyveil.policy import Policy, load_policy, parse_policy
from tallyveil.policy.value_checks import PolicyPlace

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


PERSON = "tables.person"
AGE = f"{PERSON}.attributes.age"
SEX = f"{PERSON}.attributes.sex"
SHARE = "analysts.alice.budget"
OWN = "analysts.alice.tables"

TLS = {"certificate": "a.crt", "key": "a.key"}

# key set, value, what follows the key in the one message, what it goes on to say
CASES: list[tuple[str, Any, str, str]] = [
    ("server.workers", 0, " = 0: ", "processes from 1 to 32"),
    ("server.max_connections", 0, " = 0: ", "from 1 to 10,000"),
    ("server.max_user_connections", 1.5, " = 1.5: ", "a whole number"),
    ("server.max_message", True, " = true: ", "MiB"),
    ("server.memory", "1", ' = "1": ', "MiB"),
    ("server.startup_timeout", 0, " = 0: ", "seconds above 0"),
    ("server.idle_timeout", math.nan, " = nan: ", "seconds above 0"),
    ("server.statement_timeout", math.inf, " = inf: ", "seconds"),
    ("server.send_timeout", 86_401, " = 86401: ", "at most 86,400"),
    ("server.users", 3, " = 3: ", "a path in quotes"),
    ("server.password", "x", ": unknown key; ", "expected one of tls, users"),
    ("catalog", "off", ' = "off": ', "[catalog]"),
    ("catalog.enabled", "no", ' = "no": ', "true or false"),
    ("catalog.binaries", 16, " = 16: ", "a path in quotes"),
    ("catalog.url", "postgresql://", ": unknown key; ", "binaries"),
    ("server.tls", "server.crt", ' = "server.crt": ', "certificate ="),
    ("server.tls", {"key": "a.key"}, ".certificate: missing; ", "a path in quotes"),
    ("server.tls", TLS | {"cert": "x"}, ".cert: unknown key; ", "clientcert"),
    (
        "server.tls",
        TLS | {"clientcert": "verify-ca", "client_ca": "ca.crt"},
        '.clientcert = "verify-ca": ',
        '"cert"',
    ),
    ("server.tls", TLS | {"clientcert": "cert"}, ".clientcert: ", "expected also client_ca"),
    (f"{PERSON}.budget.epsilon", 0, " = 0: ", "a number ε"),
    (f"{PERSON}.budget.epsilon", -1.5, " = -1.5: ", "1e-12"),
    (f"{PERSON}.budget.epsilon", math.nan, " = nan: ", "ε"),
    (f"{PERSON}.budget.epsilon", math.inf, " = inf: ", "ε"),
    (f"{PERSON}.budget.epsilon", True, " = true: ", "ε"),
    (f"{PERSON}.budget.epsilon", "1", ' = "1": ', "ε"),
    (f"{PERSON}.budget", {"rho": 0.1, "epsilon": 1}, ": ", "both are"),
    (f"{PERSON}.budget", {"rho": 0.1}, ": ", "delta missing"),
    (f"{PERSON}.budget", {"delta": 1e-9}, ": ", "neither is given"),
    (f"{PERSON}.budget", {"rho": -1, "delta": 1e-9}, ".rho = -1: ", "ρ"),
    (f"{PERSON}.budget.delta", 0, " = 0: ", "a number δ"),
    (f"{PERSON}.budget.delta", 0.5, " = 0.5: ", "0.001"),
    (f"{PERSON}.budget.delta", math.nan, " = nan: ", "a number δ"),
    (f"{PERSON}.mechanisms", [], " = []: ", "a list of names"),
    (f"{PERSON}.mechanisms", "laplace", " = ", "a list of names"),
    (f"{PERSON}.mechanisms", ["auto"], " = ", "a list of names"),
    (f"{PERSON}.mechanisms", ["La Place"], " = ", "the name of a"),
    (f"{PERSON}.inference_control", 5, " = 5: ", "a limit such"),
    (
        f"{PERSON}.inference_control",
        {"confidence": 0.9},
        ".min_half_width: missing",
        "the least half-width",
    ),
    (
        f"{PERSON}.inference_control",
        {"min_half_width": math.nan},
        ".min_half_width = nan: ",
        "a positive number",
    ),
    (
        f"{PERSON}.inference_control",
        {"min_half_width": 5, "confidence": 1},
        ".confidence = 1: ",
        "strictly between 0 and 1",
    ),
    (
        f"{PERSON}.inference_control",
        {"min_half_width": 5, "min_count": 0},
        ".min_count = 0: ",
        "a whole number of records",
    ),
    (
        f"{PERSON}.inference_control",
        {"min_half_width": 5, "min_cuont": 2},
        ".min_cuont: ",
        "did you mean min_count?",
    ),
    ("defaults.rho", 0.1, ": ", "expected epsilon or half_width"),
    ("defaults.mechanism", 3, " = 3: ", "the name of a mechanism"),
    (f"{PERSON}.budget", 3, " = 3: ", "{ epsilon = 3.0 }"),
    (f"{PERSON}.neighbours", "swap", ' = "swap": ', '"replace"'),
    (f"{PERSON}.from", "two words", ' = "two words": ', "a SELECT"),
    (f"{PERSON}.from", "a; DROP TABLE b", " = ", "a SELECT"),
    (f"{PERSON}.form", "people", ": ", "did you mean from?"),
    (f"{PERSON}.invariants", [{"sql": ""}], "[0].sql = ", "expected a SELECT"),
    (f"{PERSON}.invariants", [{}], "[0]: ", "neither is given"),
    (f"{PERSON}.invariants", {"sql": "SELECT 1"}, " = ", "[[tables."),
    (
        f"{PERSON}.invariants",
        [{"sql": "SELECT 1", "from_public": "a.b"}],
        "[0]: ",
        "both are given",
    ),
    (f"{PERSON}.invariants", [{"from_public": "a"}], "[0].from_public = ", '"census.persons"'),
    (f"{PERSON}.invariants", [{"from_public": "a.b"}], "[0].from_public = ", "[public.a]"),
    (
        f"{PERSON}.invariants",
        [{"sql": "SELECT 1", "query": "SELECT 1"}],
        "[0].query: ",
        "one of sql",
    ),
    (
        f"{PERSON}.invariants",
        [{"sql": "SELECT 1", "acknowledge": "all"}],
        "[0].acknowledge = ",
        "a list of counts",
    ),
    (f"{PERSON}.count", 3, " = 3: ", "the number of records that a row stands for"),
    (f"{PERSON}.count", "", ' = "": ', "number of records"),
    (
        PERSON,
        {**RIGHT["tables"]["person"], "count": "n", "privacy_unit": {"column": "p", "max_rows": 2}},
        ": ",
        "either count or privacy_unit",
    ),
    (f"{PERSON}.privacy_unit", "person", " = ", '"row" or {'),
    (f"{PERSON}.privacy_unit", {"column": "pid"}, ": ", "max_rows"),
    (
        f"{PERSON}.privacy_unit",
        {"column": "pid", "max_rows": 0},
        ".max_rows = 0: ",
        "a whole number of rows",
    ),
    (f"{PERSON}.attributes", {}, " = {}: ", "at least one attribute"),
    (AGE, 3, " = 3: ", "such as { range = [0, 115] }"),
    (SEX, ["F", "M"], ' = ["F", "M"]: ', 'such as { values = ["F", "M"] }'),
    (AGE, {}, ": ", "exactly one of values, values_from, range, bins; found none"),
    (AGE, {"range": [0, 1], "bins": [0, 1]}, ": ", "found range and bins"),
    (AGE, {"range": [1, 0]}, ".range = [1, 0]: ", "lower end first"),
    (AGE, {"range": [0, 1.5]}, ".range = [0, 1.5]: ", "two whole numbers"),
    (AGE, {"range": [False, True]}, ".range = [false, true]: ", "two whole numbers"),
    (AGE, {"range": [0, 10**6]}, ".range = [0, 1000000]: ", "1,000,001; declare bins"),
    (AGE, {"range": [0, 2**63]}, ".range = ", "64 bits"),
    (AGE, {"range": [0, dt.date(2020, 1, 1)]}, ".range = [0, 2020-01-01]: ", "two dates"),
    (AGE, {"range": [0, 9], "step": "1 minute"}, ".range = [0, 9]: ", "of one kind"),
    (AGE, {"range": [0, 9], "step": 0}, ".step = 0: ", "above 0"),
    (AGE, {"range": [0, 9], "step": "15 min"}, '.step = "15 min": ', "15 minutes"),
    (AGE, {"range": [0, 9], "step": 0.0000001}, ".step = 1e-07: ", "6 decimals"),
    (AGE, {"range": [0, 0.55], "step": 0.1}, ".range = ", "multiples of the step, 0.1"),
    (AGE, {"range": [0, 10**6], "step": 0.5}, ".range = ", "2,000,001; declare a larger step; in"),
    (AGE, {"range": [dt.date(1, 1, 1), dt.date(9999, 1, 1)]}, ".range = ", "declare fewer days"),
    (AGE, {"range": [0, 10**15], "step": 0.5}, ".range = ", "15 digits"),
    (AGE, {"range": [0, 9], "round": True}, ".round = true: ", "with a step only"),
    (AGE, {"values": [1], "step": 1}, ".step: ", "with a range only"),
    (AGE, {"range": 2 * [dt.datetime(2020, 1, 1)]}, ".range = ", 'such as step = "15 minutes"'),
    (
        AGE,
        {"range": [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, 1)], "step": "25 minutes"},
        ".range = [2020-01-01T00:00:00, 2020-01-01T01:00:00]: ",
        "the last step is at 2020-01-01 00:50:00",
    ),
    (AGE, {"range": 2 * [dt.datetime(2020, 1, 1, tzinfo=dt.UTC)]}, ".range = ", "a step too"),
    (
        AGE,
        {"range": [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, tzinfo=dt.UTC)], "step": 1},
        ".range = ",
        "both with an offset or neither",
    ),
    (
        AGE,
        {"range": 2 * [dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=5)))]}
        | {"step": "1 hour"},
        ".range = ",
        "years from 2 to 9998",
    ),
    (AGE, {"range": 2 * [dt.time(1, tzinfo=dt.UTC)]}, ".range = ", "two times of day"),
    (AGE, {"range": [dt.time(1), dt.date(2020, 1, 1)]}, ".range = ", "two times of day"),
    (AGE, {"range": ["0 days", "1 month"], "step": "1 hour"}, ".range = ", "no number of days"),
    (AGE, {"range": ["0 days", "1 day"]}, ".range = ", 'such as step = "15 minutes"'),
    (AGE, {"range": ["0 days", "1 hour"], "step": "25 minutes"}, ".range = ", "is at 00:50:00"),
    (AGE, {"range": ["0.1 seconds", "1 day"], "step": "1 hour"}, ".range = ", "whole seconds"),
    (AGE, {"range": ["0 days", "10000000 days"], "step": "1 hour"}, ".range = ", "durations"),
    (AGE, {"range": ["0 days", dt.time(1)], "step": "1 hour"}, ".range = ", "two durations"),
    (AGE, {"range": 2 * [dt.date(2020, 1, 1)], "step": 1}, ".range = ", "a cell for every day"),
    (AGE, {"bins": [0, 1], "represent": [1]}, ".represent = [1]: ", "within each bin"),
    (AGE, {"bins": [0, 1], "represent": "mean"}, '.represent = "mean": ', '"middle"'),
    (AGE, {"range": [0, 1], "represent": "middle"}, ".represent: ", "with bins only"),
    (SEX, {"values": ["Fe"], "prefix": 1}, ".prefix = 1: ", "at most so many characters"),
    (AGE, {"range": [0, 1], "prefix": 1}, ".prefix: ", "texts only"),
    (SEX, {"values_from": "sexes"}, '.values_from = "sexes": ', "census.persons"),
    (SEX, {"values_from": "sexes.name"}, '.values_from = "sexes.name": ', "[public.sexes]"),
    (AGE, {"bins": [1]}, ".bins = [1]: ", "at least two increasing"),
    (AGE, {"bins": [1, 1]}, ".bins = [1, 1]: ", "at least two increasing"),
    (AGE, {"bins": [0, math.nan]}, ".bins = [0, nan]: ", "at least two increasing"),
    (AGE, {"bins": [0, math.inf]}, ".bins = [0, inf]: ", "at least two increasing"),
    (AGE, {"bins": [0.0, 2**53, 2**53 + 1]}, ".bins = ", "at least two increasing"),
    (f"{PERSON}.count_range", {"at_most": 9, "by": ["no"]}, ".by: ", '"no" is not one'),
    (AGE, {"values": []}, ".values = []: ", "it is empty"),
    (AGE, {"values": [1, "1"]}, '.values = [1, "1"]: ', "one type"),
    (AGE, {"values": [1, True]}, ".values = [1, true]: ", "one type"),
    (AGE, {"values": [1, 1]}, ".values = [1, 1]: ", "1 occurs twice"),
    (SEX, {"values": ["F", "F"]}, '.values = ["F", "F"]: ', '"F" occurs twice'),
    (AGE, {"values": 2 * [dt.date(2020, 1, 1)]}, ".values = ", "; 2020-01-01 occurs twice"),
    (AGE, {"bins": [0, 0.5, 10**400]}, ".bins = [0, 0.5, 1", "at least two increasing"),
    (AGE, {"values": [0.5]}, ".values = [0.5]: ", "declare bins"),
    (AGE, {"values": [dt.datetime(2020, 1, 1)]}, ".values = ", "one type"),
    (AGE, {"values": "ab"}, '.values = "ab": ', "a list of values"),
    (AGE, {"range": [0, 1], "nullable": "no"}, '.nullable = "no": ', "true or false"),
    (AGE, {"range": [0, 1], "other": "rest"}, '.other = "rest": ', "reads as NULL"),
    (AGE, {"range": [0, 1], "other": True, "clamp": True}, ": ", "either clamp or other"),
    (AGE, {"range": [0, 1], "nulable": True}, ".nulable: ", "did you mean nullable?"),
    (SEX, {"values": ["F"], "clamp": True}, ".clamp = true: ", "range or bins only"),
    (SEX, {"values": ["F"], "other": "F"}, '.other = "F": ', "another label"),
    (SEX, {"values": ["other"], "other": True}, ".other = true: ", "another label"),
    (SEX, {"values": ["F"], "other": "a\0b"}, '.other = "a\\u0000b": ', "without NUL"),
    (SEX, {"values": ["F"], "other": 3}, ".other = 3: ", "a label"),
    (SEX, {"values": ["F"], "column": ""}, '.column = "": ', "name of a column"),
    ("tables.person.attributes.Age", {"range": [0, 1]}, ": ", "lower"),
    (f"{PERSON}.attributes.__n", {"range": [0, 1]}, ": ", "__"),
    (f"{PERSON}.attributes.user", {"range": [0, 1]}, ": ", "resv"),
    (f"{PERSON}.attributes", {"a b": {"range": [0, 1]}}, '."a b": ', "lett"),
    ("tables.dp", RIGHT["tables"]["person"], ": ", "the schema of tallyveil's"),
    ("source.url", "mysql://h/d", ' = "mysql://h/d": ', "a Parquet file"),
    ("source.url", "mysql://u:a@b@h/d", ' = "mysql://u:…@h/d": ', "a Parquet file"),
    ("source.url", "postgresql://u:a@b@h/d", ' = "postgresql://u:…@h/d": ', "special in a url"),
    ("source.url", "pg:host=h password=ab", ' = "pg:host=h password=…": ', "a Parquet file"),
    ("source.url", "people.xlsx", ' = "people.xlsx": ', "a Parquet file"),
    ("source", "people.csv", ' = "people.csv": ', "[source]"),
    ("defaults.epsilon", 0, " = 0: ", "a number ε"),
    ("defaults.half_width", -1, " = -1: ", "a positive number"),
    ("defaults.nonnegative", "perhaps", " = ", "true or false"),
    ("defaults.confidence", 1, " = 1: ", "strictly between 0 and 1"),
    ("defaults.confidence", Decimal("1e400"), " = 1", "strictly between 0"),
    ("defaults.half_width", Decimal("1e350"), " = 1", "a positive number"),
    ("defaults", {"epsilon": 1, "half_width": 5}, ": ", "either epsilon or half_width"),
    ("analysts", {}, " = {}: ", "[analysts.alice]"),
    ("analysts", 3, " = 3: ", "[analysts.alice]"),
    ("analysts.alice", 3, " = 3: ", "a table of keys"),
    ("analysts.alice", {}, ": ", "budget missing"),
    ("analysts.alice", {"bugdet": 1, "budget": {"epsilon": 1}}, ".bugdet: ", "budge"),
    ("analysts", {"": {"budget": {"epsilon": 1}}}, '."": ', "which an analyst connects"),
    ("analysts", {" al": {"budget": {"epsilon": 1}}}, '." al": ', "which an analyst connects"),
    ("analysts", {"a\0": {"budget": {"epsilon": 1}}}, ".", "which an analyst connects"),
    ("analysts", {"a@b.c": {"budget": {"epsilon": 2}}}, '."a@b.c".budget.epsilon = 2', "1"),
    (SHARE, 1, " = 1: ", "a share of the tables' budgets"),
    (SHARE, {}, ": ", "neither is given"),
    (SHARE, {"epsilon": 1, "rho": 1}, ": ", "both are given"),
    (SHARE, {"rho": 0.1}, ".rho = 0.1: ", "expected epsilon, as in tables.person.budget"),
    (SHARE, {"epsilon": 1, "delta": 1e-9}, ".delta = 1e-09: ", "expected no delta"),
    (f"{SHARE}.epsilon", 0, " = 0: ", "a number ε"),
    (f"{SHARE}.epsilon", math.nan, " = nan: ", "a number ε"),
    (f"{SHARE}.epsilon", 1.5, " = 1.5: ", "at most 1, the epsilon of tables.person"),
    ("analysts.alice.tables", {}, " = {}: ", "shares by table"),
    (f"{OWN}.persn", {"budget": {"epsilon": 1}}, ": ", "did you mean person?"),
    (f"{OWN}.visit", {"budget": {"epsilon": 1}}, ": ", "expected one of person"),
    (f"{OWN}.person", {}, ".budget: ", "missing; expected a share"),
    (f"{OWN}.person", 1, " = 1: ", "a table of keys"),
    (f"{OWN}.person.budget", {"epsilon": 2}, ".epsilon = 2: ", "at most 1,"),
    (f"{OWN}.person.budget", {"rho": 1}, ".rho = 1: ", "expected epsilon"),
    ("ledger", ":memory:", ' = ":memory:": ', "an SQLite file"),
    ("ledger", {"must_exist": 1}, " = { must_exist = 1 }: ", "must_exist = true"),
    ("ledger", {"file": "a"}, ' = { file = "a" }: ', "must_exist = true"),
    ("ledger", {"path": ":memory:"}, ' = { path = ":memory:" }: ', "an SQLite file"),
    ("ledger", "./:memory:", ' = "./:memory:": ', "an SQLite file"),
    ("ledger", "postgresql://h/d", ' = "postgresql://h/d": ', "an SQLite file"),
    (
        f"{PERSON}.count_range",
        {"at_most": 20, "by": ["x", ""]},
        '.by = ["x", ""]: ',
        "a list of attributes",
    ),
    ("tabels", {}, ": ", "did you mean tables?"),
    ("public.person", {"url": "p.csv"}, ": ", "tables.person has it already"),
    ("public.region", {}, ": ", 'expected url = "…" or from = "…"'),
    (f"{PERSON}.data", "replaced", ' = "replaced": ', 'expected "fixed", { append = "day", late'),
    (f"{PERSON}.count_range", "20", ' = "20": ', "a whole number or {"),
]


@pytest.mark.parametrize(("key", "value", "start", "says"), CASES)
def test_one_mistake_one_message(key: str, value: Any, start: str, says: str) -> None:
    (message,) = mistakes_of(with_(key, value))
    assert message.startswith(key + start)
    assert says.replace("resv", "reserved word") in message
    for word in ("pydantic", "http", "Input should", "type=", "validation error"):
        assert word not in message


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("source.url", "mysql://u:hunter2@h/d"),
        ("source.url", "postgresql://u:hunter2@@h/d"),
        ("source.url", "postgresql://u:hunter2/d"),
        ("source.url", "postgresql://u:hunter2"),
        ("source.url", "postgresql://u:hunter2/@h/d"),
        ("source.url", "postgresql://u:hunter2%@h/d"),
        ("source.url", {"key": "hunter2"}),
        ("source", "pg:host=h password=hunter2"),
        ("source.url", "pg:host=h password='hunter2'"),
        ("source.url", "pg:host=h password='hunter2"),
        ("source.url", "pg('host=h password = ''hunter2'' user=u')"),
        ("source.url", "abfs:AccountKey=hunter2"),
        ("source.url", "s3:access_key='hunter2'"),
        ("source.url", "https://h/people.parquet?sig=hunter2&v=1"),
        ("source", [{"url": "x", "password": "hunter2"}]),
        ("public.region.url", ["hunter2"]),
        ("server.users", {"alice": "hunter2"}),
        ("server.password", "hunter2"),
        ("ledger", {"path": "a", "password": "hunter2"}),
        ("source.url", "u:hunter2@h"),
        ("source.url", "foo:hunter2@x.zzz"),
        ("source.url", "//u:hunter2@h/x.avro"),
        ("source.url", "abfss://hunter2@h/x.avro"),
        ("source.url", "x.avro {pwd:hunter2}"),
        ("source.url", '{"token": "hunter2"}'),
    ],
)
def test_no_mistake_shows_a_secret(key: str, value: Any) -> None:
    (message,) = mistakes_of(with_(key, value))
    assert message.startswith(key)
    assert "hunter2" not in message
    place = PolicyPlace(Path(), Path("ledger"), None)
    with pytest.raises(ValidationError) as caught:
        Policy.model_validate(with_(key, value), context=place)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (f"{PERSON}.name", "people"),
        (f"{PERSON}.domain", 1),
        ("path", "x"),
        ("source", {"url": "a.csv", "path": "b"}),
    ],
)
def test_what_follows_from_other_keys_is_no_key(key: str, value: Any) -> None:
    (message,) = mistakes_of(with_(key, value))
    assert ": unknown key; " in message


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
    assert message.startswith("analysts.alice.tables.visit.budget.delta = 1e-06: expected no delta")
    policy["analysts"]["alice"]["tables"]["visit"]["budget"]["delta"] = 1e-9
    parsed = parse_policy(policy)
    shares = {name: parsed.share("alice", name) for name in parsed.tables}
    assert {name: b and (b.epsilon, b.rho, b.pure) for name, b in shares.items()} == {
        "person": (1, None, True),
        "visit": (None, 1, False),
        "trip": (1, None, False),
    }


@pytest.mark.parametrize("policy", [{}, {"tables": {}}, {"tables": {"person": {}}}])
def test_what_is_missing_is_named(policy: dict[str, Any]) -> None:
    told = "\n".join(mistakes_of(policy))
    assert "expected at least one table" in told or "tables.person.budget: missing" in told


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
    with pytest.raises(
        PolicyError, match=r"people\.toml is not valid TOML\nDETAIL: .*line 2"
    ) as caught:
        load_policy(file)
    assert str(caught.value).count("line 2") == 1
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(PolicyError, match="is not UTF-8 text"):
        load_policy(file)
    with pytest.raises(PolicyError, match="cannot be read: No such file"):
        load_policy(tmp_path / "absent.toml")


def test_the_ledger_is_not_the_source() -> None:
    wrong = with_("source.url", "people.db")
    wrong["ledger"] = "./people.db"
    (message,) = mistakes_of(wrong)
    assert message.startswith('ledger = "people.db": ')
