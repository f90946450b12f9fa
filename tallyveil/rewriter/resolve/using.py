"""JOIN … USING: whose columns it makes one. Of what is on its left it sees what follows the last
comma, since a comma joins last.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from sqlglot import exp

from tallyveil.errors import AmbiguousColumn, UndefinedColumn
from tallyveil.rewriter.resolve.branches import Field, Records
from tallyveil.rewriter.sql.nodes import position

__all__ = ["columns_of", "commas_before"]


def commas_before(steps: Sequence[exp.Join]) -> list[int]:
    """How many commas are before each item of FROM: the `Field.part` of its columns."""
    words = ("kind", "side", "on", "using")
    commas = (not any(step.args.get(word) for word in words) for step in steps[1:])
    return list(accumulate(commas, initial=0))


def columns_of(
    name: exp.Identifier, records: Records, fields: Sequence[Field], part: int
) -> tuple[int, int]:
    """The numbers of the two columns a name in USING stands for; ``fields`` are the right side's.

    Raises UndefinedColumn, AmbiguousColumn.
    """
    left = [
        number
        for number, f in enumerate(records.fields)
        if f.name == name.name and f.part == part and not f.hidden
    ]
    right = [number for number, f in enumerate(fields) if f.name == name.name]
    if not left or len(right) != 1:
        raise UndefinedColumn(
            f'column "{name.name}" specified in USING clause does not exist on both sides',
            hint="Of a FROM with commas, USING sees what follows the last one." if part else None,
            position=position(name),
        )
    if len(left) > 1:
        raise AmbiguousColumn(
            f'common column name "{name.name}" appears more than once in left table',
            position=position(name),
        )
    return left[0], len(records.fields) + right[0]
