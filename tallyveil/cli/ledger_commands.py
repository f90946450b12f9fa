"""The commands `tallyveil ledger …`: a ledger checked, copied and put back. They read no data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tallyveil.cli.error_messages import Command
from tallyveil.cli.options import Json, PolicyPath, option
from tallyveil.cli.text import Output

__all__ = ["ledgers"]

ledgers = typer.Typer(no_args_is_help=True, help="Check, back up and restore a policy's ledger.")

_Copy = Annotated[Path, typer.Argument(help="The copy of the ledger.", metavar="COPY")]


@ledgers.command(cls=Command)
def verify(
    policy: PolicyPath,
    witness: str | None = option("What an earlier verify or backup printed.", metavar="WITNESS"),
    json: Json = False,
) -> Output:
    """Check that no record was altered or lost, nor charges since a witness."""
    from tallyveil.cli.ledgers import verify as work

    return work(policy, witness)


@ledgers.command(cls=Command)
def backup(policy: PolicyPath, copy: _Copy, json: Json = False) -> Output:
    """Copy the ledger to a new file, also while it is in use."""
    from tallyveil.cli.ledgers import backup as work

    return work(policy, copy)


@ledgers.command(cls=Command)
def restore(policy: PolicyPath, copy: _Copy, json: Json = False) -> Output:
    """Put a copy in the ledger's place, unless the ledger has charges that the copy lacks."""
    from tallyveil.cli.ledgers import restore as work

    return work(policy, copy)
