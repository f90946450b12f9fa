"""The commands `tallyveil user …`: who may connect, and by which password."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallyveil.cli.error_messages import Command
from tallyveil.cli.options import Json, PolicyPath, flag
from tallyveil.cli.text import Said

if TYPE_CHECKING:
    from tallyveil.cli.serving.security import UserFile

__all__ = ["users"]

users = typer.Typer(no_args_is_help=True, help="Say who may connect: add, remove, list.")

Name = Annotated[str, typer.Argument(help="As the analyst connects.", metavar="NAME")]


@users.command(cls=Command)
def add(
    policy: PolicyPath,
    name: Name,
    stdin: bool = flag("--stdin", "Read the password from standard input."),
    replace: bool = flag("--replace", "Give a user another password."),
) -> None:
    """Let NAME connect. The password is asked for, and a SCRAM verifier of it is kept."""
    file = _file(policy, create=True)
    password = (
        sys.stdin.buffer.readline().decode("utf-8", "surrogateescape").rstrip("\r\n")
        if stdin
        else typer.prompt(f"Password for {name}", hide_input=True, confirmation_prompt=True)
    )
    file.add(name, password, replace=replace)
    typer.echo(f"{name} may connect: {file.path}")


@users.command(cls=Command)
def remove(policy: PolicyPath, name: Name) -> None:
    """Let NAME connect no longer. Connections that are open stay."""
    file = _file(policy)
    file.remove(name)
    typer.echo(f"{name} may connect no longer: {file.path}")


@users.command("list", cls=Command)
def list_(policy: PolicyPath, json: Json = False) -> Said:
    """List who may connect."""
    names = sorted(_file(policy).verifiers)
    return Said(names, names)


def _file(policy: Path, *, create: bool = False) -> UserFile:
    from tallyveil.cli.serving.security import read_user_file, user_path
    from tallyveil.policy import load_policy

    return read_user_file(user_path(policy, load_policy(policy).server), create=create)
