"""Which relation each name in FROM means, and which SELECT is a private block."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from sqlglot import exp

from tallyveil.errors import FeatureNotSupported, UndefinedTable
from tallyveil.rewriter.check import position

__all__ = ["Reference", "references"]

_DEFAULT_SCHEMAS = ("", "public", "main")
_CATALOG_SCHEMAS = ("pg_catalog", "information_schema")


@dataclass(frozen=True)
class Reference:
    """A table node and what it names: a protected table, a dp relation, or a common table."""

    node: exp.Table
    kind: str  # "protected", "dp", "common"
    name: str


def references(
    tree: exp.Expr, protected: Collection[str], relations: Collection[str]
) -> Iterator[Reference]:
    """Resolve every table in the tree. Raises UndefinedTable, with no hint of the source."""
    for table in tree.find_all(exp.Table):
        yield _resolve(table, protected, relations)


def _resolve(table: exp.Table, protected: Collection[str], relations: Collection[str]) -> Reference:
    if not isinstance(table.this, exp.Identifier):
        raise FeatureNotSupported(
            "table functions are not answered",
            hint="SELECT from a protected table; SELECT * FROM dp.attributes lists them.",
            position=position(table),
        )
    name, schema = table.name, table.db
    if table.catalog:
        raise _undefined(table)
    if not schema and _is_common(table, name):
        return Reference(table, "common", name)
    if schema == "dp" and name in relations:
        return Reference(table, "dp", name)
    if schema in _DEFAULT_SCHEMAS and name in protected:
        return Reference(table, "protected", name)
    raise _undefined(table)


def _undefined(table: exp.Table) -> UndefinedTable:
    name = ".".join(part.name for part in table.parts)
    if table.db in _CATALOG_SCHEMAS or (not table.db and name.startswith("pg_")):
        return UndefinedTable(
            f'relation "{name}" does not exist',
            detail="No catalog is offered here.",
            hint="SELECT * FROM dp.attributes lists the tables and attributes one can ask about.",
            position=position(table),
        )
    return UndefinedTable(
        f'relation "{name}" does not exist',
        hint="SELECT * FROM dp.attributes lists the tables and attributes one can ask about.",
        position=position(table),
    )


def _is_common(table: exp.Table, name: str) -> bool:
    """Whether a WITH around the table defines the name before the table is reached."""
    inside: exp.Expr = table
    ancestor = table.parent
    while ancestor is not None:
        definitions = ancestor.args.get("with_") if isinstance(ancestor, exp.Query) else None
        if definitions is not None:
            for cte in definitions.expressions:
                if cte is inside:
                    break
                if cte.alias == name:
                    return True
        if isinstance(ancestor, exp.CTE):
            # Within a definition, only the definitions before it are visible.
            siblings = ancestor.parent
            if siblings is not None:
                for cte in siblings.expressions:
                    if cte is ancestor:
                        break
                    if cte.alias == name:
                        return True
                inside = ancestor
                ancestor = siblings.parent.parent if siblings.parent is not None else None
                continue
        inside, ancestor = ancestor, ancestor.parent
    return False
