"""The commands on a small table: what they print, where, and their exit status."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tallyveil.cli.demo_data import write_people
from tallyveil.proxy.inprocess import login_name
from tests.cli.shell import shell

ROOM = [("recorded", "rows"), ("recorded", "bytes"), ("rows", "left"), ("bytes", "left")]


def test_help_names_every_command() -> None:
    found = shell("--help")
    assert found.exit_code == 0
    for command in (
        "serve",
        "sql",
        "explain",
        "init",
        "check",
        "budget",
        "audit",
        "mechanism",
        "demo",
    ):
        assert command in found.stdout
        assert shell(command, "--help").exit_code == 0


@pytest.mark.parametrize("arguments", [["nonsense"], ["sql"], ["serve", "x", "--port", "70000"]])
def test_a_wrong_command_line_is_status_2(arguments: list[str]) -> None:
    assert shell(*arguments).exit_code == 2


def test_sql_prints_rows_and_says_the_cost_on_standard_error(policy: Path) -> None:
    found = shell("sql", policy, "SELECT sex, count(*) AS n FROM person GROUP BY sex ORDER BY sex")
    assert found.exit_code == 0
    lines = found.stdout.splitlines()
    assert lines[0].split() == ["sex", "|", "n"]
    assert [line.split()[0] for line in lines[2:6]] == ["F", "M", "other", "NULL"]
    assert lines[6] == "(4 rows)"
    assert found.stderr.startswith("NOTICE: cost epsilon 0.05; ")


def test_sql_as_json_gives_one_object_per_statement(policy: Path) -> None:
    query = "SET dp.confidence = 0.9; SELECT count(*) AS n, avg(age) AS a FROM person"
    found = shell("sql", policy, query, "--json", "--epsilon", "0.2")
    first, second = map(json.loads, found.stdout.splitlines())
    assert first == {"tag": "SET", "columns": [], "types": [], "rows": [], "notices": []}
    assert second["columns"] == ["n", "a"]
    assert second["types"] == ["BIGINT", "DOUBLE"]
    [[n, a]] = second["rows"]
    assert isinstance(n, int)
    assert isinstance(a, float)
    (notice,) = second["notices"]
    assert notice["message"].startswith("cost epsilon 0.2; ")
    assert (notice["severity"], notice["sqlstate"], notice["position"]) == ("NOTICE", "00000", None)


def test_sql_as_json_says_all_of_a_warning(policy: Path) -> None:
    query = "SELECT 1; SELECT count(*) FROM person WHERE sex = 'f'"
    found = shell("sql", policy, query, "--json")
    assert found.stderr == ""
    warning, _ = json.loads(found.stdout.splitlines()[1])["notices"]
    assert warning == {
        "severity": "WARNING",
        "sqlstate": "01000",
        "message": "'f' is not a declared value of sex: no record is counted by it",
        "detail": "Records with other values of sex are counted as 'other'.",
        "hint": "Did you mean 'F'? SELECT DISTINCT sex FROM person lists the declared values.",
        "position": query.index("'f'") + 1,
    }


def test_sql_speaks_duckdb_where_asked(policy: Path) -> None:
    query = "SELECT count(*) AS n FROM person GROUP BY ALL"
    assert shell("sql", policy, query, "--dialect", "duckdb").exit_code == 0


def test_an_error_shows_the_place_in_the_sql(policy: Path) -> None:
    found = shell("sql", policy, "SELECT count(*)\nFROM persn")
    assert found.exit_code == 1
    assert found.stdout == ""
    first, line, caret, *_ = found.stderr.splitlines()
    assert first == 'ERROR 42P01: relation "persn" does not exist'
    assert line == "LINE 2: FROM persn"
    assert caret.index("^") == line.index("persn")


@pytest.mark.parametrize("command", ["sql", "explain"])
def test_an_error_as_json_points_into_the_sql(policy: Path, command: str) -> None:
    query = "SELECT count(*) FROM person WHERE income > 50000"
    found = shell(command, policy, query, "--json")
    assert found.exit_code == 1
    error = json.loads(found.stdout)["error"]
    assert error["sqlstate"] == "22023"
    assert query[error["position"] - 1 :].startswith("income")
    assert "30000 and 60000" in error["hint"]


def test_what_cannot_be_paid_is_status_1_and_charges_nothing(policy: Path) -> None:
    found = shell("sql", policy, "SELECT count(*) FROM person", "--epsilon", "4")
    assert found.exit_code == 1
    assert found.stderr.startswith("ERROR 53400: ")
    assert json.loads(shell("budget", policy, "--json").stdout)[0]["charges"] == 0


def test_explain_is_free(policy: Path) -> None:
    found = shell("explain", policy, "SELECT count(*) FROM person", "--half-width", "100")
    assert found.exit_code == 0
    assert "interval ±100" in found.stdout
    assert json.loads(shell("budget", policy, "--json").stdout)[0]["spent"] == 0


def test_explain_sums_several_statements_and_runs_none(policy: Path) -> None:
    count = "SELECT count(*) FROM person"
    found = shell("explain", policy, f"{count}; SELECT 1; {count} WHERE age < 30;")
    assert found.exit_code == 0
    assert found.stdout.count("Cost: epsilon 0.05 of person's budget") == 2
    assert "Public query: no protected table, no cost" in found.stdout
    assert found.stdout.splitlines()[-1] == (
        "Together at most: epsilon 0.1 of person's budget; 3 remains"
    )
    for other, says in [("SET dp.epsilon = 1", "queries, not SET"), ("SELEC", " " * 37 + "^")]:
        failed = shell("explain", policy, f"{count}; {other}")
        assert (failed.exit_code, failed.stdout) == (1, "")
        assert says in failed.stderr
    assert json.loads(shell("budget", policy, "--json").stdout)[0]["spent"] == 0


def test_budget_needs_no_data_and_leaves_no_trace(policy: Path) -> None:
    (policy.parent / "people.parquet").unlink()
    found = shell("budget", policy)
    assert found.exit_code == 0
    assert "There is no ledger " in found.stdout
    assert "a new one would begin with the whole budget" in found.stdout
    assert sorted(path.name for path in policy.parent.iterdir()) == ["people.toml", "region.csv"]


def test_budget_says_what_was_spent(policy: Path) -> None:
    shell("sql", policy, "SELECT count(*) FROM person", "--epsilon", "0.3")
    (policy.parent / "people.parquet").unlink()
    [row] = json.loads(shell("budget", policy, "--json").stdout)
    for one in (row, row["analysts"][0]):
        recorded = [one.pop(f"{what}_{unit}") for what, unit in ROOM]
        assert recorded[0] == 1
        assert 0 < recorded[1] < 200
    assert (recorded[2], recorded[3]) == (1_999_999, 256_000_000 - recorded[1])
    (declared,) = row.pop("declared")
    assert (declared["budget"], declared["shares"], row.pop("in_force")) == ("epsilon 3", "", None)
    assert row == {
        "table": "person",
        "budget": 3.0,
        "spent": 0.3,
        "remaining": 2.7,
        "charges": 1,
        "exact": True,
        "unit": "epsilon",
        "delta": None,
        "epsilon_budget": 3.0,
        "epsilon_spent": 0.3,
        "most_expensive": "every record",
        "analysts": [
            {
                "analyst": login_name(),
                "unit": "epsilon",
                "budget": None,
                "spent": 0.3,
                "remaining": None,
                "charges": 1,
                "exact": True,
                "most_expensive": "every record",
            }
        ],
    }
    assert "2.7" in shell("budget", policy).stdout


def test_budget_does_not_tie_the_ledger_to_a_draft(policy: Path) -> None:
    """A table that nobody asked about may still be declared differently after a look."""
    shell("sql", policy, "SELECT count(*) FROM person")
    draft = '\n[tables.draft]\nfrom = "people"\nbudget = { epsilon = 1 }\nbeside = ["person"]\n'
    declared = policy.read_text()
    for attribute in ("age = { range = [0, 9] }", "age = { range = [0, 99] }"):
        policy.write_text(f"{declared}{draft}[tables.draft.attributes]\n{attribute}\n")
        assert shell("budget", policy).exit_code == 0
    assert shell("sql", policy, "SELECT count(*) FROM draft").exit_code == 0


def test_budget_refuses_a_file_that_is_no_ledger(policy: Path) -> None:
    policy.with_name("people.ledger.sqlite").write_text("not a ledger")
    found = shell("budget", policy)
    assert found.exit_code == 1
    assert "people.ledger.sqlite" in found.stderr


def test_check_sums_the_policy_up(policy: Path) -> None:
    found = shell("check", policy, "--source")
    assert found.exit_code == 0
    assert "budget ε = 3" in found.stdout
    assert "has every column" in found.stdout
    assert json.loads(shell("check", policy, "--json").stdout)["summary"]


def test_check_says_what_invariants_give_away(policy: Path, tmp_path: Path) -> None:
    """The ledger is not written by it, and a small count is named as the policy has to name it."""
    text = policy.read_text().replace('"add_remove"', '"replace"')
    sql = "SELECT state, count(*) FROM person GROUP BY state"
    policy.write_text(f'{text}\n[[tables.person.invariants]]\nsql = "{sql}"\n')
    found = shell("check", policy, "--source")
    if found.exit_code:
        names = re.search(r"acknowledge = (\[.*\])", found.stderr.replace("\n", " "))
        assert names is not None
        policy.write_text(f"{policy.read_text()}acknowledge = {names.group(1)}\n")
        found = shell("check", policy, "--source")
    assert found.exit_code == 0
    assert f"exact, free and without protection: {sql}" in found.stdout
    assert re.search(
        r"invariants of person: rank \d+ on [\d,]+ cells; they determine \d+ counts", found.stdout
    )
    assert f"not published yet; serving publishes it for good: {sql}" in found.stdout
    assert "guarantee: for any two tables that agree on the invariants and" in found.stdout
    told = json.loads(shell("check", policy, "--source", "--json").stdout)["invariants"]["person"]
    total, *states = told["counts"]
    assert total["name"] == "all records"
    assert told["rank"] == len(states)  # the total follows from them
    left = len(told["counts"]) - 20
    assert (f"and {left} more; --json lists all" in found.stdout) == (left > 0)
    assert sum(one["value"] for one in states) == total["value"]
    assert all(one["name"].startswith("state ") for one in states)
    assert not list(tmp_path.glob("*.sqlite"))


def test_check_says_everything_that_is_wrong(policy: Path) -> None:
    text = (
        policy.read_text().replace("epsilon = 3.0", "epsilon = -3").replace("\nsex  ", "\n1sex  ")
    )
    policy.write_text(text)
    found = shell("check", policy)
    assert found.exit_code == 1
    assert "2 mistakes" in found.stderr
    assert "budget.epsilon = -3" in found.stderr
    assert len(json.loads(shell("check", policy, "--json").stdout)["error"]["mistakes"]) == 2


@pytest.mark.parametrize("options", [[], ["--source"]])
def test_check_says_every_file_that_is_missing(policy: Path, options: list[str]) -> None:
    (policy.parent / "people.parquet").unlink()
    (policy.parent / "region.csv").unlink()
    found = shell("check", policy, *options)
    assert found.exit_code == 1
    assert f"source.url: there is no file {policy.parent / 'people.parquet'}" in found.stderr
    assert f"public.region.url: there is no file {policy.parent / 'region.csv'}" in found.stderr
    assert "HINT: Put it there, or correct the path" in found.stderr
    error = json.loads(shell("check", policy, *options, "--json").stdout)["error"]
    assert error["sqlstate"] == "58030"


@pytest.mark.parametrize("url", ["//u:hunter2@h/x.parquet", "u:hunter2@h/x.csv"])
def test_a_missing_file_is_named_without_a_password(tmp_path: Path, url: str) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(
        f'[source]\nurl = "{url}"\n[tables.t]\nbudget = {{ epsilon = 1.0 }}\n'
        "[tables.t.attributes]\na = { range = [0, 3] }\n"
    )
    found = shell("check", policy, "--source")
    assert "there is no file" in found.stderr
    assert "hunter2" not in found.stdout + found.stderr


@pytest.mark.parametrize("options", [[], ["--source"]])
def test_check_says_that_a_view_names_a_table_that_is_missing(
    policy: Path, options: list[str]
) -> None:
    text = policy.read_text()
    policy.write_text(f'{text}\n[views.west]\nsql = "SELECT state FROM regions"\n')
    found = shell("check", policy, *options)
    assert found.exit_code == 1
    assert "views.west.sql" in found.stderr
    assert "regions" in found.stderr
    joined = "SELECT p.sex, r.* FROM person p JOIN region r USING (state)"
    policy.write_text(f'{text}\n[views.west]\nsql = "{joined}"\n')
    assert shell("check", policy, *options).exit_code == 0


@pytest.mark.parametrize("command", [["check"], ["check", "--source"], ["sql", "SELECT 1 AS one"]])
def test_a_public_table_with_lists_is_refused_by_check_as_by_serving(
    policy: Path, command: list[str]
) -> None:
    event = policy.parent / "event.parquet"
    duckdb.execute(f"COPY (SELECT [1] AS codes) TO '{event}'")
    policy.write_text(policy.read_text() + '\n[public.event]\nurl = "event.parquet"\n')
    found = shell(command[0], policy, *command[1:])
    assert found.exit_code == 1
    assert "public.event: column codes has type INTEGER[], which a public table" in found.stderr


@pytest.mark.parametrize(
    ("wrong", "right"), [("people.parquet", "poeple.parquet"), ("\nsex  ", "\nsexx ")]
)
def test_a_mistake_that_keeps_a_source_from_being_read_can_be_mended(
    policy: Path, wrong: str, right: str
) -> None:
    text = policy.read_text()
    assert wrong in text
    policy.write_text(text.replace(wrong, right))
    assert shell("sql", policy, "SELECT count(*) FROM person").exit_code == 1
    policy.write_text(text)
    assert shell("sql", policy, "SELECT count(*) FROM person").exit_code == 0


def test_a_ledger_of_another_policy_without_charges_may_be_deleted(policy: Path) -> None:
    shell("sql", policy, "SELECT 1")
    text = policy.read_text()
    assert "\nsex  " in text
    policy.write_text(
        text.replace("\nsex  ", '\ngender = { values = ["F"], column = "sex" }\nsex  ')
    )
    found = shell("sql", policy, "SELECT 1")
    assert found.exit_code == 1
    assert "HINT: Nothing was charged yet: delete the ledger" in found.stderr
    policy.with_suffix(".ledger.sqlite").unlink()
    assert shell("sql", policy, "SELECT 1").exit_code == 0


def test_a_ledger_that_must_exist_is_not_begun_anew(policy: Path) -> None:
    count = "SELECT count(*) FROM person"
    assert shell("sql", policy, count).exit_code == 0
    text, ledger = policy.read_text(), policy.with_suffix(".ledger.sqlite")
    policy.write_text(f"ledger = {{ must_exist = true }}\n{text}")
    assert shell("sql", policy, count).exit_code == 0
    ledger.unlink()
    for word, *rest in (["sql", count], ["serve"], ["budget"], ["history"]):
        found = shell(word, policy, *rest)
        assert found.exit_code == 1
        assert f"there is no ledger {ledger}" in found.stderr.replace("\n", "")
        assert "Restore it from its backup" in found.stderr
        assert not ledger.exists()
    assert shell("check", policy, "--source").exit_code == 0


def test_history_shows_every_budget_that_was_declared(policy: Path) -> None:
    shell("sql", policy, "SELECT count(*) FROM person")
    raised = policy.read_text().replace("epsilon = 3.0", "epsilon = 4.0", 1)
    policy.write_text(f"{raised}\n[analysts.alice]\nbudget = {{ epsilon = 0.5 }}\n")
    assert (
        "person: the policy was changed; epsilon 3 is in force until a server of this policy is"
        " started or gets SIGHUP."
    ) in shell("budget", policy).stdout
    shell("sql", policy, "SELECT 1")
    rows = json.loads(shell("budget", policy, "--json").stdout)
    assert [(one["budget"], one["shares"]) for one in rows[0]["declared"]] == [
        ("epsilon 3", ""),
        ("epsilon 4", "alice epsilon 0.5"),
    ]
    assert "the policy was changed" not in shell("budget", policy).stdout
    shown = shell("history", policy).stdout
    assert re.search(r"\| person \| epsilon 3 +\| *\n", shown)
    assert re.search(r"\| person \| epsilon 4 +\| alice epsilon 0.5\n", shown)


def test_only_check_tells_how_many_rows_max_rows_leaves_out(tmp_path: Path) -> None:
    (tmp_path / "visit.csv").write_text("pid,ward\n" + "p,1\n" * 5 + "q,2\n,2\n")
    policy = tmp_path / "visit.toml"
    policy.write_text(
        'source.url = "visit.csv"\n[tables.visit]\nbudget = { epsilon = 1.0 }\n'
        'privacy_unit = { column = "pid", max_rows = 3 }\n'
        "attributes.ward = { range = [1, 2] }\n"
    )
    asked = shell("sql", policy, "SELECT ward, count(*) FROM visit GROUP BY ward")
    found = shell("check", policy, "--source")
    assert (asked.exit_code, found.exit_code) == (0, 0)
    assert (
        "max_rows of visit: 2 of 6 rows (33.3%) are left out, since their pid has more than 3"
    ) in found.stdout
    assert found.stdout.endswith("The ledger belongs to these tables and this data.\n")
    document = json.loads(shell("check", policy, "--source", "--json").stdout)
    assert document["max_rows"] == {"visit": {"rows": 6, "left_out": 2}}
    for other in (asked, shell("check", policy), shell("budget", policy)):
        assert "left out, since" not in other.stdout + other.stderr


def test_only_check_tells_how_many_rows_have_undeclared_values(tmp_path: Path) -> None:
    """Costs with cents are no whole numbers; the guide's recipe makes them some."""
    costs = ["1.25", "2.50", "3", "", "900.00"]
    (tmp_path / "visit.csv").write_text("cost,ward\n" + "".join(f"{c},A\n" for c in costs))
    policy = tmp_path / "visit.toml"
    declared = (
        'source.url = "visit.csv"\n[tables.visit]\nbudget = {{ epsilon = 1.0 }}\n{}'
        "attributes.cost = {{ range = [0, 100]{} }}\n"
        'attributes.ward = {{ values = ["B"], other = "-" }}\n'
    )
    recipe = "SELECT * REPLACE (CAST(round(CAST(cost AS DOUBLE)) AS INTEGER) AS cost) FROM visit"
    for origin, options, expected in [
        ("", "", (4, 0, 0, 0)),
        ("", ", nullable = true", (3, 0, 0, 0)),
        ("", ", other = true", (0, 3, 0, 0)),
        ("", ", clamp = true, nullable = true", (0, 0, 2, 1)),
        (f'from = "{recipe}"\n', ", nullable = true", (1, 0, 0, 0)),
    ]:
        policy.write_text(declared.format(origin, options))
        found = json.loads(shell("check", policy, "--source", "--json").stdout)["undeclared"]
        assert found["visit"]["rows"] == 5
        assert tuple(found["visit"]["attributes"]["cost"].values()) == (*expected, []), options
        ward = {"left_out": 0, "other": 5, "null": 0, "clamped": 0, "unmatched": ["B"]}
        assert found["visit"]["attributes"]["ward"] == ward
    said = shell("check", policy, "--source").stdout
    assert "cost of visit: 1 of 5 rows (20.0%) have a value that is not declared, and a" in said
    assert "ward of visit: 5 of 5 rows (100.0%) have another value\n" in said
    assert "ward of visit: no row has the declared B\n" in said
    assert "no longer independent of the data" in said
    assert "rows (" not in shell("check", policy).stdout


def test_check_tells_the_custodian_of_skipped_lines_and_of_what_a_table_takes(
    tmp_path: Path,
) -> None:
    lines = b"ward\nA\n\xff\xfe\nB\n" + b"x" * 3_000_000 + b'\n"C\nD"\n'
    (tmp_path / "visit.csv").write_bytes(lines)
    policy = tmp_path / "visit.toml"
    policy.write_text(
        'source.url = "visit.csv"\n[tables.visit]\nbudget = { epsilon = 1.0 }\n'
        'attributes.ward = { values = ["A", "B"], other = true }\n'
    )
    found = json.loads(shell("check", policy, "--source", "--json").stdout)
    assert found["undeclared"]["visit"]["rows"] == 3
    assert found["unreadable_lines"] == 2
    assert found["in_use"] == {"visit": {"cells": 3, "bytes": 27}}
    said = shell("check", policy, "--source").stdout
    assert "lines that cannot be read: 2\n" in said
    assert "visit: 3 cells in use, 0.1 MB of memory" in said


@pytest.mark.parametrize("options", [[], ["--source"]])
def test_check_says_every_column_that_is_missing_or_cannot_be_read(
    policy: Path, options: list[str]
) -> None:
    text = policy.read_text().replace("[tables.person]", "[tables.person]\ncount = 'persons'")
    for name in ("sex", "age"):
        text = text.replace(f"\n{name} ", f"\n{name}s ")
    day = 'day = { range = [2020-01-01, 2020-01-02], column = "income" }'
    policy.write_text(text.replace("state = {", f"{day}\nstate = {{"))
    found = shell("check", policy, *options)
    assert found.exit_code == 1
    for said in (
        "tables.person.attributes.sexs: the source has no column sexs",
        "tables.person.attributes.ages: the source has no column ages",
        "tables.person.count: the source has no column persons",
        "tables.person.attributes.day: the column income is DOUBLE, which cannot be read as DATE",
    ):
        assert found.stderr.count(said) == 1
    assert found.stderr.count("In the policy column") == found.stderr.count("Cast it in") == 1


def test_check_compares_data_and_ledger(policy: Path) -> None:
    shell("sql", policy, "SELECT count(*) FROM person")
    ledger = policy.with_suffix(".ledger.sqlite")
    before = ledger.read_bytes()
    found = shell("check", policy, "--source")
    assert (found.exit_code, found.stdout.splitlines()[-1]) == (
        0,
        "The ledger belongs to these tables and this data.",
    )
    write_people(policy.parent / "people.parquet", 2_001)
    found = shell("check", policy, "--source")
    assert found.exit_code == 1
    assert "other data" in found.stderr
    assert ledger.read_bytes() == before


def with_shares(policy: Path) -> None:
    shares = "\n[analysts.alice]\nbudget = { epsilon = 0.5 }\n[analysts.bob.tables.person]\n"
    policy.write_text(policy.read_text() + shares + "budget = { epsilon = 1 }\n")


def test_budget_tells_what_each_analyst_spent(policy: Path) -> None:
    women = "SELECT count(*) FROM person WHERE sex = 'F'"
    assert shell("sql", policy, women, "--epsilon", "0.25", "--user", "carol").exit_code == 0
    with_shares(policy)
    assert shell("sql", policy, women, "--epsilon", "0.5", "--user", "alice").exit_code == 0
    assert shell("sql", policy, "SELECT count(*) FROM person", "--epsilon", "1").exit_code == 1
    [row] = json.loads(shell("budget", policy, "--json").stdout)
    assert (row["spent"], row["charges"], row["most_expensive"]) == (0.75, 2, "sex = F")
    told = [
        [one[key] for key in ("analyst", "budget", "spent", "remaining", "charges")]
        for one in row["analysts"]
    ]
    assert told == [
        ["alice", 0.5, 0.5, 0.0, 1],
        ["bob", 1.0, 0.0, 1.0, 0],
        ["carol", 0.0, 0.25, 0.0, 1],
    ]
    assert [one["most_expensive"] for one in row["analysts"]] == ["sex = F", None, "sex = F"]
    shown = shell("budget", policy).stdout
    assert "bob     | person | epsilon" in shown


def test_budget_tells_shares_nobody_used(policy: Path) -> None:
    with_shares(policy)
    [row] = json.loads(shell("budget", policy, "--json").stdout)
    assert [(one["analyst"], one["remaining"]) for one in row["analysts"]] == [
        ("alice", 0.5),
        ("bob", 1.0),
    ]
    assert not list(policy.parent.glob("*ledger*"))


def test_check_says_who_may_spend(policy: Path) -> None:
    with_shares(policy)
    lines = shell("check", policy).stdout.splitlines()
    assert "analyst alice may spend: ε = 0.5 of person" in lines
    assert "nobody else may spend; answers from history are free for everyone" in lines


def test_source_history_never_spends(policy: Path) -> None:
    query = "SELECT count(*) AS n FROM person"
    unknown = json.loads(shell("sql", policy, query, "--source", "history", "--json").stdout)
    assert unknown["rows"] == [[None]]
    bought = json.loads(shell("sql", policy, query, "--json").stdout)
    known = json.loads(shell("sql", policy, query, "--source", "history", "--json").stdout)
    assert known["rows"] == bought["rows"]
    wrong = shell("sql", policy, query, "--source", "past")
    assert "Choose one of: auto, history, fresh." in wrong.stderr


@pytest.mark.parametrize(
    "command",
    ["sql", "explain", "check", "budget", "history", "sanitise", "audit"]
    + [f"mechanism {one}" for one in ("list", "show", "compare")],
)
def test_the_commands_the_guide_names_take_json(command: str) -> None:
    shown = shell(*command.split(), "--help")
    assert shown.exit_code == 0
    assert "--json" in shown.output


def test_check_guarantees_no_less_than_what_was_spent(policy: Path) -> None:
    women = "SELECT count(*) FROM person WHERE sex = 'F'"
    text = policy.read_text().replace('"add_remove"', '"replace"')
    policy.write_text(f'{text}\n[[tables.person.invariants]]\nsql = "{women}"\n')
    old = re.compile(r"budget = \{ *epsilon = 3(\.0)? *\}")
    assert old.search(policy.read_text())
    asked = shell("sql", policy, "SELECT count(*) FROM person WHERE age < 40", "--epsilon", "0.9")
    assert asked.exit_code == 0
    policy.write_text(old.sub("budget = { epsilon = 0.3 }", policy.read_text()))
    assert "at most exp(0.9); the invariants" in shell("check", policy, "--source").stdout


@pytest.mark.parametrize(
    ("kind", "values", "clamped"),
    [
        ("range = [0, 9]", [-1, 0, 9, 10, None], 2),
        ("bins = [0, 5, 10]", [-1, 0, 9, 10, None], 2),
        ("bins = [0, 0.5]", ["-1e-9", "0", "0.4", "0.5", "nan", "inf"], 2),
        ("range = [2020-01-01, 2020-12-31]", ["2019-12-31", "2020-06-01", "2021-01-01", "x"], 2),
    ],
)
def test_check_tells_how_many_values_are_clamped(
    tmp_path: Path, kind: str, values: list[Any], clamped: int
) -> None:
    with duckdb.connect(str(tmp_path / "t.duckdb")) as database:
        database.execute("CREATE TABLE t AS SELECT unnest(?) AS v", [values])
    policy = tmp_path / "t.toml"
    policy.write_text(
        'source.url = "t.duckdb"\n[tables.t]\nbudget = { epsilon = 1.0 }\n'
        f"attributes.v = {{ {kind}, clamp = true, nullable = true }}\n"
    )
    found = json.loads(shell("check", policy, "--source", "--json").stdout)["undeclared"]["t"]
    assert found["attributes"]["v"]["clamped"] == clamped
    assert f"v of t: {clamped} of {len(values)} rows (" in shell("check", policy, "--source").stdout


def test_check_knows_attributes_that_have_no_column(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "people.duckdb")) as made:
        made.execute("CREATE TABLE person AS SELECT i AS pid, 1.5 AS age FROM range(9) t(i)")
        made.execute("CREATE TABLE visit AS SELECT i // 2 AS pid, i AS day FROM range(9) t(i)")
    policy = tmp_path / "people.toml"
    policy.write_text(
        'source.url = "people.duckdb"\n'
        "[tables.person]\nbudget = { epsilon = 1.0 }\n"
        'privacy_unit = { column = "pid", max_rows = 1 }\n'
        'attributes.age = { range = [0, 9] }\nper_unit.visits = { count = "visit" }\n'
        '[tables.visit]\nkeys = { pid = "person.pid" }\n'
        'privacy_unit = { column = "pid", max_rows = 2 }\nattributes.day = { range = [0, 9] }\n'
    )
    for more in ([], ["--source"]):
        found = shell("check", policy, *more)
        assert found.exit_code == 0, found.stderr
        assert "warning: age of person is declared as whole numbers" in found.stdout
