"""An error as the shell says it: on standard error with a caret, or as JSON; exit status 1."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand

from tallyveil.cli.text import Said, print_json
from tallyveil.errors import PolicyError, TallyveilError, UndefinedTable

if TYPE_CHECKING:
    from tallyveil.gate.interface import Notice
    from tallyveil.policy import Policy, Table

__all__ = ["Command", "complaints", "error_lines", "laid_out", "protected"]


@contextmanager
def complaints(sql: str | None = None, *, json: bool = False) -> Iterator[None]:
    """Print any TallyveilError raised inside and leave with status 1.

    ``sql`` is the text that the errors' positions count in.
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
    """One that returns what is to be printed, if anything; its errors are printed as `complaints`
    says. Both as JSON where it was asked for."""

    def invoke(self, ctx: Any) -> None:
        sql = ctx.params.get("query") or ctx.params.get("posterior")
        json = ctx.params.get("json", False)
        with complaints(sql, json=json):
            said: Said | None = super().invoke(ctx)
            if said is not None:
                said.print(json=json)


def protected(policy: Policy, name: str) -> Table:
    """The protected table. Raises UndefinedTable, which names those there are."""
    if name not in policy.tables:
        known = ", ".join(policy.tables)
        raise UndefinedTable(f'there is no protected table "{name}"', hint=f"Known: {known}.")
    return policy.tables[name]


def error_lines(error: TallyveilError, sql: str | None = None) -> list[str]:
    """What is wrong, where, and what to do instead."""
    if isinstance(error, PolicyError):
        return [f"ERROR {error.sqlstate}: {error.message}", *(f"  {m}" for m in error.mistakes)]
    return laid_out(f"ERROR {error.sqlstate}", error, sql)


def laid_out(kind: str, said: TallyveilError | Notice, sql: str | None = None) -> list[str]:
    """The lines psql would print; positions count in ``sql``, from 1."""
    lines = [f"{kind}: {said.message}"]
    if sql is not None and said.position is not None:
        lines += _pointed(sql, said.position)
    if said.detail:
        lines.append(f"DETAIL: {said.detail}")
    if said.hint:
        lines.append(f"HINT: {said.hint}")
    return lines


def _pointed(sql: str, position: int) -> list[str]:
    """The line of ``sql`` that holds character ``position`` (from 1), and a caret below it."""
    before = sql[: max(0, position - 1)]
    number = before.count("\n")
    line = sql.split("\n")[number]
    head = f"LINE {number + 1}: "
    start = len(before) - (before.rfind("\n") + 1)
    # Tabs stay tabs, so that the caret stands below its character whatever a tab's width is.
    margin = "".join("\t" if c == "\t" else " " for c in head + line[:start])
    return [head + line, margin + "^"]


def _fields(error: TallyveilError) -> dict[str, Any]:
    names = ("sqlstate", "message", "detail", "hint", "position")
    fields: dict[str, Any] = {name: getattr(error, name) for name in names}
    if isinstance(error, PolicyError):
        fields["mistakes"] = list(error.mistakes)
    return fields
