"""WINDOW w AS (…): each OVER w is written out, as PostgreSQL reads it."""

from __future__ import annotations

from sqlglot import exp

from tallyveil.errors import SQLSyntaxError, UndefinedObject
from tallyveil.rewriter.sql.check import position

__all__ = ["write_out_windows"]


def write_out_windows(tree: exp.Expr) -> None:
    """Put the definitions of every SELECT's WINDOW clause in the places of their names.

    Raises UndefinedObject for a name without a definition, SQLSyntaxError for one that is defined
    twice, or used where it must not be changed.
    """
    defined: dict[int, dict[str, exp.Window]] = {}
    for select in tree.find_all(exp.Select):
        named: dict[str, exp.Window] = {}
        for window in select.args.get("windows") or ():
            name = window.this.name
            if name in named:
                raise SQLSyntaxError(
                    f'window "{name}" is already defined', position=position(window.this)
                )
            _write_out(window, named)
            named[name] = window
        select.set("windows", None)
        defined[id(select)] = named
    for window in list(tree.find_all(exp.Window)):
        _write_out(window, defined.get(id(window.parent_select), {}))


def _write_out(window: exp.Window, definitions: dict[str, exp.Window]) -> None:
    """Take over what the named window has. Called by OVER w it is the same; in brackets it may be
    ordered and given a frame, where the named one has neither.
    """
    name = window.args.get("alias")
    if name is None:
        return
    found = definitions.get(name.name)
    if found is None:
        raise UndefinedObject(f'window "{name.name}" does not exist', position=position(name))
    clash = [
        words
        for part, words in (("partition_by", "PARTITION BY"), ("order", "ORDER BY"))
        if window.args.get(part) and (part == "partition_by" or found.args.get(part))
    ]
    if clash:
        raise SQLSyntaxError(
            f'cannot override {clash[0]} clause of window "{name.name}"', position=position(name)
        )
    bare = not (window.args.get("order") or window.args.get("spec"))
    if found.args.get("spec") and not bare:
        raise SQLSyntaxError(
            f'cannot copy window "{name.name}" because it has a frame clause',
            position=position(name),
        )
    window.set("alias", None)
    window.set("partition_by", [part.copy() for part in found.args.get("partition_by") or ()])
    for part in ("order", "spec"):
        inherited = found.args.get(part)
        if inherited is not None:
            window.set(part, inherited.copy())
