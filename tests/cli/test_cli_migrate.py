"""`tallyveil migrate` on files: shown first, done at once or not at all, whoever is killed."""

from __future__ import annotations

import json
import re
import shutil
import signal
import sqlite3
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tallyveil import load_policy
from tallyveil.accountant.store.ledger_copies import verify
from tallyveil.cube import with_values
from tallyveil.gate.declared.migrating import migrating
from tests.cli.shell import shell, spent
from tests.programs import run

POLICY = """
[source]
url = "people.parquet"
[tables.person]
from = "people"
budget = { epsilon = 9.0 }
[tables.person.attributes]
sex = { values = ["F", "M"], other = true }
age = { range = [0, 115], clamp = true, nullable = true }
"""
LATER = POLICY.replace("[0, 115]", "[0, 120]").replace('"M"]', '"M", "X"]')
OLDEST = "SELECT count(*) FROM person WHERE age >= 115"
YOUNG = "SELECT count(*) FROM person WHERE age < 100"
OTHERS = "SELECT count(*) FROM person WHERE sex NOT IN ('F', 'M')"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "people.toml"
    path.write_text(POLICY)
    rows = "SELECT ['F', 'M', 'X', 'Y'][1 + i % 4] AS sex, i % 121 + 0.5 * (i % 2) AS age"
    duckdb.sql(f"COPY ({rows} FROM range(4000) t(i)) TO '{tmp_path / 'people.parquet'}'")
    return path


def known(policy: Path, *statements: str) -> list[Any]:
    found = [shell("sql", policy, one, "--source", "history", "--json") for one in statements]
    assert all(one.exit_code == 0 for one in found), [one.stderr for one in found]
    return [json.loads(one.stdout) for one in found]


def document(*arguments: object) -> dict[str, Any]:
    found = shell(*arguments, "--json")
    assert found.exit_code == 0, found.stdout + found.stderr
    read: dict[str, Any] = json.loads(found.stdout)
    return read


def test_a_policy_changes_and_its_ledger_follows(policy: Path) -> None:
    for number, sql in enumerate((OLDEST, OTHERS, YOUNG), 1):
        assert shell("sql", policy, sql, "--epsilon", str(number)).exit_code == 0
    answers, before = known(policy, YOUNG, OTHERS), spent(policy)
    witness = document("ledger", "verify", policy)["witness"]
    policy.write_text(LATER)
    refused = shell("sql", policy, OLDEST)
    assert refused.exit_code == 1
    assert "tables.person.attributes.age.range: [0, 115] in the ledger" in refused.stderr
    assert "tallyveil migrate POLICY" in refused.stderr
    shown = shell("migrate", policy)
    assert shown.exit_code == 0
    assert "spent: 5 epsilon before, 5 epsilon after" in shown.stdout
    assert "answers that are kept: 3" in shown.stdout
    assert "Nothing was changed. --yes migrates the ledger." in shown.stdout
    assert "another declaration" in shell("sql", policy, OLDEST).stderr
    assert len(list(policy.parent.iterdir())) == 3  # no draft is left
    done = document("migrate", policy, "--yes")
    assert done["tables"][0]["spent_after"] == before
    assert [row["table"] for row in done["tables"]] == ["person"]
    assert known(policy, YOUNG, OTHERS) == answers
    assert spent(policy) == before
    assert document("ledger", "verify", policy, "--witness", witness)["charges"] == 3
    kept = Path(done["kept"])
    assert kept.parent == policy.parent
    assert verify(kept).charges == 3
    again = shell("migrate", policy)
    assert "belongs to these declarations already" in again.stdout
    # A record of 115.5 lay in cell 115, and is NULL since: it has lost what that cell has.
    assert shell("sql", policy, f"{OLDEST[:-10]} age IS NULL", "--epsilon", "4").exit_code == 0
    assert spent(policy) == 1 + 2 + 4


def test_mistyped_labels_are_refused(policy: Path) -> None:
    assert shell("sql", policy, OTHERS).exit_code == 0
    refused = shell("migrate", policy, "--recoded", "sex=F")
    assert refused.exit_code == 1
    assert "--recoded TABLE.ATTRIBUTE:OLD=NEW" in refused.stderr


def test_without_a_ledger_there_is_nothing_to_migrate(policy: Path) -> None:
    refused = shell("migrate", policy)
    assert refused.exit_code == 1
    assert "there is no ledger" in refused.stderr


@pytest.mark.parametrize(
    ("version", "lacks"),
    [
        (11, ["version", "migration", "replacement"]),
        (12, ["migration", "replacement"]),
        (13, ["replacement"]),
    ],
)
def test_a_ledger_of_a_format_before_is_completed_and_migrated(
    version: int, lacks: list[str], policy: Path
) -> None:
    assert shell("sql", policy, OTHERS, "--epsilon", "1").exit_code == 0
    ledger = policy.with_name("people.ledger.sqlite")
    with sqlite3.connect(ledger) as old:
        for table in lacks:
            old.execute(f"DROP TABLE {table}")
        old.execute(f"PRAGMA user_version = {version}")
    old.close()
    answers = known(policy, OTHERS)
    policy.write_text(LATER)
    document("migrate", policy, "--yes")
    assert known(policy, OTHERS) == answers


KILLED = """
import os, pathlib, signal, sys
from tallyveil.cli.migration import migrate
from tallyveil.gate.declared.migrating import Migrating

left, whole = [int(sys.argv[2])], sys.argv[3] == "True"

def dying(call):
    def counted(*arguments, **named):
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1
        return call(*arguments, **named)
    return counted

def arm():
    for owner, name in ((os, "link"), (os, "fsync"), (os, "unlink"), (pathlib.Path, "unlink"),
                        (pathlib.Path, "replace"), (pathlib.Path, "rename")):
        setattr(owner, name, dying(getattr(owner, name)))

def applied(prepared, apply=Migrating.apply):
    arm()
    return apply(prepared)

if whole:
    arm()
else:
    Migrating.apply = applied
migrate(pathlib.Path(sys.argv[1]), False, (), yes=True)
"""


KEPT = re.compile(r"people\.ledger\.sqlite\.\d{8}T[\d.]+")


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_killed_at_any_step_it_is_done_or_not(policy: Path, tmp_path: Path, whole: bool) -> None:
    assert shell("sql", policy, OTHERS, "--epsilon", "1").exit_code == 0
    answers, states, drafts = known(policy, OTHERS), list[bool](), list[int]()
    names = [path.name for path in tmp_path.iterdir()]
    for number in range(0, 100, 1 if whole else 2):
        copy = tmp_path / f"killed{number}"
        copy.mkdir()
        for name in names:
            shutil.copy(tmp_path / name, copy)
        own, ledger = copy / policy.name, copy / "people.ledger.sqlite"
        own.write_text(LATER)
        ended = run(KILLED, own, number, whole, timeout=60).returncode
        states.append(b"121" in ledger.read_bytes())  # of joint codes
        own.write_text(LATER if states[-1] else POLICY)
        left = sorted(one.name for one in copy.glob(".*.draft"))
        drafts.append(len(left))
        told = shell("ledger", "verify", own)
        assert all(name in told.stdout for name in left)
        assert not list(copy.glob(".*.draft*"))
        assert verify(ledger).charges == 1
        kept = [one for one in copy.iterdir() if KEPT.fullmatch(one.name)]
        assert len(kept) == 1 or not states[-1]  # never under another name
        assert all(verify(one).charges == 1 for one in kept)
        if whole or states[-2:-1] != states[-1:] or ended == 0:
            assert known(own, OTHERS) == answers
        if ended != -signal.SIGKILL:
            break
    assert ended == 0
    assert states[-1]
    assert states == sorted(states)
    assert max(drafts) >= 3
    assert states.count(False) >= 2
    assert states.count(True) >= 2


def test_what_a_running_migration_uses_is_not_removed(policy: Path) -> None:
    assert shell("sql", policy, OTHERS, "--epsilon", "1").exit_code == 0
    policy.write_text(LATER)
    with migrating(with_values(load_policy(policy))) as prepared:
        stale = policy.with_name(".people.ledger.sqlite.0.draft")
        stale.write_bytes(prepared.draft.read_bytes())
        assert stale.name in shell("ledger", "verify", policy).stdout
        assert not stale.exists()
        assert shell("migrate", policy).exit_code == 0
        prepared.apply()
    assert shell("ledger", "verify", policy).exit_code == 0
    assert [one for one in policy.parent.iterdir() if one.name.startswith(".")] == []
    assert len(known(policy, OTHERS)) == 1


@pytest.mark.parametrize(
    ("before", "since", "last"),
    [("24 hours", "12 hours", "21 00:00:00"), ("500 hours", "1 hour", "21 20:00:00")],
)
def test_steps_are_shown_as_policies_write_them(
    tmp_path: Path, before: str, since: str, last: str
) -> None:
    path = tmp_path / "people.toml"
    rows = "SELECT TIMESTAMP '2026-01-02 07:00:00' + INTERVAL (i) HOUR AS seen FROM range(50) t(i)"
    duckdb.sql(f"COPY ({rows}) TO '{tmp_path / 'people.parquet'}'")

    def declare(step: str) -> None:
        span = f'range = [2026-01-01 00:00:00, 2026-01-{last}], step = "{step}"'
        path.write_text(f"{POLICY.partition('sex =')[0]}seen = {{ {span} }}")

    declare(before)
    assert shell("sql", path, "SELECT count(*) FROM person").exit_code == 0
    declare(since)
    shown = shell("migrate", path)
    assert shown.exit_code == 0, shown.stderr
    assert f'attributes.seen.step: "{before}" in the ledger, "{since}" here' in shown.stdout
