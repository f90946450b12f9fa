"""What a copy costs: the share of ε of each part, and what the ledger is charged for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from tallyveil.errors import FeatureNotSupported, InvalidParameterValue
from tallyveil.mechanisms import Adjacency, OneRecord, Sanitiser
from tallyveil.mechanisms.measure import Measure
from tallyveil.mechanisms.records.sanitiser import spent
from tallyveil.mechanisms.units import from_units
from tallyveil.policy import Attribute, Table
from tallyveil.sanitise.parts import CopyOptions, Group, groups
from tallyveil.workload.workload import Column, Factor, Workload

__all__ = ["CopyPlan", "PlannedPart", "plan"]


@dataclass(frozen=True)
class PlannedPart(Group):
    """Perturbed by this law."""

    law: OneRecord


@dataclass(frozen=True)
class CopyPlan:
    """``workload`` and ``scales`` are what the ledger is charged for."""

    table: Table
    parts: tuple[PlannedPart, ...]
    workload: Workload
    scales: tuple[float, ...]

    @property
    def epsilon(self) -> Fraction:
        """The whole copy's ε as pure ε, exactly: no more than `CopyOptions.pure`."""
        return sum((part.law.epsilon for part in self.parts), Fraction(0))

    def cost(self, relation: Adjacency, measure: Measure) -> Fraction:
        """What a ledger that counts in ``measure`` is charged: Σ ε_c, or Σ ε_c²/2 in ρ."""
        return from_units(Sanitiser().loss(self.workload, self.scales, relation, measure).bound)


def plan(table: Table, relation: Adjacency, options: CopyOptions) -> CopyPlan:
    """The copy that ``options`` ask for. Public facts only; nothing is charged or read.

    Raises FeatureNotSupported where the number of records is confidential, and
    InvalidParameterValue for columns, shares or mechanisms that do not fit the table.
    """
    if not relation.closed:
        raise _shows_the_number(table)
    found = groups(table, options)
    epsilons = _shares([group.name for group in found], options)
    workload = Workload(table.name, tuple(map(_identity, found)))
    scales = Sanitiser().scales_for(workload, epsilons, relation)
    parts = (
        PlannedPart(group.attributes, group.kind, group.law_at(spent(scale)))
        for group, scale in zip(found, scales, strict=True)
    )
    return CopyPlan(table, tuple(parts), workload, scales)


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


def _shares(names: Sequence[str], options: CopyOptions) -> list[Fraction]:
    """The ε of each part; their sum is at most the whole ε, or ε′ with a δ."""
    for name, share in options.split.items():
        if name not in names:
            raise InvalidParameterValue(
                f'there is no part "{name}" to give a share of epsilon to',
                hint=f"The parts are {', '.join(names)}.",
            )
        if not share > 0:
            raise InvalidParameterValue(f"the share of {name} is a positive number")
    left = options.pure - sum(options.split.values())
    others = len(names) - len(options.split)
    if left < 0 or (others and not left > 0):
        raise InvalidParameterValue(
            f"the shares of epsilon add up to {float(sum(options.split.values())):g} of "
            f"{float(options.pure):g}" + (", and leave nothing for the rest" if others else "")
        )
    return [options.split[name] if name in options.split else left / others for name in names]


def _identity(group: Group) -> Column:
    """A series is a product of its times' identities: it has too many values to list."""
    if group.kind == "series":
        return Column(tuple(_factor((attribute,)) for attribute in group.attributes))
    return Column((_factor(group.attributes),))


def _factor(attributes: tuple[Attribute, ...]) -> Factor:
    names = tuple(attribute.name for attribute in attributes)
    return Factor.identity(names, tuple(attribute.size for attribute in attributes))
