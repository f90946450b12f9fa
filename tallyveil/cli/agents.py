"""`tallyveil agent check`, `release` and `combine`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from tallyveil.accountant import Accountant
from tallyveil.agents import AgentPart, Secret, agreement, combined, load_plan
from tallyveil.agents import release as release_part
from tallyveil.cli.serving.security import check_private
from tallyveil.cli.text import Output, aligned, up_text
from tallyveil.cube import relations_read, with_values
from tallyveil.errors import OutputError
from tallyveil.gate.gate import accounts, ledger_of
from tallyveil.mechanisms import AgentNoise
from tallyveil.mechanisms.units import from_units
from tallyveil.policy import load_policy
from tallyveil.proxy.inprocess import login_name

__all__ = ["check", "combine", "release"]


def check(policy: Path, plan: Path, secret: Path) -> Output:
    """Return a part's cost and the agreement code. Raises PolicyError, StatementTooComplex and
    OutputError."""
    planned = load_plan(plan)
    own = with_values(load_policy(policy))
    counted, account = planned.counted(own), accounts(own)[planned.table]
    loss = AgentNoise().loss(counted.workload, (counted.scale,), account.relation, account.measure)
    cost = f"{account.measure} {up_text(from_units(loss.bound))}"
    _check_private(secret)
    with Secret.opened(secret) as opened:
        number, code = opened.next, agreement(opened, counted)
    lines = [
        f"release {number} of {planned.name}: {len(counted.keys):,} counts at each of"
        f" {len(planned.agents)} agents, {len(counted.groups):,} exact totals",
        f"noise of scale {counted.scale:g}, which costs {cost} of {planned.table}'s budget",
        f"all agents must see this code: {code}",
    ]
    return Output(None, lines)


def release(policy: Path, plan: Path, agent: str, number: int, secret: Path, out: Path) -> Output:
    """Release the part and write it to ``out``. Raises as `tallyveil.agents.release`, and
    OutputError."""
    planned, own = load_plan(plan), with_values(load_policy(policy))
    planned.place(agent)
    planned.counted(own)
    _check_private(secret)
    for needed in (policy, plan, secret, own.ledger):
        if out.resolve() == needed.resolve():
            raise OutputError(f"the part would overwrite {needed}", hint="Name another --out.")
    reads = relations_read(own)
    with closing(ledger_of(own)) as ledger, Secret.opened(secret) as opened:
        accountant = Accountant(ledger, accounts(own, reads))
        part = release_part(own, planned, agent, number, opened, ledger, accountant, login_name())
    try:
        out.write_text(part.as_json(), encoding="utf-8")
    except OSError as error:
        raise OutputError(
            f"the part {out} could not be written: {error.strerror}",
            hint="It is stored with the secret: release it again, free.",
        ) from None
    return Output(None, [f"part {agent} of release {number} of {planned.name}: {out}"])


def combine(paths: Sequence[Path]) -> Output:
    """Return the sums of the parts, and the exact totals if all are given. Raises SourceError."""
    parts = [AgentPart.read(path) for path in paths]
    found = combined(parts)
    rows = [[*key, n] for key, n in zip(found.keys, found.counts, strict=True)]
    counts = aligned((*parts[0].count_by, "count"), rows)
    if found.totals is None:
        missing = ", ".join(found.missing)
        lines = [f"missing: {missing}; totals are exact only with all parts", *counts]
    else:
        exact = [[*key, n] for key, n in found.totals]
        lines = [*counts, "", *aligned((*parts[0].totals, "exact_total"), exact)]
    return Output(asdict(found), lines)


def _check_private(secret: Path) -> None:
    try:
        check_private("secret", secret, os.stat(secret).st_mode)
    except OSError as error:
        raise OutputError(f"the secret {secret} cannot be read: {error.strerror}") from None
