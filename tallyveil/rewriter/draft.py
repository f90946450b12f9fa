"""A statement on its way to its plan: what the passes read and change."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from tallyveil.rewriter.domain.parts import Parts
from tallyveil.rewriter.engine.cursor import Cursor
from tallyveil.rewriter.plan import Caution, Plan
from tallyveil.rewriter.private.noisy_select import Collected, Turned
from tallyveil.rewriter.private.projection import projection
from tallyveil.rewriter.private.undeclared import MAX_CAUTIONS
from tallyveil.rewriter.resolve.catalog import Catalog
from tallyveil.rewriter.resolve.names import Reference
from tallyveil.rewriter.sql.statements import Dialect

__all__ = ["Draft", "Planning"]


@dataclass
class Draft:
    """A statement's tree, which every pass changes in place.

    ``spelled`` are the names that the policy writes with capitals, by what they are without.
    """

    tree: exp.Expr
    sql: str
    dialect: Dialect
    catalog: Catalog
    spelled: Mapping[str, str]


@dataclass
class Planning(Draft):
    """A draft with all that its plan depends on (see `Rewriter.plan`), and what was found so far:
    the tables it names, the columns of its result that have a time zone, the relations of schema
    dp it reads, what to say of constants above the aggregation, and its private blocks.
    """

    cursor: Cursor
    parts: Parts
    types: Sequence[str]
    values: Sequence[Any]
    session: Callable[[str, list[str]], Any]
    share: bool
    now: dt.datetime
    resolved: list[Reference] = field(default_factory=list)
    with_zone: Sequence[str] = ()
    used: frozenset[str] = frozenset()
    collected: Collected = field(default_factory=Collected)
    cautions: tuple[Caution, ...] = ()
    turned: list[Turned] = field(default_factory=list)

    def plan(self) -> Plan:
        """After the last pass."""
        noisy = tuple(table for part in self.turned for table in part.released.tables)
        below = (c for part in self.turned for c in part.cautions)
        cautions = dict.fromkeys([*self.cautions, *below])
        return Plan(
            self.collected.workloads(),
            noisy,
            self.tree.sql("duckdb", identify=True, comments=False),
            self.used,
            tuple(query for part in self.turned for query in part.queries),
            tuple(remark for part in self.turned for remark in part.released.remarks),
            tuple(cautions)[:MAX_CAUTIONS],
            projection(self.tree, noisy),
        )
