"""The plan of a copy: each part's mechanism and share of ε, and the charge to the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from tallyveil.errors import FeatureNotSupported, InvalidParameterValue
from tallyveil.mechanisms import Adjacency, Sanitiser
from tallyveil.mechanisms.measure import Measure
from tallyveil.mechanisms.records import OneRecord
from tallyveil.mechanisms.records.sanitiser import spent
from tallyveil.mechanisms.units import from_units
from tallyveil.policy import Attribute, Table
from tallyveil.sanitise.copy_parts import CopyOptions, Group, groups
from tallyveil.workload.workload import Column, Factor, Workload

__all__ = ["CopyPlan", "PlannedPart", "plan"]


@dataclass(frozen=True)
class PlannedPart(Group):
    """A group with the law that perturbs it."""

    law: OneRecord


@dataclass(frozen=True)
class CopyPlan:
    """A planned copy. The ledger is charged for ``workload`` at ``scales``."""

    table: Table
    parts: tuple[PlannedPart, ...]
    workload: Workload
    scales: tuple[float, ...]

    @property
    def epsilon(self) -> Fraction:
        """The whole copy's ε as pure ε, exactly: no more than `CopyOptions.pure`."""
        return sum((part.law.epsilon for part in self.parts), Fraction(0))

    def cost(self, relation: Adjacency, measure: Measure) -> Fraction:
        """Return the charge to a ledger in ``measure``: Σ ε_c, or Σ ε_c²/2 in ρ."""
        return from_units(Sanitiser().loss(self.workload, self.scales, relation, measure).bound)


def plan(table: Table, relation: Adjacency, options: CopyOptions) -> CopyPlan:
    """Plan the copy that ``options`` ask for. Uses public facts only; nothing is charged or read.

    Raises FeatureNotSupported if the number of records is confidential, and InvalidParameterValue
    for columns, shares or mechanisms that do not fit the table.
    """
    if not relation.closed:
        raise _confidential_number(table)
    found = groups(table, options)
    epsilons = _shares([group.name for group in found], options)
    workload = Workload(table.name, tuple(map(_identity, found)))
    scales = Sanitiser().scales_for(workload, epsilons, relation)
    parts = (
        PlannedPart(group.attributes, group.kind, group.law_at(spent(scale)))
        for group, scale in zip(found, scales, strict=True)
    )
    return CopyPlan(table, tuple(parts), workload, scales)


def _confidential_number(table: Table) -> FeatureNotSupported:
    reason = (
        'Under neighbours = "add_remove" it is confidential whether somebody is in the table.'
        if table.neighbours == "add_remove"
        else "A record may be left out, by its value, by a SELECT or by its privacy unit."
    )
    return FeatureNotSupported(
        f"{table.name} cannot be copied: a copy reveals the number of records, which is "
        "confidential",
        detail=reason,
        hint='A copy needs neighbours = "replace", privacy_unit = "row", other or clamp for every '
        "attribute, and from = the name of a table or Parquet file. tallyveil check shows whether "
        "the number of records is public. An existing ledger does not fit such a changed policy.",
    )


def _shares(names: Sequence[str], options: CopyOptions) -> list[Fraction]:
    """Return the ε of each part; their sum is at most the whole ε, or ε′ with a δ.

    Raises InvalidParameterValue for shares of unknown parts, or that are not positive or too large.
    """
    for name, share in options.split.items():
        if name not in names:
            raise InvalidParameterValue(
                f'there is no part "{name}" to give a share of epsilon',
                hint=f"The parts are {', '.join(names)}.",
            )
        if not share > 0:
            raise InvalidParameterValue(f"the share of {name} must be a positive number")
    left = options.pure - sum(options.split.values())
    others = len(names) - len(options.split)
    if left < 0 or (others and not left > 0):
        raise InvalidParameterValue(
            f"the shares of epsilon add up to {float(sum(options.split.values())):g} of "
            f"{float(options.pure):g}" + (", and leave nothing for the rest" if others else "")
        )
    return [options.split[name] if name in options.split else left / others for name in names]


def _identity(group: Group) -> Column:
    """Return the identity over the group's cells; for a series, which has too many values to list,
    as a product of the times' identities."""
    if group.kind == "series":
        return Column(tuple(_factor((attribute,)) for attribute in group.attributes))
    return Column((_factor(group.attributes),))


def _factor(attributes: tuple[Attribute, ...]) -> Factor:
    names = tuple(attribute.name for attribute in attributes)
    return Factor.identity(names, tuple(attribute.size for attribute in attributes))
