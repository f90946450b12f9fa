"""Which changes of a table that grows can be migrated.

Days that are over were counted once, over the cells of then, and are not counted again. So each of
these cells must follow from the slices alone: it becomes part of one cell, or of none. Whether a
row counts, and on which day, must not change either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tallyveil.cube.joint.joint_codes import Pairs
from tallyveil.errors import FeatureNotSupported
from tallyveil.policy import Attribute, Table
from tallyveil.policy.domain import shown

__all__ = ["FORMER_LABELS", "check_added", "check_follows", "check_keys", "refused"]

_NEVER: Final = "days that are over are never counted again"
FORMER_LABELS: Final = (
    "Leave the former labels in the policy, and write them in the source: in its file, or in a"
    " DuckDB file by a view in place of the table, under its name."
)
_SETTLED: Final = ("data", "privacy_unit", "neighbours", "from", "url")


def refused(table: str, why: str, hint: str) -> FeatureNotSupported:
    """The refusal to migrate a table."""
    return FeatureNotSupported(
        f"tables.{table} cannot be migrated: {why}",
        hint=f"{hint} A new ledger file would begin with the whole budget.",
    )


def check_keys(table: Table, keys: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Raise FeatureNotSupported if what settles a day was other ``keys`` than its ``own`` now."""
    for key in (key for key in _SETTLED if keys.get(key) != own.get(key)):
        one, other = (each.get(key) for each in (keys, own))
        name = "source.url" if key == "url" else key
        if isinstance(one, dict) and isinstance(other, dict):
            name += f".{next(n for n in (*one, *other) if one.get(n) != other.get(n))}"
        why = f"its data grow, {_NEVER}, and {name} has changed"
        raise refused(table.name, why, f"Put {name} back.")
    for name in keys["attributes"].keys() & own["attributes"].keys():
        columns = [one["attributes"][name].get("column", name) for one in (keys, own)]
        if columns[0].lower() != columns[1].lower():
            raise _attribute(table, name, "is read from another column", "Put its column back.")


def check_added(table: Table, name: str) -> None:
    """Raise FeatureNotSupported for an attribute that the last slices do not have."""
    if table.grows:
        why = "is new, and what it was in their records is not known"
        raise _attribute(table, name, why, "Leave it out.")


def check_follows(
    table: Table, attribute: Attribute, former: Attribute | None, pairs: Pairs, texts: Sequence[str]
) -> None:
    """Raise FeatureNotSupported unless each cell of before, with these ``texts``, is part of one
    cell of the ``attribute`` or of none, and no day that is over is another one or left out."""
    if not table.grows:
        return
    every = tuple(range(len(texts)))
    if attribute.name == table.data.append and (
        pairs.old[: len(texts)] != every or pairs.new != (*range(attribute.size),)
    ):
        raise _attribute(table, attribute.name, "lacks days of before, or begins on an earlier one",
                         "Its range may only be extended at its end.")  # fmt: skip
    types = {attribute.sql_type, (former or attribute).sql_type}
    if "DATE" in types and len(types) > 1:
        raise _attribute(table, attribute.name, "is read as another type", "Put it back.")
    parts = dict[int, int]()
    for code, old in zip(pairs.new, pairs.old, strict=True):
        other = parts.setdefault(old, code)
        if old >= 0 and other != code:
            named = [
                f'"{shown(attribute.cells[one])}"' if one >= 0 else "what has no cell"
                for one in (other, code)
            ]
            recoded = (
                "If the source writes another label now, say which:"
                f" --recoded {table.name}.{attribute.name}:OLD=NEW."
            )
            if table.privacy_unit.column is not None:
                recoded = f"If the source writes another label now: {FORMER_LABELS}"
            raise _attribute(
                table, attribute.name,
                f'divides the records of "{texts[old]}" among {" and ".join(named)}',
                "Cells may be renamed, reordered, joined or dropped, and what had no cell may get"
                f" one. {recoded}",
            )  # fmt: skip


def _attribute(table: Table, name: str, why: str, hint: str) -> FeatureNotSupported:
    return refused(table.name, f"its data grow, {_NEVER}, and attributes.{name} {why}", hint)
