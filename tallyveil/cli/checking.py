"""`tallyveil check`: what a policy protects, or what is wrong with it."""

from __future__ import annotations

import json as json_format
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import typer

from tallyveil.accountant import Ledger, check_data, check_tables
from tallyveil.cli.invariants import Examined, as_json, examined, said
from tallyveil.cube import Cube, as_read, check_files, load_cubes, load_public, relations_read
from tallyveil.gate.gate import accounts
from tallyveil.gate.policy_check import check_mechanisms, check_views
from tallyveil.policy import Policy, load_policy, summary

__all__ = ["check"]


def check(path: Path, *, json: bool, source: bool) -> None:
    """Print the policy's summary; with ``source``, after reading the source as serving would, and
    comparing it with the ledger, if there is one.

    Raises PolicyError with every mistake, SourceError with every missing file, LedgerError.
    """
    policy = load_policy(path)
    check_mechanisms(policy)
    check_views(policy)
    check_files(policy)
    exact: dict[str, Examined] = {}
    if source:
        cubes = load_cubes(policy)
        policy = as_read(policy, cubes)
        public = load_public(policy)
        _compare(policy, cubes)
        exact = examined(policy, cubes, public)
    lines = [*summary(policy), *said(policy, exact)]
    if json:
        found = {"summary": lines, "invariants": as_json(exact)}
        typer.echo(json_format.dumps(found, ensure_ascii=False))
        return
    typer.echo("\n".join(lines))
    if source:
        typer.echo("The source can be read, and has every column the policy names.")
    if source and policy.public:
        typer.echo("The public tables can be read.")
    if source and policy.ledger.exists():
        typer.echo("The ledger belongs to these tables and this data.")


def _compare(policy: Policy, cubes: Mapping[str, Cube]) -> None:
    """Raises LedgerMismatch if there is a ledger, and it belongs to other tables or other data."""
    if not policy.ledger.exists():
        return
    with closing(Ledger(policy.ledger, create=False)) as ledger:
        with ledger.reading():
            check_tables(ledger, accounts(policy, relations_read(policy)))
        for name, cube in cubes.items():
            check_data(ledger, name, cube.digest)
