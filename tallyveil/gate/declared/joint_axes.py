"""The axes of joint codes that a migration leads to: which attribute is which, and its cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tallyveil.accountant.migrations import JointAxis, Lineage
from tallyveil.cube.joint.joint_codes import Former, pairs
from tallyveil.gate.declared.former import attributes_of
from tallyveil.gate.declared.growing_changes import check_added, check_follows
from tallyveil.gate.declared.joint_tables import formers
from tallyveil.policy import Table
from tallyveil.policy.domain import shown

__all__ = ["hidden", "joint_axes"]


def joint_axes(
    lineage: Lineage,
    before: Mapping[str, Any],
    old: Table,
    new: Table,
    columns: Mapping[str, str],
) -> tuple[JointAxis, ...]:
    """The axes after a migration from the ``old`` table, whose attributes have the keys ``before``,
    to the ``new`` one, over the source's ``columns`` with their types.

    An attribute is the former one of its name, or one of another name over the same column.
    Raises FeatureNotSupported as `pairs` does.
    """
    number = len(lineage.migrations)
    former = lineage.migrations[-1].axes if number else [JointAxis(n, n) for n in old.domain.names]
    known = {axis.name: axis for axis in former}
    found, matched = list[JointAxis](), set[str]()
    for name, declared in new.attributes.items():
        column = (declared.column or name).lower()
        was = _was(name, column, old, new, lineage, known.keys() - matched)
        if was is not None:
            matched.add(was)
        if was not in old.attributes:
            check_added(new, name)
        found.append(_axis(name, None if was is None else known[was], lineage, before, old, new,
                           columns[column]))  # fmt: skip
    for axis in former:
        if axis.name not in matched:
            found.append(hidden(axis, old, number))
    return tuple(found)


def _was(
    name: str, column: str, old: Table, new: Table, lineage: Lineage, free: set[str]
) -> str | None:
    """The axis that an attribute had before, visible or hidden; None for an added one."""
    if name in free and name in old.attributes:
        return name
    columns = {n: (one.column or n).lower() for n, one in old.attributes.items()}
    others = [n for n in free if columns.get(n) == column and n not in new.attributes]
    for number, one in enumerate(lineage.migrations, 1):
        own = attributes_of(one.before)
        others += [
            dropped
            for n in own
            if (own[n].column or n).lower() == column and (dropped := f"{n}.{number}") in free
        ]
    return others[0] if len(others) == 1 else None


def _axis(
    name: str, former: JointAxis | None, lineage: Lineage, before: Mapping[str, Any], old: Table,
    new: Table, column_type: str,
) -> JointAxis:  # fmt: skip
    present = new.domain[name]
    if former is None:
        chain, texts = [Former(None, None, None)], [""]
    else:
        was = former.name
        keys = new.attributes[name].keys(new.columns[new.domain.names.index(name)])
        if was in old.attributes and keys == old.attributes[was].keys(_column(old, was)):
            return former._replace(name=name, was=was, old=None)
        declared = None if former.hidden else old.attributes[was]
        attribute = None if former.hidden else old.domain[was]
        chain = [*formers(lineage, former), Former(declared, attribute, None)]
        texts = _texts(former, old)
    last = len(texts)
    place = f"tables.{new.name}.attributes.{name}"
    own, covers = pairs(present, chain, last, place, column_type)
    check_follows(new, present, chain[-1].attribute, own, texts)
    was_name = None if former is None else former.name
    same = own.old == (*range(last),)
    if own.new == (*range(present.size),):
        return JointAxis(name, was_name, None, None if same else own.old, (), covers)
    shown_texts = tuple(
        f"formerly {texts[cell]}" if code < 0 else ""
        for code, cell in zip(own.new, own.old, strict=True)
    )
    return JointAxis(name, was_name, own.new, own.old, shown_texts, covers)


def _column(table: Table, name: str) -> str:
    return table.attributes[name].column or name


def _texts(axis: JointAxis, table: Table) -> list[str]:
    """The cells of a former axis, for messages."""
    attributes = {one.name: one for one in table.domain.attributes}
    return [shown(cell) for cell in axis.domain_axis(attributes).cells]


def hidden(axis: JointAxis, table: Table, number: int) -> JointAxis:
    """The axis of an attribute that the ``table`` had before the migration of this number, from 0:
    its cells, and one for what it did not count."""
    if axis.hidden:
        return axis._replace(was=axis.name, old=None)
    texts = _texts(axis, table)
    covered = table.domain[axis.name].complete if axis.new is None else axis.covers
    old = None if covered else (*range(len(texts)), -1)
    every = (*texts, *(() if covered else ("not counted",)))
    name = f"{axis.name}.{number + 1}"
    return JointAxis(name, axis.name, None, old, every, covers=True, hidden=True)
