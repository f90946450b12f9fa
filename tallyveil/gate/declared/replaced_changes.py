"""Which changes of a table whose rows are replaced can be migrated: all but those of its unit.
Its next version is counted anew, as it is declared then. Nor need it have had versions before.

A unit may be in any cell of the next version, whatever its cells are. Once that is published, the
highest loss of before counts for every unit (docs/guarantees.md, "Tables whose rows are replaced").
An attribute that is declared in another way is another one: what was answered about it stays the
answer to its own version, which nobody can ask for any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tallyveil.accountant.migrations import JointAxis, Lineage
from tallyveil.gate.declared.growing_changes import refused
from tallyveil.gate.declared.joint_axes import hidden
from tallyveil.policy import Table

__all__ = ["needs_version", "replaced_axes"]

_FREE: Final = {"url", "from", "data", "attributes", "neighbours", "privacy_unit"}


def replaced_axes(
    old: Table, new: Table, keys: Mapping[str, Any], own: Mapping[str, Any], lineage: Lineage
) -> tuple[JointAxis, ...]:
    """The axes of the ``new`` table, and those of attributes that had other ``keys`` in the ``old``
    one than their ``own``. Raises FeatureNotSupported if more has changed than may."""
    _check(new, keys, own)
    number = len(lineage.migrations)
    former = lineage.migrations[-1].axes if number else [JointAxis(n, n) for n in old.domain.names]
    same = {
        axis.name
        for axis in former
        if not axis.hidden
        and axis.new is None
        and _plain(keys, axis.name) == _plain(own, axis.name)
    }
    for name in (one for one in new.data.stable if one not in same):
        raise refused(
            new.name,
            f"{name} is among data.stable, and which units had its former values is not known",
            f"Put attributes.{name} back, or leave stable out: what was spent counts for all then.",
        )
    axes = [JointAxis(name, name if name in same else None) for name in new.domain.names]
    return (*axes, *(hidden(one, old, number) for one in former if one.name not in same))


def needs_version(keys: Mapping[str, Any], own: Mapping[str, Any]) -> bool:
    """Whether the rows must be counted anew, since what is read of them has changed."""
    read = [[(name, _plain(one, name)) for name in one["attributes"]] for one in (keys, own)]
    return read[0] != read[1] or keys["privacy_unit"] != own["privacy_unit"]


def _check(table: Table, keys: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    units = [_unit(one) for one in (keys, own)]
    wrong = [key for key in {**keys, **own} if key not in _FREE and keys.get(key) != own.get(key)]
    if units[0] != units[1]:
        wrong.insert(0, "privacy_unit")
    if wrong:
        names = " and ".join(wrong)
        why = f"its rows are replaced by each version, and {names} changed"
        raise refused(table.name, why, f"Put {names} back.")
    if "append" in keys.get("data", {}):
        raise refused(table.name, "its data grew by days", "Put data back.")
    if table.data.stable and own["data"] != keys.get("data"):
        why = "data.stable changed, and which units had other values before is not known"
        raise refused(table.name, why, "Put data.stable back, or leave it out.")


def _unit(keys: Mapping[str, Any]) -> Any:
    """The privacy unit, with however many rows."""
    unit = keys["privacy_unit"]
    return unit if unit == "row" else unit["column"].lower()


def _plain(keys: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """The keys of an attribute, wherever it is read from; None if it is not declared."""
    own = keys["attributes"].get(name)
    return own and {key: value for key, value in own.items() if key != "column"}
