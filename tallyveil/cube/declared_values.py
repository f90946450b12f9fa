"""Values that a policy declares by a column of a public table (``values_from``).

They are read before anything else, since the domain and the digest of the declarations depend on
them: another set of values is another policy, in another order it is the same.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ValidationError

from tallyveil.cube.public_tables import load_public
from tallyveil.cube.sources import Passed
from tallyveil.errors import SourceError
from tallyveil.policy import Policy, Source, Table
from tallyveil.policy.axes import AttributeDeclaration
from tallyveil.policy.tables import related

__all__ = ["with_values"]


def with_values(policy: Policy, source: Passed = None) -> Policy:
    """The policy with these values, each once, in order, without NULL.

    Raises SourceError, as `load_public` does, and if the column is missing or its values are not
    texts, booleans, whole numbers or dates.
    """
    named = {
        declared.values_from[0]
        for table in policy.tables.values()
        for declared in table.attributes.values()
        if declared.values_from is not None and declared.values is None
    }
    if not named:
        return policy
    public = MappingProxyType({name: policy.public[name] for name in named})
    read = load_public(policy.model_copy(update={"public": public}), source)
    tables = {name: _filled(table, policy.source, read) for name, table in policy.tables.items()}
    return policy.model_copy(update={"tables": MappingProxyType(related(tables))})


def _filled(table: Table, source: Source | None, public: dict[str, pa.Table]) -> Table:
    attributes = {
        name: _declared(f"tables.{table.name}.attributes.{name}.values_from", declared, public)
        for name, declared in table.attributes.items()
    }
    filled = table.model_copy(update={"attributes": MappingProxyType(attributes)})
    return filled.named(table.name, source)


def _declared(
    key: str, declared: AttributeDeclaration, public: dict[str, pa.Table]
) -> AttributeDeclaration:
    if declared.values_from is None:
        return declared
    relation, column = declared.values_from
    found = public[relation]
    if column.lower() not in found.column_names:
        raise SourceError(f"{key}: the public table {relation} has no column {column}")
    values = sorted(pc.unique(found[column.lower()]).drop_null().to_pylist())
    given: dict[str, Any] = declared.model_dump(exclude_unset=True, exclude={"values_from"})
    try:
        filled = AttributeDeclaration.model_validate({**given, "values": values})
    except ValidationError as error:
        raise SourceError(f"{key}: {error.errors()[0]['msg']}") from None
    return filled.model_copy(update={"values_from": declared.values_from})
