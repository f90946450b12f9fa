"""One agent's part of one release."""

from __future__ import annotations

import duckdb

from tallyveil.accountant import Accountant, Charge, Ledger
from tallyveil.agents.agent_parts import AgentPart
from tallyveil.agents.release_plan import Counted, ReleasePlan
from tallyveil.agents.secret import Secret
from tallyveil.cube import load_cubes
from tallyveil.errors import LedgerError
from tallyveil.mechanisms import AgentNoise
from tallyveil.mechanisms.constrained.agent_noise import SharedNoise, derived
from tallyveil.policy import Policy

__all__ = ["agreement", "release"]


def agreement(secret: Secret, counted: Counted) -> str:
    """Return twelve digits that are equal for all agents that agree on the secret, the plan, the
    declared values, and which release is next. They reveal nothing about the secret."""
    code = derived(secret.key, "agreement", counted.fingerprint, secret.next)
    return f"{int.from_bytes(code, 'big') % 10**12:012}"


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
    """Release the agent's counts, with noise that adds up to 0 over all agents. A part that was
    released before is returned again, free.

    It records the release's number for these data, then charges, then opens the counts and stores
    the part. If it is interrupted anywhere, releasing again gives the same part. If it is
    interrupted in the short time after the charge and before the part is stored, it charges again.

    Raises PolicyError, SourceError, LedgerError, BudgetExceeded and InvalidParameterValue.
    """
    place, counted = plan.place(agent), plan.counted(policy)
    declared = policy.model_copy(update={"tables": {plan.table: counted.table}})
    cube = load_cubes(declared, source, key=accountant.rows_key)[plan.table]
    accountant.remember_data(plan.table, cube.digest)
    words = f"part {agent} of release {number} of {plan.name} {counted.fingerprint[:16]}"
    if not secret.knows(number) and any(one.sql == words for one in accountant.history(plan.table)):
        raise LedgerError(
            f"the ledger has a charge for release {number}, but the secret does not have the"
            " release",
            hint="The secret is an older copy, and its noise may have been used. Create a new"
            " secret for all agents.",
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
    """Return the noise of the agent's cells. It depends on no data, and is never released by
    itself."""
    found = [0] * len(counted.keys)
    for total, cells in counted.groups.items():
        sizes = [len(cells)] * len(counted.plan.agents)
        shared = SharedNoise(key, f"{counted.fingerprint} {total!r}", sizes, counted.scale)
        for cell, drawn in zip(cells, shared.part(place), strict=True):
            found[cell] = drawn
    return found
