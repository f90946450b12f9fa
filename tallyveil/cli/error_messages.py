"""Errors as the shell prints them: on standard error with a caret, or as JSON; exit status 1."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand

from tallyveil.cli.progress_bar import progress_bar
from tallyveil.cli.text import Output, print_json
from tallyveil.errors import PolicyError, TallyveilError, UndefinedTable
from tallyveil.progress import displayed_by

if TYPE_CHECKING:
    from tallyveil.gate.interface import Notice
    from tallyveil.policy import Policy, Table

__all__ = ["Command", "error_lines", "message_lines", "printing_errors", "protected"]


@contextmanager
def printing_errors(sql: str | None = None, *, json: bool = False) -> Iterator[None]:
    """Print any TallyveilError raised inside, and exit with status 1.

    ``sql`` is the text to which the errors' positions refer.
    """
    try:
        yield
    except TallyveilError as error:
        if json:
            print_json({"error": _fields(error)})
        else:
            typer.echo("\n".join(error_lines(error, sql)), err=True)
        raise typer.Exit(1) from None


class Command(TyperCommand):
    """A command that returns its output, or yields several. It prints them, and errors as
    `printing_errors` does; with --json, both as JSON."""

    def invoke(self, ctx: Any) -> None:
        sql = ctx.params.get("query") or ctx.params.get("posterior")
        json = ctx.params.get("json", False)
        with printing_errors(sql, json=json), displayed_by(progress_bar(json=json)):
            found: Output | Iterator[Output] | None = super().invoke(ctx)
            for output in [found] if isinstance(found, Output) else found or ():
                output.print(json=json)


def protected(policy: Policy, name: str) -> Table:
    """Return the protected table. Raises UndefinedTable, which lists those that exist."""
    if name not in policy.tables:
        known = ", ".join(policy.tables)
        raise UndefinedTable(f'there is no protected table "{name}"', hint=f"Known: {known}.")
    return policy.tables[name]


def error_lines(error: TallyveilError, sql: str | None = None) -> list[str]:
    """Return the lines of an error: what is wrong, where, and what to do instead."""
    if isinstance(error, PolicyError):
        return [f"ERROR {error.sqlstate}: {error.message}", *(f"  {m}" for m in error.mistakes)]
    return message_lines(f"ERROR {error.sqlstate}", error, sql)


def message_lines(kind: str, message: TallyveilError | Notice, sql: str | None = None) -> list[str]:
    """Return the lines that psql would print; positions refer to ``sql``, from 1."""
    lines = [f"{kind}: {message.message}"]
    if sql is not None and message.position is not None:
        lines += _with_caret(sql, message.position)
    if message.detail:
        lines.append(f"DETAIL: {message.detail}")
    if message.hint:
        lines.append(f"HINT: {message.hint}")
    return lines


def _with_caret(sql: str, position: int) -> list[str]:
    """Return the line of ``sql`` with character ``position`` (from 1), and a caret below it."""
    before = sql[: max(0, position - 1)]
    number = before.count("\n")
    line = sql.split("\n")[number]
    head = f"LINE {number + 1}: "
    start = len(before) - (before.rfind("\n") + 1)
    # Tabs stay tabs, so that the caret is below its character for any width of tabs.
    margin = "".join("\t" if c == "\t" else " " for c in head + line[:start])
    return [head + line, margin + "^"]


def _fields(error: TallyveilError) -> dict[str, Any]:
    names = ("sqlstate", "message", "detail", "hint", "position")
    fields: dict[str, Any] = {name: getattr(error, name) for name in names}
    if isinstance(error, PolicyError):
        fields["mistakes"] = list(error.mistakes)
    return fields
