"""Which mechanism perturbs which columns, at which share of ε."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from tallyveil.errors import FeatureNotSupported, InvalidParameterValue
from tallyveil.mechanisms import (
    ClampedLaplace,
    OneRecord,
    RandomisedResponse,
    Relation,
    Sanitiser,
    spent,
)
from tallyveil.mechanisms.measure import Measure
from tallyveil.mechanisms.units import from_units
from tallyveil.policy import Attribute, Table
from tallyveil.rewriter.workload import Column, Workload

__all__ = ["MAX_PART_CELLS", "Options", "Part", "Plan", "plan"]

MAX_PART_CELLS = 1_000_000


@dataclass(frozen=True)
class Options:
    """``epsilon`` is for the whole copy. ``columns`` are all unless named; each is a part of its
    own but for those ``together``. ``split`` says the ε of parts by name, the others share what
    is left evenly; ``laplace`` names the columns that get Laplace noise.
    """

    epsilon: Fraction
    columns: Sequence[str] | None = None
    together: Sequence[Sequence[str]] = ()
    split: Mapping[str, Fraction] = field(default_factory=dict)
    laplace: Sequence[str] = ()


@dataclass(frozen=True)
class Part:
    """Columns that are perturbed as one value, in the domain's order, by ``law``."""

    attributes: tuple[Attribute, ...]
    law: OneRecord

    @property
    def name(self) -> str:
        return "+".join(attribute.name for attribute in self.attributes)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(attribute.size for attribute in self.attributes)


@dataclass(frozen=True)
class Plan:
    """``workload`` and ``scales`` are what the ledger is charged for."""

    table: Table
    parts: tuple[Part, ...]
    workload: Workload
    scales: tuple[float, ...]

    @property
    def epsilon(self) -> Fraction:
        """The whole copy's ε, exactly: no more than was asked for."""
        return sum((part.law.epsilon for part in self.parts), Fraction(0))

    def cost(self, relation: Relation, measure: Measure) -> Fraction:
        """What a ledger that counts in ``measure`` is charged: Σ ε_c, or Σ ε_c²/2 in ρ."""
        return from_units(Sanitiser().loss(self.workload, self.scales, relation, measure).bound)


def plan(table: Table, relation: Relation, options: Options) -> Plan:
    """The copy that ``options`` ask for. Public facts only; nothing is charged or read.

    Raises FeatureNotSupported where the number of records is confidential, and
    InvalidParameterValue for columns, shares or mechanisms that do not fit the table.
    """
    if not relation.closed:
        raise _shows_the_number(table)
    groups = _groups(table, options)
    epsilons = _shares([_name(group) for group in groups], options)
    for name in options.laplace:
        _check_laplace(name, groups)
    workload = Workload(table.name, tuple(_identity(group) for group in groups))
    scales = Sanitiser().scales_for(workload, epsilons, relation)
    parts = (
        Part(group, _law(group, spent(scale), options))
        for group, scale in zip(groups, scales, strict=True)
    )
    return Plan(table, tuple(parts), workload, scales)


def _shows_the_number(table: Table) -> FeatureNotSupported:
    reason = (
        'Under neighbours = "add_remove" it is protected whether somebody is in the table at all.'
        if table.neighbours == "add_remove"
        else "A record may be left out, by its value, by a SELECT or by its privacy unit."
    )
    return FeatureNotSupported(
        f"{table.name} has no sanitised copy: it would show the number of records, which is "
        "confidential",
        detail=reason,
        hint='It takes neighbours = "replace", privacy_unit = "row", other or clamp for every '
        "attribute, and from = the name of a table or Parquet file. tallyveil check says whether "
        "the number of records is public. A ledger does not go over from one to the other.",
    )


def _groups(table: Table, options: Options) -> list[tuple[Attribute, ...]]:
    """The parts' attributes, in the domain's order."""
    domain = table.domain
    columns = list(domain.names) if options.columns is None else list(options.columns)
    for name in [*columns, *options.laplace, *(n for group in options.together for n in group)]:
        if name not in domain:
            raise InvalidParameterValue(
                f'table {table.name} has no attribute "{name}"',
                hint=f"Its attributes are {', '.join(domain.names)}.",
            )
    if not columns and not options.together:
        raise InvalidParameterValue("a copy has no column", hint="Name one column at least.")
    joint = [name for group in options.together for name in group]
    for name in {*columns, *joint}:
        if columns.count(name) != 1 or joint.count(name) > 1:
            raise InvalidParameterValue(
                f'column "{name}" is to be named once, among the columns and in one group at most'
            )
    groups = [*options.together, *([name] for name in columns if name not in joint)]
    found = [domain.project(group) for group in groups]
    for group in found:
        size = int(np.prod([attribute.size for attribute in group], dtype=object))
        if size > MAX_PART_CELLS:
            raise InvalidParameterValue(
                f"{_name(group)} has {size:,} values together, more than {MAX_PART_CELLS:,}",
                hint="Take fewer columns together.",
            )
    return sorted(found, key=lambda group: domain.names.index(group[0].name))


def _shares(names: Sequence[str], options: Options) -> list[Fraction]:
    """The ε of each part; their sum is at most the whole ε."""
    for name, share in options.split.items():
        if name not in names:
            raise InvalidParameterValue(
                f'there is no part "{name}" to give a share of epsilon to',
                hint=f"The parts are {', '.join(names)}.",
            )
        if not share > 0:
            raise InvalidParameterValue(f"the share of {name} is a positive number")
    left = options.epsilon - sum(options.split.values())
    others = len(names) - len(options.split)
    if left < 0 or (others and not left > 0):
        raise InvalidParameterValue(
            f"the shares of epsilon add up to {float(sum(options.split.values())):g} of "
            f"{float(options.epsilon):g}" + (", and leave nothing for the rest" if others else "")
        )
    return [options.split[name] if name in options.split else left / others for name in names]


def _check_laplace(name: str, groups: Sequence[tuple[Attribute, ...]]) -> None:
    for group in groups:
        for attribute in group:
            if attribute.name == name and (len(group) > 1 or attribute.kind != "range"):
                raise InvalidParameterValue(
                    f'column "{name}" cannot have Laplace noise',
                    hint="It is for one column at a time that is declared as a range; values and "
                    "bins have randomised response.",
                )
    if not any(attribute.name == name for group in groups for attribute in group):
        raise InvalidParameterValue(f'column "{name}" is not among the columns of the copy')


def _law(group: tuple[Attribute, ...], epsilon: Fraction, options: Options) -> OneRecord:
    """A range that is complete has a cell for NULL, and it is the last."""
    size = int(np.prod([attribute.size for attribute in group]))
    if group[0].name in options.laplace:
        return ClampedLaplace(size, epsilon)
    return RandomisedResponse(size, epsilon)


def _identity(group: tuple[Attribute, ...]) -> Column:
    shape = tuple(attribute.size for attribute in group)
    cells = np.arange(int(np.prod(shape)), dtype=np.int64)
    names = tuple(attribute.name for attribute in group)
    return Column.joint(names, shape, len(cells), cells, cells, np.ones_like(cells))


def _name(group: tuple[Attribute, ...]) -> str:
    return "+".join(attribute.name for attribute in group)
