"""From the plan to the file: charged once, whole or not there, and what the records became."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

import tallyveil
from tallyveil.accountant import Accountant, Balance, Entry, Ledger
from tallyveil.errors import BudgetExceeded, OutputError, SourceError
from tallyveil.gate.gate import accounts
from tallyveil.mechanisms.records import RandomisedResponse
from tallyveil.policy import Policy, load_policy
from tallyveil.sanitise import CopyPlan, read_copies, sanitise
from tests.programs import run
from tests.sanitise.copies import serve_copy

Planned = Callable[..., CopyPlan]
Released = Callable[[CopyPlan, Path], int]
RECORDS = 900


def account(policy: Policy) -> tuple[Balance, list[Entry]]:
    with closing(Ledger(policy.ledger)) as ledger:
        accountant = Accountant(ledger, accounts(policy))
        return accountant.balance("person"), accountant.history()


def test_a_copy_is_charged_once_and_survives_reopening(
    policy: Policy, planned: Planned, released: Released, tmp_path: Path
) -> None:
    out = tmp_path / "copy.parquet"
    assert released(planned("5/2"), out) == RECORDS
    balance, (entry,) = account(policy)
    assert balance.spent == Fraction(5, 2)
    assert (entry.analyst, entry.table, entry.mechanism) == ("carol", "person", "sanitise")
    assert entry.cost == Fraction(5, 2)
    copy = pq.read_table(out)
    assert copy.column_names == ["state", "member", "age", "joined", "income"]
    assert copy.num_rows == RECORDS
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".copy")]


def test_at_a_large_epsilon_every_record_is_kept(
    policy: Policy, planned: Planned, released: Released, tmp_path: Path
) -> None:
    """At ε = 40 a part any of 4,500 values changes with probability below 10⁻¹²; DuckDB on the
    raw rows says what the cells are.
    """
    policy_file = policy.path
    assert policy_file is not None
    policy_file.write_text(policy_file.read_text().replace("epsilon = 30", "epsilon = 300"))
    out = tmp_path / "copy.parquet"
    released_policy = load_policy(policy_file)
    with closing(Ledger(released_policy.ledger)) as ledger:
        accountant = Accountant(ledger, accounts(released_policy))
        sanitise(released_policy, planned(200), out, accountant, "")
    cells = (
        "SELECT CASE WHEN state IN ('AL', 'AK') THEN state ELSE 'elsewhere' END AS state, member, "
        "CASE WHEN age IS NOT NULL THEN least(age, 9) END AS age, "
        "CASE WHEN joined <= DATE '2024-01-05' THEN joined END AS joined, "
        "CASE WHEN income < 1.5 THEN 0.5 ELSE 1.5 END::DOUBLE AS income "
        f"FROM '{tmp_path}/people.parquet'"
    )
    columns = "state, member, age, joined, income"
    found = duckdb.sql(f"SELECT {columns} FROM '{out}' ORDER BY ALL").fetchall()
    assert found == duckdb.sql(f"SELECT {columns} FROM ({cells}) ORDER BY ALL").fetchall()


def test_what_exceeds_the_budget_is_refused_with_nothing_written(
    policy: Policy, planned: Planned, released: Released, tmp_path: Path
) -> None:
    released(planned(20), tmp_path / "first.parquet")
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(BudgetExceeded) as caught:
        released(planned(11), tmp_path / "second.parquet")
    assert "smaller epsilon" in (caught.value.hint or "")
    assert sorted(os.listdir(tmp_path)) == before
    balance, entries = account(policy)
    assert balance.spent == 20
    assert len(entries) == 1


def test_the_custodian_needs_no_share_for_a_copy(
    policy: Policy, planned: Planned, tmp_path: Path
) -> None:
    assert policy.path is not None
    share = "\n[analysts.alice]\nbudget = { epsilon = 2 }\n"
    policy.path.write_text(policy.path.read_text() + share)
    dealt = load_policy(policy.path)
    with closing(Ledger(dealt.ledger)) as ledger:
        accountant = Accountant(ledger, accounts(dealt))
        sanitise(dealt, planned(20), tmp_path / "copy.parquet", accountant, "carol")
        with pytest.raises(BudgetExceeded, match='the share of analyst "alice"'):
            sanitise(dealt, planned(3), tmp_path / "own.parquet", accountant, "alice")
        own = accountant.share("person", "alice")
    assert own is not None
    assert own.remaining == 2
    with tallyveil.connect(dealt, user="alice") as connection:
        whole, alice = connection.budget()
    assert (whole["spent"], alice["remaining"]) == (20, 2)
    # A copy tells all records apart alike.
    assert (whole["most_expensive"], alice["most_expensive"]) == ("every record", None)


def test_a_file_that_is_there_is_left_alone_and_nothing_charged(
    policy: Policy, planned: Planned, released: Released, tmp_path: Path
) -> None:
    out = tmp_path / "copy.parquet"
    out.write_text("precious")
    with pytest.raises(OutputError, match="exists"):
        released(planned(1), out)
    assert out.read_text() == "precious"
    with pytest.raises(OutputError, match="No such file"):
        released(planned(1), tmp_path / "nowhere" / "copy.parquet")
    assert account(policy)[0].spent == 0


def test_a_disk_without_links_is_found_before_the_charge(
    policy: Policy,
    planned: Planned,
    released: Released,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    plan = planned(1)
    _ = account(policy)
    monkeypatch.setattr(os, "link", unsupported)
    with pytest.raises(OutputError, match="not supported"):
        released(plan, tmp_path / "copy.parquet")
    assert [name for name in os.listdir(tmp_path) if "copy" in name] == []
    assert account(policy)[0].spent == 0


CRASH = """
import os
from tallyveil.cli import main
from tallyveil.mechanisms import Sanitiser
Sanitiser.release = lambda *_: os._exit(9)
main()
"""


def test_a_crash_after_the_charge_leaves_the_charge_and_no_file(
    policy: Policy, policy_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "copy.parquet"
    arguments = ("sanitise", policy_file, "person", "--epsilon", "2", "--out", out)
    crashed = run(CRASH, *arguments, timeout=60)
    assert crashed.returncode == 9
    assert not out.exists()
    assert account(policy)[0].spent == 2


def test_a_full_disk_leaves_no_file_and_the_charge_stays(
    policy: Policy,
    planned: Planned,
    released: Released,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(table: Any, draft: Any) -> None:
        draft.write(b"half a file")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(OutputError, match="No space left") as caught:
        released(planned(2), tmp_path / "copy.parquet")
    assert "stays" in (caught.value.detail or "")
    assert [name for name in os.listdir(tmp_path) if "copy" in name] == []
    assert account(policy)[0].spent == 2


def test_a_source_that_fails_charges_nothing(
    policy: Policy, planned: Planned, released: Released, tmp_path: Path
) -> None:
    (tmp_path / "people.parquet").unlink()
    with pytest.raises(SourceError):
        released(planned(1), tmp_path / "copy.parquet")
    assert account(policy)[0].spent == 0
    assert not (tmp_path / "copy.parquet").exists()


def test_queries_and_copies_share_a_budget(
    policy_file: Path, policy: Policy, planned: Planned, released: Released, tmp_path: Path
) -> None:
    """A pair that differs in the state alone pays for the state's part, and for the query."""
    released(planned(3, columns=["state", "age"]), tmp_path / "copy.parquet")
    with tallyveil.connect(policy_file) as connection:
        connection.execute("SET dp.epsilon = 4")
        connection.execute("SELECT state, count(*) FROM person GROUP BY state").fetchall()
        connection.execute("SELECT joined, count(*) FROM person GROUP BY joined").fetchall()
    assert account(policy)[0].spent == 11


def test_in_a_budget_of_rho_each_part_costs_half_its_square(
    policy_file: Path, planned: Planned, tmp_path: Path
) -> None:
    text = policy_file.read_text()
    policy_file.write_text(text.replace("epsilon = 30", "rho = 1.0, delta = 1e-6"))
    policy = load_policy(policy_file)
    plan, out = planned(2, columns=["state", "age"]), tmp_path / "copy.parquet"
    relation = accounts(policy)["person"].relation
    with closing(Ledger(policy.ledger)) as ledger:
        accountant = Accountant(ledger, accounts(policy))
        sanitise(policy, plan, out, accountant, "")
        with pytest.raises(BudgetExceeded):
            sanitise(policy, planned("1/2"), tmp_path / "more.parquet", accountant, "")
    assert account(policy)[0].spent == plan.cost(relation, "rho") == 1
    assert plan.cost(relation, "epsilon") == plan.epsilon == 2


def test_a_copy_describes_itself(
    policy_file: Path, planned: Planned, released: Released, tmp_path: Path
) -> None:
    plan = planned(10, together=[["state", "member"]], laplace=["age", "joined"])
    out = tmp_path / "copy.parquet"
    released(plan, out)
    serve_copy(policy_file)
    (copy,) = read_copies(load_policy(policy_file), {"copy": pq.read_table(out)}).values()
    assert copy.rows == RECORDS
    for part, described in zip(plan.parts, copy.description.parts, strict=True):
        assert part.name == "+".join(described.columns)
        assert described.cells == tuple(a.cells for a in part.attributes)
        assert type(described.law) is type(part.law)
        assert described.law.epsilon == part.law.epsilon
    for counts, part in zip(copy.observed, plan.parts, strict=True):
        counted = isinstance(part.law, RandomisedResponse)
        assert counts.sum() == (RECORDS if counted else 0)


@pytest.mark.parametrize("damage", [b"nonsense", b'{"version": 2}', b'{"version": 1}'])
def test_a_description_by_another_hand(
    policy_file: Path, planned: Planned, released: Released, tmp_path: Path, damage: bytes
) -> None:
    out = tmp_path / "copy.parquet"
    released(planned(10), out)
    table = pq.read_table(out)
    pq.write_table(table.replace_schema_metadata({b"tallyveil.sanitised": damage}), out)
    serve_copy(policy_file)
    with pytest.raises(SourceError, match=r"public\.copy\.url"):
        read_copies(load_policy(policy_file), {"copy": table})


def test_debiased_counts_come_near_the_truth(
    policy_file: Path, planned: Planned, released: Released, tmp_path: Path
) -> None:
    """900 records, p and q known: within 6 standard deviations, false alarm below 10⁻⁷."""
    plan = planned(2, columns=["member"])
    released(plan, tmp_path / "copy.parquet")
    serve_copy(policy_file)
    with tallyveil.connect(policy_file) as connection:
        query = "SELECT value, observed, estimate, low, high FROM dp.debiased"
        rows = connection.execute(query).fetchall()
        counted = connection.execute("SELECT member, count(*) FROM copy GROUP BY ALL").fetchall()
        assert connection.budget()[0]["spent"] == 2.0
    law = plan.parts[0].law
    assert isinstance(law, RandomisedResponse)
    kept, change = law.kept / 2**64, law.change / 2**64
    deviation = (RECORDS * 0.25) ** 0.5 / (kept - change)
    names = {None: None, True: "true", False: "false"}
    assert {(names[v], n) for v, n in counted} == {(v, n) for v, n, *_ in rows}
    truth = {"true": 360, "false": 450, None: 90}
    for value, observed, estimate, low, high in rows:
        assert estimate == pytest.approx((observed - RECORDS * change) / (kept - change))
        assert abs(estimate - truth[value]) < 6 * deviation
        assert low <= max(0, min(RECORDS, estimate)) <= high
