"""What a statement may name: protected tables, public ones, views, the relations of schema dp."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from tallyveil.policy.domain import Domain

__all__ = ["Catalog"]


@dataclass(frozen=True)
class Catalog:
    """``public`` maps each public table to its columns and their DuckDB types; ``views`` maps
    each view to its syntax tree, which is shared: copy before changing it."""

    domains: Mapping[str, Domain]
    relations: frozenset[str] = frozenset()
    public: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    views: Mapping[str, exp.Expr] = field(default_factory=dict)
