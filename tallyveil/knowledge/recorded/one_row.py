"""Questions that few recorded columns can help, because all have one row along an attribute.

    SELECT count(*) FROM person WHERE age < 30 AND sex = 'F'

is helped by no column that does not mention sex, if all that do are about F too. For let f, not
constant, be the row along an attribute of which all questions s⊗f and all columns rᵢ⊗f that
mention the attribute are multiples, and let bⱼ⊗1 be the others. An estimate of a question has
Σ wᵢ(rᵢ⊗f) + Σ zⱼ(bⱼ⊗1) = s⊗f. Applied, along the attribute, to values that add up to 0 and that f
does not annul, this is Σ wᵢrᵢ = s. So Σ zⱼbⱼ = 0, and where the noise is independent z = 0 has the
least variance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from tallyveil.workload.workload import Column

__all__ = ["MOST", "along_one_row"]

MOST: Final = 64
"""Columns to look at: with more, to choose among them takes no longer."""

_Row: TypeAlias = tuple[tuple[str, bytes], ...]


def along_one_row(
    questions: Sequence[Column],
    mentioning: Callable[[str], list[int] | None],
    column: Callable[[int], Column],
) -> list[int] | None:
    """The numbers of the only columns that can help; None where this does not tell.

    ``mentioning`` an attribute are the columns of these numbers; None if they are too many.
    """
    if not questions:
        return None
    first, *others = questions
    for factor in first.factors:
        if len(factor.axes) != 1 or factor.height != 1:
            continue
        (axis,) = factor.axes
        row = _row_along(first, axis)
        numbers = mentioning(axis) if row else None
        if numbers is None or any(_row_along(other, axis) != row for other in others):
            continue
        # The latest first, since they tell most often that there are others.
        if all(_row_along(column(number), axis) == row for number in reversed(numbers)):
            return numbers
    return None


def _row_along(column: Column, axis: str) -> _Row | None:
    """The name of the row of which all the column's rows are multiples along the attribute; empty
    if that is constant, None if there are several."""
    for factor in column.factors:
        if axis in factor.axes:
            if len(factor.axes) > 1 or factor.height != 1:
                return None
            scalar, pairs = factor.named.parts[0]
            return tuple(pairs) if scalar else None
    return ()
