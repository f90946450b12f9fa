"""Common tables below the aggregation: put in the place of their names.

A WITH item that holds no noisy rows means the same wherever its definition stands, so records and
public rows can be followed from FROM to FROM. One that aggregates records stays where it is: it is
released once, however often it is named.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from tallyveil import deadline
from tallyveil.rewriter.resolve.names import Reference
from tallyveil.rewriter.resolve.records import holds_noise
from tallyveil.rewriter.sql.size import Size

__all__ = ["inline_common_tables"]


def inline_common_tables(tree: exp.Expr, resolved: Sequence[Reference]) -> None:
    """Replace, in place, every name of a common table without noisy rows by its definition.

    Raises StatementTooComplex where the statement would grow beyond MAX_NODES.
    """
    common = [reference for reference in resolved if reference.definition is not None]
    if not common:
        return
    inlining = _Inlining(common)
    inlining.run()
    for clause in list(tree.find_all(exp.With)):
        kept = [item for item in clause.expressions if inlining.stays(item)]
        if kept:
            clause.set("expressions", kept)
        else:
            clause.pop()


class _Inlining:
    """Definitions are completed before they are copied, so that no copy names another."""

    def __init__(self, common: Sequence[Reference]) -> None:
        self._inside: dict[int, list[Reference]] = {}
        self._all = common
        for reference in common:
            node = reference.node.find_ancestor(exp.CTE)
            while node is not None:
                self._inside.setdefault(id(node), []).append(reference)
                node = node.find_ancestor(exp.CTE)
        self._done: set[int] = set()
        self._stays: dict[int, bool] = {}
        self._size = Size("the common tables", "Name each common table less often.")

    def run(self) -> None:
        for reference in self._all:
            self._replace(reference)

    def stays(self, item: exp.CTE) -> bool:
        """Whether a completed definition holds noise."""
        if id(item) not in self._stays:
            deadline.check()
            self._stays[id(item)] = holds_noise(item.this)
        return self._stays[id(item)]

    def _replace(self, reference: Reference) -> None:
        item, table = reference.definition, reference.node
        if item is None or id(table) in self._done:
            return
        self._done.add(id(table))
        for inner in self._inside.get(id(item), ()):
            self._replace(inner)
        if self.stays(item):
            return
        copy = item.this.copy()
        self._size.add(copy)
        table.replace(exp.Subquery(this=copy, alias=_alias(table, item)))


def _alias(table: exp.Table, item: exp.CTE) -> exp.TableAlias:
    given = table.args.get("alias")
    columns = given.columns if given is not None and given.columns else item.args["alias"].columns
    name = exp.to_identifier(table.alias or table.name, quoted=True)
    return exp.TableAlias(this=name, columns=[column.copy() for column in columns])
