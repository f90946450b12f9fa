"""A small table whose number of records is public, in a Parquet file, with its policy."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tallyveil.accountant import Accountant, Ledger
from tallyveil.gate.gate import accounts
from tallyveil.policy import Policy, load_policy
from tallyveil.sanitise import CopyOptions, CopyPlan, plan, sanitise

POLICY = """
[source]
url = "people.parquet"

[tables.person]
from = "people"
neighbours = "replace"
budget = { epsilon = 30 }

[tables.person.attributes]
state = { values = ["AL", "AK"], other = "elsewhere" }
member = { values = [true, false], other = true }
age = { range = [0, 9], clamp = true, nullable = true }
joined = { range = [2024-01-01, 2024-01-05], other = true }
income = { bins = [0.5, 1.5, 4.0], clamp = true, nullable = true }
"""
RECORDS = 900


@pytest.fixture
def policy_file(tmp_path: Path) -> Path:
    rows = range(RECORDS)
    table = pa.table(
        {
            "state": ["AL" if i % 3 else "XX" for i in rows],
            "member": pa.array([None if i % 10 == 0 else i % 2 == 0 for i in rows]),
            "age": pa.array([None if i % 9 == 0 else i % 12 for i in rows], pa.int32()),
            "joined": pa.array([dt.date(2024, 1, 1 + i % 7) for i in rows]),
            "income": pa.array([i % 5 + 0.25 for i in rows]),
        }
    )
    pq.write_table(table, tmp_path / "people.parquet")
    (tmp_path / "people.toml").write_text(POLICY)
    return tmp_path / "people.toml"


@pytest.fixture
def policy(policy_file: Path) -> Policy:
    return load_policy(policy_file)


@pytest.fixture
def planned(policy: Policy) -> Callable[..., CopyPlan]:
    """planned(epsilon, **options): a plan for the table person."""

    def make(epsilon: Any, **options: Any) -> CopyPlan:
        relation = accounts(policy)["person"].relation
        return plan(policy.tables["person"], relation, CopyOptions(Fraction(epsilon), **options))

    return make


@pytest.fixture
def released(policy: Policy) -> Callable[[CopyPlan, Path], int]:
    """released(plan, out): the copy, charged to the policy's ledger."""

    def make(planned: CopyPlan, out: Path) -> int:
        ledger = Ledger(policy.ledger)
        try:
            return sanitise(policy, planned, out, Accountant(ledger, accounts(policy)), "carol")
        finally:
            ledger.close()

    return make
