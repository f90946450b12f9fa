"""One agent's part of one release."""

from __future__ import annotations

from dataclasses import replace

import duckdb

from tallyveil.accountant import Accountant, Charge, Ledger
from tallyveil.agents.parts import AgentPart
from tallyveil.agents.plan import Counted, ReleasePlan
from tallyveil.agents.secret import Secret
from tallyveil.cube import load_cubes
from tallyveil.errors import LedgerError
from tallyveil.mechanisms import AgentNoise
from tallyveil.mechanisms.constrained.shared import SharedNoise, derived
from tallyveil.policy import Policy

__all__ = ["agreement", "release"]


def agreement(secret: Secret, counted: Counted) -> str:
    """Twelve digits, the same at all agents that agree on the secret, on the plan, on the declared
    values, and on which release is next; they say nothing about the secret."""
    word = derived(secret.key, "agreement", counted.fingerprint, secret.next)
    return f"{int.from_bytes(word, 'big') % 10**12:012}"


def release(
    policy: Policy,
    plan: ReleasePlan,
    agent: str,
    number: int,
    secret: Secret,
    ledger: Ledger,
    accountant: Accountant,
    analyst: str,
    source: duckdb.DuckDBPyConnection | None = None,
) -> AgentPart:
    """The agent's counts, each with its part of the noise that adds up to 0 over all agents. Once
    it is released, the same again, free.

    The number is recorded for these data, then the charge is made, then noise is drawn: whatever
    stops this, the same part comes later. If it is stopped after the charge and before the part is
    kept, a moment, it charges again.

    Raises PolicyError, SourceError, LedgerError, BudgetExceeded and InvalidParameterValue.
    """
    place, counted = plan.place(agent), plan.counted(policy)
    cube = load_cubes(replace(policy, tables={plan.table: counted.table}), source)[plan.table]
    accountant.remember_data(plan.table, cube.digest)
    words = f"part {agent} of release {number} of {plan.name} {counted.fingerprint[:16]}"
    if not secret.knows(number) and any(one.sql == words for one in ledger.history(plan.table)):
        raise LedgerError(
            f"the ledger has charged for release {number}, and the secret does not know of it",
            hint="It is an older copy: its noise may be in use. Make a new secret for all agents.",
        )
    counts = secret.begin(agent, number, counted.fingerprint, cube.digest)
    if counts is None:
        noise = _noise(counted, place, derived(secret.key, "release", number))
        charge = Charge(counted.workload, AgentNoise.name, (counted.scale,), words)
        (receipt,) = accountant.charge([charge], analyst, custodian=True)
        answer = cube.answer(counted.workload)
        counts = list(AgentNoise().release(answer, receipt, noise))
        secret.keep(number, counts)
    return AgentPart.of(counted, agent, number, counts)


def _noise(counted: Counted, place: int, key: bytes) -> list[int]:
    """Of the agent's cells. It is no data, and nobody is given it."""
    found = [0] * len(counted.keys)
    for total, cells in counted.groups.items():
        sizes = [len(cells)] * len(counted.plan.agents)
        shared = SharedNoise(key, f"{counted.fingerprint} {total!r}", sizes, counted.scale)
        for cell, drawn in zip(cells, shared.part(place), strict=True):
            found[cell] = drawn
    return found
