"""The commands `tallyveil user …`: the users who may connect, and their passwords."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallyveil.cli.error_messages import Command
from tallyveil.cli.options import Json, PolicyPath, flag
from tallyveil.cli.text import Output

if TYPE_CHECKING:
    from tallyveil.cli.serving.security import UserFile

__all__ = ["users"]

users = typer.Typer(no_args_is_help=True, help="Add, remove and list users who may connect.")

Name = Annotated[str, typer.Argument(help="The user name.", metavar="NAME")]


@users.command(cls=Command)
def add(
    policy: PolicyPath,
    name: Name,
    stdin: bool = flag("--stdin", "Read the password from standard input."),
    replace: bool = flag("--replace", "Change the password of an existing user."),
) -> Output:
    """Allow NAME to connect. Asks for a password and stores its SCRAM verifier."""
    file = _file(policy, create=True)
    password = (
        sys.stdin.buffer.readline().decode("utf-8", "surrogateescape").rstrip("\r\n")
        if stdin
        else typer.prompt(f"Password for {name}", hide_input=True, confirmation_prompt=True)
    )
    file.add(name, password, replace=replace)
    return Output(None, [f"{name} may connect: {file.path}"])


@users.command(cls=Command)
def remove(policy: PolicyPath, name: Name) -> Output:
    """Remove NAME from the users. Open connections stay open."""
    file = _file(policy)
    file.remove(name)
    return Output(None, [f"{name} was removed: {file.path}"])


@users.command("list", cls=Command)
def list_(policy: PolicyPath, json: Json = False) -> Output:
    """List the users who may connect."""
    names = sorted(_file(policy).verifiers)
    return Output(names, names)


def _file(policy: Path, *, create: bool = False) -> UserFile:
    from tallyveil.cli.serving.security import read_user_file, user_path
    from tallyveil.policy import load_policy

    return read_user_file(user_path(policy, load_policy(policy).server), create=create)
