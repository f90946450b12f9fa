"""Parsing of strategies, such as identity, marginals:2 or tree:age:4."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tallyveil.errors import InvalidParameterValue
from tallyveil.policy import Attribute, Table
from tallyveil.strategies.strategy import Strategy, marginals
from tallyveil.strategies.tree import tree

__all__ = ["parse_strategy"]


def parse_strategy(text: str, table: Table, names: Sequence[str] | None = None) -> Strategy:
    """Parse the strategy over the attributes ``names``, by default all; a tree names its own.

    Raises InvalidParameterValue for an unknown strategy or attribute, and as `marginals` and
    `tree`.
    """
    match text.split(":"):
        case ["identity"]:
            hint = "Name fewer attributes with --attributes a,b, or use --strategy marginals:2."
            return marginals(table.name, text, [_attributes(table, names)], hint)
        case ["marginals", ways] if _is_number(ways):
            groups = _groups(_attributes(table, names), int(ways))
            hint = "Name fewer attributes with --attributes a,b, or use a smaller K."
            return marginals(table.name, f"marginals:{int(ways)}", groups, hint)
        case ["tree", name, *fanout] if len(fanout) <= 1 and all(map(_is_number, fanout)):
            if names is not None:
                raise InvalidParameterValue(
                    "tree:ATTRIBUTE names its attribute", hint="Leave out --attributes."
                )
            (attribute,) = _attributes(table, [name])
            return tree(table.name, attribute, int(fanout[0]) if fanout else None)
    raise InvalidParameterValue(
        f'"{text}" is not a strategy',
        hint="Write identity, marginals:2, tree:age, or tree:age:4 for a fanout of 4.",
    )


def _attributes(table: Table, names: Sequence[str] | None) -> tuple[Attribute, ...]:
    if names is None:
        return table.domain.attributes
    for name in names:
        if name not in table.domain:
            raise InvalidParameterValue(
                f'table {table.name} has no attribute "{name}"',
                hint=f"Its attributes are {', '.join(table.domain.names)}.",
            )
        if names.count(name) > 1:
            raise InvalidParameterValue(f'attribute "{name}" is named more than once')
    return table.domain.project(names)


def _groups(attributes: Sequence[Attribute], ways: int) -> list[tuple[Attribute, ...]]:
    if not 1 <= ways <= len(attributes):
        raise InvalidParameterValue(
            f"there are no marginals over {ways} of {len(attributes)} attributes",
            hint=f"Write --strategy marginals:K with K from 1 to {len(attributes)}.",
        )
    return list(itertools.combinations(attributes, ways))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 6
