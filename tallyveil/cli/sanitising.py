"""`tallyveil sanitise`: a perturbed copy of a table, released once, for everyone to query."""

from __future__ import annotations

import json as json_format
import os
import re
from collections.abc import Sequence
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

from tallyveil.accountant import Accountant
from tallyveil.cli.error_messages import protected
from tallyveil.cli.text import Output, rounded, table, up, up_text
from tallyveil.cube import relations_read, with_values
from tallyveil.errors import InvalidParameterValue, OutputError
from tallyveil.gate.gate import accounts, ledger_of
from tallyveil.mechanisms.measure import Measure
from tallyveil.mechanisms.units import positive
from tallyveil.policy import Policy, load_policy
from tallyveil.policy.sql_names import name_mistake
from tallyveil.proxy.inprocess import login_name
from tallyveil.sanitise import CopyOptions, CopyPlan, PlannedPart, least_error, plan, sanitise

__all__ = ["options", "release"]

_COLUMNS = ("columns", "mechanism", "epsilon", "expected_error", "least_error", "measured_in")


def options(
    epsilon: str,
    columns: str | None,
    together: Sequence[str],
    sets: Sequence[str],
    series: Sequence[str],
    split: str | None,
    laplace: str | None,
    delta: str | None,
) -> CopyOptions:
    """Parse the command line's options. Raises InvalidParameterValue."""
    shares = {}
    for share in _listed(split):
        name, equals, number = share.partition("=")
        if not equals or name in shares:
            raise InvalidParameterValue(
                f'"{share}" is not a share of epsilon', hint="Write --split state=0.5,sex=0.25."
            )
        shares[name] = positive(number, f"the share of {name}")
    return CopyOptions(
        positive(epsilon, "epsilon"),
        None if columns is None else _listed(columns),
        [group.split("+") for group in together],
        [group.split("+") for group in sets],
        [group.split("+") for group in series],
        shares,
        _listed(laplace),
        None if delta is None else positive(delta, "delta"),
    )


def release(path: Path, name: str, asked: CopyOptions, out: Path, *, dry: bool) -> Output:
    """Return each part's error and how to serve the copy; create the copy unless ``dry``.

    Raises PolicyError and OutputError, and as `plan` and `sanitise`.
    """
    if not out.name.endswith(".parquet"):
        raise OutputError(
            f"{out} does not end in .parquet", hint="Name a .parquet file: --out copy.parquet."
        )
    policy = with_values(load_policy(path))
    declared, account = protected(policy, name), accounts(policy)[name]
    planned = plan(declared, account.relation, asked)
    cost = planned.cost(account.relation, account.measure)
    records = None if dry else _release(policy, planned, out)
    served = _policy_lines(policy, planned, out)
    document = _document(planned, asked, account.measure, cost, records, served)
    lines = table(_COLUMNS, document["parts"])
    if asked.delta is not None:
        lines.append(
            f"This is ({up_text(asked.epsilon)}, {float(asked.delta):.12g})-private, since it is "
            f"{up_text(planned.epsilon)}-private, which is charged."
        )
    spent = f"{account.measure} {up_text(cost)} of {name}'s budget"
    if records is None:
        lines.append(f"This would cost {spent}. Nothing was charged or written.")
    else:
        done = f"{records:,} records in {out}, for {spent}. To serve them, add to the policy:"
        lines += [done, "", *served]
    return Output(document, lines)


def _release(policy: Policy, planned: CopyPlan, out: Path) -> int:
    with closing(ledger_of(policy)) as ledger:
        accountant = Accountant(ledger, accounts(policy, relations_read(policy)))
        return sanitise(policy, planned, out, accountant, login_name())


def _document(
    planned: CopyPlan,
    asked: CopyOptions,
    measure: Measure,
    cost: Fraction,
    records: int | None,
    lines: Sequence[str],
) -> dict[str, Any]:
    delta = None if asked.delta is None else rounded(float(asked.delta))
    return {
        "parts": [_row(part) for part in planned.parts],
        "epsilon": up(planned.epsilon),
        "delta": delta,
        "epsilon_at_delta": None if delta is None else up(asked.epsilon),
        "cost": up(cost),
        "unit": measure,
        "records": records,
        "policy": "\n".join(lines),
    }


def _row(part: PlannedPart) -> dict[str, Any]:
    law = part.law
    return {
        "columns": part.name,
        "mechanism": law.name,
        "epsilon": up(law.epsilon),
        "expected_error": rounded(law.expected_error),
        "least_error": rounded(least_error(law.values, law.diameter, law.epsilon)),
        "measured_in": _measured_in(part),
    }


def _measured_in(part: PlannedPart) -> str:
    law = part.law
    if law.errors != "steps":
        return law.errors
    return f"{'steps' if law.diameter > 1 else 'step'} of {part.name}"


def _policy_lines(policy: Policy, planned: CopyPlan, out: Path) -> list[str]:
    """Return the lines to add to the policy. The path is relative to the policy, as all in it."""
    base = policy.path.parent if policy.path is not None else Path()
    stem = re.sub(r"[^a-z0-9_]+", "_", out.name.removesuffix(".parquet").lower())
    taken = {*policy.tables, *policy.public, *policy.views, "dp"}
    name = stem if name_mistake(stem) is None and stem not in taken else ""
    name = name or f"{planned.table.name}_sanitised"
    url = os.path.relpath(out.resolve(), base.resolve()).replace(os.sep, "/")
    return [f"[public.{name}]", f"url = {json_format.dumps(url, ensure_ascii=False)}"]


def _listed(text: str | None) -> list[str]:
    return [] if text is None else [item.strip() for item in text.split(",")]
