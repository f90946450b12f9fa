"""The commands `tallyveil agent …`: counts of several custodians whose totals are exact."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tallyveil.cli.error_messages import Command
from tallyveil.cli.options import Json, PolicyPath, option
from tallyveil.cli.text import Output

__all__ = ["agents"]

agents = typer.Typer(
    no_args_is_help=True, help="Release counts with other custodians, their totals exact."
)

PlanPath = Annotated[
    Path, typer.Argument(help="The agents' common plan, a TOML file.", metavar="PLAN")
]

_SECRET: Any = option("The agent's copy of the secret.", ..., metavar="FILE")


@agents.command(cls=Command)
def secret(
    file: Annotated[Path, typer.Argument(help="The file to create.", metavar="FILE")],
) -> Output:
    """Create a secret. Each agent needs a copy of it."""
    from tallyveil.agents import Secret

    Secret.make(file)
    line = f"{file} holds a new secret. Give each agent a copy over a confidential channel."
    return Output(None, [line])


@agents.command(cls=Command)
def check(policy: PolicyPath, plan: PlanPath, secret: Path = _SECRET) -> Output:
    """Show what a part will cost, and a code that is equal for all agents that agree. Free."""
    from tallyveil.cli.agents import check as work

    return work(policy, plan, secret)


@agents.command(cls=Command)
def release(
    policy: PolicyPath,
    plan: PlanPath,
    agent: str = option("This agent's name in the plan.", ..., metavar="NAME"),
    number: int = option(
        "The release's number, the same for all agents: 1, then 2, ….", ..., "--release", min=1
    ),
    secret: Path = _SECRET,
    out: Path = option("The JSON file to write.", ..., metavar="FILE"),
) -> Output:
    """Release this agent's part. Releasing the same part again is free."""
    from tallyveil.cli.agents import release as work

    return work(policy, plan, agent, number, secret, out)


@agents.command(cls=Command)
def combine(
    parts: Annotated[list[Path], typer.Argument(help="The parts of one release.", metavar="PART…")],
    json: Json = False,
) -> Output:
    """Add up the agents' parts. The totals are exact if all parts are given."""
    from tallyveil.cli.agents import combine as work

    return work(parts)
