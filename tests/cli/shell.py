"""The command line in this process, and the demo's people to ask about."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from tallyveil.cli.app import app

__all__ = ["shell", "spent"]


def shell(*arguments: object, typed: str | bytes | None = None) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=typed)


def spent(policy: Path) -> float:
    [row] = json.loads(shell("budget", policy, "--json").stdout)
    return float(row["spent"])
