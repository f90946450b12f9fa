"""`tallyveil check`: what a policy protects, or what is wrong with it."""

from __future__ import annotations

import json as json_format
from pathlib import Path

import typer

from tallyveil.gate.fitness import check_mechanisms
from tallyveil.policy import load_policy, summary

__all__ = ["check"]


def check(path: Path, *, json: bool, source: bool) -> None:
    """Print the policy's summary; with ``source``, after reading the source as serving would.

    Raises PolicyError with every mistake, SourceError.
    """
    policy = load_policy(path)
    check_mechanisms(policy)
    if source:
        from tallyveil.cube import as_read, load_cubes, load_public

        policy = as_read(policy, load_cubes(policy))
        load_public(policy)
    lines = summary(policy)
    if json:
        typer.echo(json_format.dumps({"summary": lines}, ensure_ascii=False))
        return
    typer.echo("\n".join(lines))
    if source:
        typer.echo("The source can be read, and has every column the policy names.")
    if source and policy.public:
        typer.echo("The public tables can be read.")
