"""Runs the statements of a session that are not queries: settings, transaction blocks, SHOW."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tallyveil.errors import FeatureNotSupported
from tallyveil.gate.commands import (
    apply,
    described_columns,
    described_rows,
    shown_columns,
    shown_rows,
)
from tallyveil.gate.interface import Change, Result, Statement
from tallyveil.gate.relations.shown import Shown
from tallyveil.gate.settings import Settings

__all__ = ["SessionCommands"]


@dataclass(eq=False)
class SessionCommands:
    """The commands of one session; used by one thread at a time. ``relations`` lists what can be
    queried, ``before`` are the settings when a transaction block began."""

    settings: Settings
    relations: Callable[[], tuple[Shown, ...]]
    before: object | None = None

    def run(self, statement: Statement) -> Result:
        change = statement.change or Change({})
        match statement.kind:
            case "set":
                return Result(None, (), statement.tag, apply(change, self.settings))
            case "show":
                rows = shown_rows(statement, self.settings)
                return Result(shown_columns(statement), rows, "SHOW")
            case "describe":
                found = described_rows(statement, self.relations())
                return Result(described_columns(statement), found, "SHOW")
            case "begin":
                self.before = self.before or self.settings.snapshot()
                self.settings.begin(change.block or {})
            case "commit" | "rollback":
                if statement.kind == "rollback" and self.before:
                    self.settings.restore(self.before)
                self.before = None
                self.settings.end()
            case "close" if statement.target is None:
                pass  # there are no cursors
            case "copy" | "declare" | "fetch" | "close" | "prepare" | "execute":
                raise FeatureNotSupported(
                    f"{statement.tag} is answered only over the wire",
                    hint="Send the query itself.",
                    position=1,
                )
        return Result(None, (), statement.tag)
