"""What all sessions of a gate share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tallyveil.accountant import Account, Accountant, BudgetReports
from tallyveil.cache import Cache
from tallyveil.gate.deciding.decision import Decision
from tallyveil.gate.declared.guarantee import Guarantee
from tallyveil.gate.declared.publishing import Published
from tallyveil.gate.growth.editions import Editions
from tallyveil.gate.settings import SERVER_VERSION
from tallyveil.policy import Policy
from tallyveil.rewriter import PublicDatabase, Rewriter
from tallyveil.sanitise import Copy

__all__ = ["Shared"]


class Shared:
    """`Gate` opens it. ``published`` has the exact counts, and ``guarantees`` what is guaranteed,
    by table. ``server_version`` is PostgreSQL's, as sent to clients."""

    policy: Policy
    accounts: dict[str, Account]
    accountant: Accountant
    database: PublicDatabase
    editions: Editions
    published: Mapping[str, Published]
    guarantees: Mapping[str, Guarantee]
    copies: Mapping[str, Copy]
    server_version: str = SERVER_VERSION

    @property
    def budgets(self) -> BudgetReports:
        """What is spent, on what, and what remains."""
        return self.accountant

    @property
    def decision(self) -> Decision:
        return self.editions.now.decision

    @property
    def rewriter(self) -> Rewriter:
        return self.editions.now.rewriter

    @property
    def plans(self) -> Cache[Any]:
        return self.editions.now.plans
