"""The Arrow types of noisy answers, from the types of what is summed up.

They depend on no value, so that a statement whose parameters are not known yet has the types that
it has in the end.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from sqlglot import exp

from tallyveil.policy.domain import Domain
from tallyveil.rewriter.resolve.branches import RECORD
from tallyveil.rewriter.sql.types import NUMERICS, static_type

__all__ = ["WIDE", "Types", "value_type"]

# Integers beyond 64 bits: Arrow has them as decimals.
WIDE: Final = pa.decimal128(38, 0)


def value_type(kind: pa.DataType, coefficient: exp.Expr, domain: Domain) -> pa.DataType:
    """Of the answers to a coefficient that DuckDB gave the type ``kind``.

    Whole numbers are a BIGINT, and, as PostgreSQL has it, WIDE where a SUM is of a BIGINT or of a
    numeric.
    """
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_decimal(kind) and kind.scale > 0:
        return pa.decimal128(38, kind.scale)
    types = Types(domain)
    summed = (types(total.this) for total in coefficient.find_all(exp.Sum))
    return WIDE if any(found in ("BIGINT", *NUMERICS) for found in summed) else pa.int64()


class Types:
    """The static types of expressions over the domain's attributes, each found once."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._known: dict[int, str | None] = {}

    def __call__(self, node: exp.Expr) -> str | None:
        if id(node) not in self._known:
            self._known[id(node)] = self._find(node)
        return self._known[id(node)]

    def _find(self, node: exp.Expr) -> str | None:
        if isinstance(node, exp.Column):
            return self._domain[node.name].sql_type if node.table == RECORD else None
        return None if isinstance(node, exp.Query) else static_type(node, self)
