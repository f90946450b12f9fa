"""`tallyveil audit`: the mechanisms' guarantees, proved or tested."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Console

from tallyveil.audit import audit
from tallyveil.cli.text import Output, table

__all__ = ["run"]

_COLUMNS = ("mechanism", "claim", "found", "verdict")


def run(names: Sequence[str], epsilons: Sequence[str], draws: int) -> Output:
    """Return a row for each check, and an alarm if one fails.

    Raises InvalidParameterValue for unknown mechanisms and invalid parameters.
    """
    findings = []
    with Console(stderr=True).status("auditing") as status:
        for finding in audit(names, epsilons, draws):
            status.update(finding.mechanism)
            findings.append(finding)
    failed = [finding for finding in findings if not finding.holds]
    checks = [
        {**asdict(f), "verdict": ("proved" if f.exact else "not refuted") if f.holds else "FAILS"}
        for f in findings
    ]
    lines = table(_COLUMNS, checks)
    if not failed:
        proved = sum(finding.exact for finding in findings)
        left = len(findings) - proved
        lines.append(f"{proved} checks proved; {left} not refuted by {draws} draws")
    document = {"checks": checks, "failed": len(failed), "draws": draws}
    if not failed:
        return Output(document, lines)
    alarm = [
        f"AUDIT FAILED: {len(failed)} of {len(checks)} checks."
        " RELEASE NOTHING WITH THESE MECHANISMS:",
        *(f"  {f.mechanism}: {f.claim}; found: {f.found}" for f in failed),
    ]
    return Output(document, lines, alarm, failed=True)
