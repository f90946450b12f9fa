"""Tables whose declaration was migrated: how they are counted over the ledger's joint codes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tallyveil.accountant import LedgerStore
from tallyveil.accountant.migrations import JointAxis, Lineage, lineages
from tallyveil.accountant.store.ledger_records import TableRecord
from tallyveil.cube import Cube
from tallyveil.cube.joint.joint_codes import Former, Pairs, joined, present, widened
from tallyveil.gate.declared.former import attributes_of, declared_keys
from tallyveil.policy import Domain, Policy
from tallyveil.policy.axes import attribute

__all__ = ["Counted", "JointTables", "formers"]


class Counted(NamedTuple):
    """The domains of tables as they are asked, their ``cubes`` over the ledger's cells, and the
    digests of their counts."""

    domains: dict[str, Domain]
    cubes: dict[str, Cube]
    digests: dict[str, Callable[[bytes], bytes]]


def formers(lineage: Lineage, axis: JointAxis) -> list[Former]:
    """The former declarations of an axis of the last migration, oldest first."""
    found: list[Former] = []
    for one in reversed(lineage.migrations):
        own = next(each for each in one.axes if each.name == axis.name)
        codes = None if own.new is None and own.old is None else _pairs(own)
        declared = None
        if own.was is not None and own.was in one.before:
            declared = attributes_of({own.was: one.before[own.was]})[own.was]
        one_then = None if declared is None else attribute(own.was or "", declared)
        found.insert(0, Former(declared, one_then, codes))
        if own.was is None:
            break
        axis = axis._replace(name=own.was)
    return found


def _labels(attributes: Mapping[str, Any]) -> list[Any]:
    return [(one.get("values"), one.get("other")) for one in attributes.values()]


def _pairs(axis: JointAxis) -> Pairs:
    size = len(axis.old or axis.new or ())
    every = tuple(range(size))
    new = axis.new or ((0,) * size if axis.hidden else every)
    return Pairs(new, axis.old or every)


@dataclass(frozen=True)
class JointTables:
    """The tables of a ``policy`` that ``ledger`` has migrated to the present declaration. Of those
    ``recoded``, the source was said to have other labels since."""

    policy: Policy
    lineages: Mapping[str, Lineage]
    recoded: frozenset[str] = frozenset()

    @classmethod
    def of(cls, policy: Policy, ledger: LedgerStore) -> JointTables:
        with ledger.snapshot() as view:
            found = lineages(view)
            declared = {one.name: one.declared for one, _ in view.after(TableRecord)}
        own = {
            name: one
            for name, one in found.items()
            if one.migrations
            and name in policy.tables
            and policy.tables[name].fingerprint == one.fingerprint
        }
        first = {name: declared_keys(declared[name], name)["attributes"] for name in own}
        since = {name: one.migrations[0].before for name, one in own.items()}
        recoded = (name for name in own if _labels(first[name]) != _labels(since[name]))
        return cls(policy, own, frozenset(recoded))

    def visible(self, table: str) -> list[JointAxis]:
        """The axes over which the table is counted."""
        return [axis for axis in self.lineages[table].migrations[-1].axes if not axis.hidden]

    def joint(self, table: str) -> dict[str, tuple[int, ...]]:
        """`Attribute.joint`, by attribute."""
        return {axis.name: axis.new for axis in self.visible(table) if axis.new is not None}

    def former(self, table: str) -> dict[str, Sequence[Former]]:
        """Of each attribute whose joint codes do not follow from its present ones."""
        lineage = self.lineages[table]
        return {a.name: formers(lineage, a) for a in self.visible(table) if a.new is not None}

    @property
    def widened(self) -> Policy:
        """The policy with which the source is read."""
        tables = {
            name: widened(table, self.former(name)) if name in self.lineages else table
            for name, table in self.policy.tables.items()
        }
        return self.policy.model_copy(update={"tables": tables}) if self.lineages else self.policy

    def counted(self, cubes: Mapping[str, Cube]) -> Counted:
        """From what was counted of the `widened` tables."""
        domains = {name: cube.domain for name, cube in cubes.items()}
        found = dict(cubes)
        digests: dict[str, Callable[[bytes], bytes]] = {n: c.digest for n, c in cubes.items()}
        for name in self.lineages:
            plain = present(self.policy.tables[name], cubes[name])
            served = {one.name: one for one in plain.domain.attributes}
            own = Domain(name, tuple(axis.domain_axis(served) for axis in self.visible(name)))
            found[name] = joined(self.policy.tables[name], cubes[name], self.former(name), own)
            digests[name] = plain.digest
            domains[name] = plain.domain.with_joint(self.joint(name))
        return Counted(domains, found, digests)
