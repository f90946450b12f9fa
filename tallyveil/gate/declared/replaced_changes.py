"""Which changes of a table whose rows are replaced can be migrated: to read its next version from
elsewhere, and to begin with versions where the rows were fixed.

Whatever the next version is read from, a unit may be in any cell of it, as in any other version.
Once it is published, the highest loss of before counts for every unit (docs/guarantees.md, "Tables
whose rows are replaced"). What was answered stays the answer to its own version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tallyveil.accountant.changed_declaration import changes, settled_by_replacing
from tallyveil.accountant.migrations import JointAxis, Lineage
from tallyveil.gate.declared.growing_changes import refused
from tallyveil.policy import Table

__all__ = ["kept_axes"]

_MOVED: Final = {"url", "from", "data"}


def kept_axes(
    table: Table, keys: Mapping[str, Any], own: Mapping[str, Any], lineage: Lineage
) -> tuple[JointAxis, ...]:
    """The axes, which stay as they are. Raises FeatureNotSupported if more than where rows are read
    has changed of ``keys``."""
    plain = ({**one, "attributes": _without_columns(one)} for one in (keys, own))
    known, now = plain
    if any(known.get(key) != now.get(key) for key in {**known, **now}.keys() - _MOVED):
        changed = changes(lineage.declared, table.declaration())
        names = " and ".join(settled_by_replacing(changed))
        why = f"its rows are replaced by each version, and {names} changed"
        raise refused(table.name, why, f"Put {names} back.")
    if "append" in keys.get("data", {}):
        raise refused(table.name, "its data grew by days", "Put data back.")
    if table.data.stable and own["data"] != keys.get("data"):
        why = "of which units had other values before is not known, and data.stable is new"
        raise refused(table.name, why, "Leave stable out.")
    if any(axis.new is not None or axis.hidden for one in lineage.migrations for axis in one.axes):
        raise refused(table.name, "its cells were migrated before", "Put its declaration back.")
    return tuple(JointAxis(name, name) for name in table.domain.names)


def _without_columns(keys: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes, wherever they are read from."""
    return {
        name: {key: value for key, value in one.items() if key != "column"}
        for name, one in keys["attributes"].items()
    }
