"""Names that differ only in case: two names to PostgreSQL, one to DuckDB."""

from __future__ import annotations

from sqlglot import exp

from tallyveil.errors import AmbiguousColumn, FeatureNotSupported, UndefinedColumn
from tallyveil.rewriter.check import position
from tallyveil.rewriter.scope import Scope

__all__ = ["column", "relation"]

_HINT = "Choose names that differ in more than upper and lower case."


def column(node: exp.Column, scope: Scope) -> None:
    """A column of a subquery or common table is to have its name alone."""
    names = [name for name in scope.column_names(node) if name.lower() == node.name.lower()]
    if not names or names == [node.name]:
        return
    if node.name not in names:
        raise UndefinedColumn(
            f'column "{node.name}" does not exist',
            hint=f'There is a column "{names[0]}": write its name in double quotes.',
            position=position(node),
        )
    if names.count(node.name) > 1:
        raise AmbiguousColumn(
            f'column reference "{node.name}" is ambiguous', position=position(node)
        )
    raise FeatureNotSupported(
        f'the columns "{names[0]}" and "{names[1]}" are not told apart here',
        hint=_HINT,
        position=position(node),
    )


def relation(node: exp.TableAlias, scope: Scope) -> None:
    other = scope.relations.setdefault(node.name.lower(), node.name)
    if other != node.name:
        raise FeatureNotSupported(
            f'the names "{other}" and "{node.name}" are not told apart here',
            hint=_HINT,
            position=position(node),
        )
