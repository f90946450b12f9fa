"""`tallyveil ledger verify`, `backup` and `restore`."""

from __future__ import annotations

from pathlib import Path

from tallyveil.accountant.store import ledger_copies
from tallyveil.accountant.store.ledger_copies import Contents, Witness
from tallyveil.cli.text import Output
from tallyveil.gate.declared.ledger_witness import check_ledger
from tallyveil.policy import load_policy

__all__ = ["backup", "restore", "verify"]


def verify(path: Path, witness: str | None) -> Output:
    """Raises PolicyError, InvalidParameterValue and LedgerError."""
    seen = None if witness is None else Witness.read(witness)
    policy = load_policy(path)
    path = policy.ledger
    removed = ledger_copies.remove_drafts(path)
    found = ledger_copies.verify(path, seen)
    check_ledger(policy)
    left = [f"removed what a command left that was killed: {', '.join(removed)}"] if removed else []
    since = "" if seen is None else f", with all {seen.charges} of the witness"
    return _output(found, f"{path} is whole{since}", *left)


def backup(policy: Path, copy: Path) -> Output:
    """Raises PolicyError and LedgerError."""
    path = load_policy(policy).ledger
    return _output(ledger_copies.back_up(path, copy), f"{path} is copied to {copy}")


def restore(policy: Path, copy: Path) -> Output:
    """Raises PolicyError and LedgerError."""
    path = load_policy(policy).ledger
    there = path.exists()
    found = ledger_copies.restore(copy, path)
    warning = "If anything was asked after the last charge of this copy, treat the budget as spent."
    return _output(found, f"{copy} is restored to {path}", *([] if there else [warning]))


def _output(found: Contents, done: str, *more: str) -> Output:
    document = {**found._asdict(), "witness": str(found.witness)}
    latest = "" if found.latest is None else f", the last of {found.latest}"
    lines = [
        f"{done}: {found.charges} charges{latest}; {found.answers} answers, {found.reports}"
        " records of estimates",
        f"witness {found.witness}",
        *more,
    ]
    return Output(document, lines)
