"""Names that differ only in case: two names to PostgreSQL, one to DuckDB."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from tallyveil.errors import FeatureNotSupported, UndefinedColumn
from tallyveil.rewriter.postgres.topic import Rules
from tallyveil.rewriter.resolve.bound import Bound
from tallyveil.rewriter.resolve.record_queries import reads_records
from tallyveil.rewriter.sql.nodes import ambiguous, is_star

__all__ = ["RULES"]

_HINT = "Choose names that differ in more than upper and lower case."


def column(node: exp.Column, bound: Bound) -> exp.Expr | None:
    """Refuse a column of a subquery or common table, or an alias in ORDER BY or GROUP BY, if
    another one has the same name but for case.
    """
    names = [name for name in bound.column_names(node) if name.lower() == node.name.lower()]
    if not node.table:
        item = _item(node, names)
        if item is not None:
            return item if item is not node else None
    if not names or names == [node.name]:
        return None
    if node.name not in names:
        raise UndefinedColumn(
            f'column "{node.name}" does not exist',
            hint=f'There is a column "{names[0]}": write its name in double quotes.',
        )
    if names.count(node.name) > 1:
        raise ambiguous(node)
    raise FeatureNotSupported(
        f'the columns "{names[0]}" and "{names[1]}" differ only in case', hint=_HINT
    )


def _item(node: exp.Column, names: Sequence[str]) -> exp.Expr | None:
    """The item that an alias means: its number where DuckDB could take another item, or else
    ``node``. None if the name is a column's, as in GROUP BY whenever there is such a column.
    """
    ordered, select = isinstance(node.parent, exp.Ordered), node.parent_select
    if select is None or not _may_name_item(node, select):
        return None
    alike = [
        (number, item)
        for number, item in enumerate(select.expressions, 1)
        if isinstance(item, exp.Alias) and item.alias.lower() == node.name.lower()
    ]
    if not alike:
        return None
    exact = [number for number, item in alike if item.alias == node.name]
    if not exact:
        if ordered and alike and not reads_records(select):
            _refuse_other_item(node, alike[0][1])
        return None
    if not ordered and node.name in names:
        return None
    if len(exact) == len(alike) and (ordered or not names):
        return node
    if len(exact) > 1 or any(map(is_star, select.expressions[: exact[0]])):
        return node
    if isinstance(node.parent, exp.Ordered | exp.Group):
        return exp.Literal.number(exact[0])
    return node


def _may_name_item(node: exp.Column, select: exp.Select) -> bool:
    """Whether it stands in ORDER BY, GROUP BY or HAVING of the SELECT, or in a dp_… function."""
    above: exp.Expr = node
    while isinstance(above.parent, exp.Expr) and above.parent is not select:
        if isinstance(above.parent, exp.Window):
            return False
        above = above.parent
    return above.arg_key in ("order", "group", "having") or isinstance(node.parent, exp.Anonymous)


def _refuse_other_item(node: exp.Column, item: exp.Alias) -> None:
    """DuckDB would order by an item whose alias differs in case, not by the column."""
    if item.this != node:
        raise FeatureNotSupported(
            f'the names "{item.alias}" and "{node.name}" differ only in case', hint=_HINT
        )


def relation(node: exp.TableAlias, bound: Bound) -> None:
    other = bound.relations.setdefault(node.name.lower(), node.name)
    if other != node.name:
        raise FeatureNotSupported(
            f'the names "{other}" and "{node.name}" differ only in case', hint=_HINT
        )


RULES: Final[Rules] = {exp.Column: (column,), exp.TableAlias: (relation,)}
