"""A table as it was declared before, from the declaration that a ledger has of it."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final

from tallyveil.policy.axes import AttributeDeclaration
from tallyveil.policy.domain import duration, step_text
from tallyveil.policy.growth.growth import Growth
from tallyveil.policy.source import Source
from tallyveil.policy.table_keys import PrivacyUnit
from tallyveil.policy.tables import Table

__all__ = ["attributes_of", "declared_keys", "former", "relabelled"]

_TYPES: Final = MappingProxyType(
    {
        "date": dt.date.fromisoformat,
        "datetime": dt.datetime.fromisoformat,
        "time": dt.time.fromisoformat,
        "number": Decimal,
    }
)


def declared_keys(declared: str, table: str) -> dict[str, Any]:
    """The keys of a table in a declaration, as JSON has them; the source's url is one of them."""
    found = json.loads(declared)
    own: dict[str, Any] = found["tables"][table]
    return {"url": found.get("source", {}).get("url"), **own}


def attributes_of(keys: Mapping[str, Any]) -> dict[str, AttributeDeclaration]:
    """Attributes by name, from their keys as JSON has them."""
    found = {}
    for name, own in keys.items():
        given = {key: _value(value) for key, value in own.items() if key != "values_from"}
        declared = AttributeDeclaration.model_validate(given)
        if "values_from" in own:
            declared = declared.model_copy(update={"values_from": tuple(own["values_from"])})
        found[name] = declared
    return found


def former(table: Table, source: Source | None, keys: Mapping[str, Any]) -> Table:
    """The table with the attributes, the unit, the data and the neighbours of these keys."""
    unit = keys["privacy_unit"]
    update = {
        "attributes": MappingProxyType(attributes_of(keys["attributes"])),
        "privacy_unit": PrivacyUnit.model_validate(unit),
        "data": Growth.model_validate(keys.get("data", {})),
        "neighbours": keys["neighbours"],
    }
    found = table.model_copy(update=update).named(table.name, source)
    vars(found).pop("fingerprint", None)  # that of the table it was copied from
    return found


def relabelled(
    keys: Mapping[str, Any], labels: Mapping[str, Mapping[str, str]]
) -> Mapping[str, Any]:
    """Attributes with other labels for some of their values, which stay where they are."""

    def each(value: Any, own: Mapping[str, str]) -> Any:
        if isinstance(value, list):
            return [each(one, own) for one in value]
        return own.get(value, value) if isinstance(value, str) else value

    def renamed() -> Iterator[tuple[str, Any]]:
        for name, own in keys.items():
            changed = labels.get(name, {})
            wanted = {key: each(own[key], changed) for key in ("values", "other") if key in own}
            yield name, {**own, **wanted}

    return dict(renamed())


def _value(value: Any) -> Any:
    """The value that `fingerprint.canonical` wrote."""
    match value:
        case list():
            return [_value(one) for one in value]
        case {"duration": text}:
            return step_text(duration(text))
        case dict():
            ((kind, text),) = value.items()
            return _TYPES[kind](text)
    return value
