"""What a session asks of the decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tallyveil.gate.settings import Answers, Target
from tallyveil.rewriter import Workload

__all__ = ["Request"]


@dataclass(frozen=True)
class Request:
    """What one statement asks, and how: ``workloads`` by table, ``mechanism`` a name or "auto".

    The answers about tables in ``additive`` need noise that is added, for they are added up, or
    their intervals are to hold at all looks. ``custodian``:
    it is the custodian who asks, and needs no share of a budget.
    """

    workloads: Mapping[str, Workload]
    target: Target
    source: Answers
    mechanism: str
    sql: str
    analyst: str
    additive: frozenset[str] = frozenset()
    custodian: bool = False
