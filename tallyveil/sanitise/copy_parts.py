"""The parts of a copy: columns that are perturbed as one value, and by which mechanism."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from tallyveil.errors import InvalidParameterValue
from tallyveil.mechanisms.records import RECORD_LAWS, OneRecord, PartKind
from tallyveil.mechanisms.zcdp import pure_epsilon
from tallyveil.policy import Attribute, Table

__all__ = ["MAX_PART_CELLS", "CopyOptions", "Group", "groups"]

MAX_PART_CELLS: Final = 1_000_000
MAX_SERIES_CELLS: Final = 2**58
_TIMES: Final = "All columns of a series must be declared as the same range."


@dataclass(frozen=True)
class CopyOptions:
    """The options of a copy, which is (``epsilon``, ``delta``)-DP as a whole and costs `pure`.

    - ``columns``: the columns to copy, by default all. Each is a part of its own, except those in
      a group of ``together``, the boolean columns in one of ``sets``, and the range columns in one
      of ``series``.
    - ``split``: the ε of parts, by name. The other parts share the rest equally.
    - ``laplace``: the columns that get Laplace noise.
    """

    epsilon: Fraction
    columns: Sequence[str] | None = None
    together: Sequence[Sequence[str]] = ()
    sets: Sequence[Sequence[str]] = ()
    series: Sequence[Sequence[str]] = ()
    split: Mapping[str, Fraction] = field(default_factory=dict)
    laplace: Sequence[str] = ()
    delta: Fraction | None = None

    @property
    def pure(self) -> Fraction:
        """The ε′ ≥ ε that the parts share: ε′-DP implies (ε, δ)-DP (`pure_epsilon`)."""
        return self.epsilon if self.delta is None else pure_epsilon(self.epsilon, self.delta)


@dataclass(frozen=True)
class Group:
    """``attributes``, in the domain's order, that a law of this ``kind`` perturbs as one value."""

    attributes: tuple[Attribute, ...]
    kind: PartKind

    @property
    def name(self) -> str:
        return "+".join(attribute.name for attribute in self.attributes)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(attribute.size for attribute in self.attributes)

    def law_at(self, epsilon: Fraction) -> OneRecord:
        """Return the law. A complete range has a cell for NULL, the last one, as laws of kinds
        "laplace" and "series" require."""
        return RECORD_LAWS[self.kind].of(self.shape, epsilon)


def groups(table: Table, options: CopyOptions) -> list[Group]:
    """Return the parts of a copy, ordered by their first column in the domain.

    Raises InvalidParameterValue for columns that do not exist, are named twice, or that the
    mechanism cannot perturb.
    """
    domain = table.domain
    joint = [*options.together, *options.sets, *options.series]
    columns = list(domain.names) if options.columns is None else list(options.columns)
    members = [name for group in joint for name in group]
    for name in [*columns, *options.laplace, *members]:
        if name not in domain:
            raise InvalidParameterValue(
                f'table {table.name} has no attribute "{name}"',
                hint=f"Its attributes are {', '.join(domain.names)}.",
            )
    if not columns and not joint:
        raise InvalidParameterValue("a copy needs a column", hint="Name at least one column.")
    for name in {*columns, *members}:
        if columns.count(name) > 1 or members.count(name) > 1:
            raise InvalidParameterValue(
                f'column "{name}" must be named once among the columns, and in at most one group'
            )
    alone = [name for name in columns if name not in members]
    for name in options.laplace:
        if name not in alone and name not in members:
            raise InvalidParameterValue(f'column "{name}" is not among the columns of the copy')
    named: list[tuple[Sequence[str], PartKind]] = [
        *((group, "response") for group in options.together),
        *((group, "set") for group in options.sets),
        *((group, "series") for group in options.series),
        *(([name], "laplace" if name in options.laplace else "response") for name in alone),
    ]
    found = [Group(tuple(domain.project(names)), kind) for names, kind in named]
    for group in found:
        _check(group, options.laplace)
    return sorted(found, key=lambda group: domain.names.index(group.attributes[0].name))


def _check(group: Group, laplace: Sequence[str]) -> None:
    kind, first = group.kind, group.attributes[0]
    for one in group.attributes:
        unranged = not (kind == "laplace" and one.stepped)
        mistakes = (
            (
                one.step is not None or one.represented,
                "cannot be copied: it is rounded to steps, or its bins are represented by numbers",
                "Declare a range of whole numbers or of days, or bins, for what a copy is made of.",
            ),
            (
                one.name in laplace and unranged,
                "cannot have Laplace noise",
                "It is for single columns declared as a range; values and bins get randomised "
                "response.",
            ),
            (
                kind == "set" and one.sql_type != "BOOLEAN",
                "cannot be an element of a set: it is not boolean",
                "A set has a boolean column for each element; use together for other columns.",
            ),
            (
                kind == "set" and one.size < 2,
                "cannot be an element of a set: it has only one value",
                "Declare values = [true, false], or leave the column out of the set.",
            ),
            (
                kind == "series" and not one.stepped,
                "cannot be in a series: it is not declared as a range",
                _TIMES,
            ),
            (
                kind == "series" and one.cells != first.cells,
                f'cannot be in a series with "{first.name}": it is declared as another range',
                _TIMES,
            ),
        )
        for wrong, what, hint in mistakes:
            if wrong:
                raise InvalidParameterValue(f'column "{one.name}" {what}', hint=hint)
    size, most = math.prod(group.shape), MAX_SERIES_CELLS if kind == "series" else MAX_PART_CELLS
    if size > most:
        raise InvalidParameterValue(
            f"{group.name} has {size:,} values together, more than {most:,}",
            hint="Take fewer columns together, or declare coarser ranges.",
        )
