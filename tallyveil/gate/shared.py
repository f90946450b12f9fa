"""What all sessions of a gate share."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tallyveil.accountant import Account, Accountant
from tallyveil.cache import Cache
from tallyveil.gate.deciding.decision import Decision
from tallyveil.gate.declared.guarantee import Guarantee
from tallyveil.gate.declared.publishing import Published
from tallyveil.gate.settings import SERVER_VERSION
from tallyveil.gate.versions import Version, Versions
from tallyveil.policy import Policy
from tallyveil.rewriter import PublicDatabase, Rewriter
from tallyveil.sanitise import Copy

__all__ = ["Edition", "Shared"]


@dataclass(frozen=True, eq=False)
class Edition:
    """What follows from the ``versions`` of tables that grow. A statement keeps the edition that it
    began with. ``plans`` and ``descriptions`` are cached by statement."""

    versions: Mapping[str, Version]
    rewriter: Rewriter
    plans: Cache[Any]
    descriptions: Cache[Any]


class Shared:
    """`Gate` opens it. ``published`` has the exact counts, and ``guarantees`` what is guaranteed,
    by table. ``server_version`` is PostgreSQL's, as sent to clients."""

    policy: Policy
    accounts: dict[str, Account]
    accountant: Accountant
    decision: Decision
    database: PublicDatabase
    edition: Edition
    versions: Versions
    published: Mapping[str, Published]
    guarantees: Mapping[str, Guarantee]
    copies: Mapping[str, Copy]
    server_version: str = SERVER_VERSION

    def follow(self) -> None:
        """Serve what was published since."""
        raise NotImplementedError

    def at(self, day: dt.date | None) -> Edition:
        """The present edition, of tables that grow through this day."""
        raise NotImplementedError

    @property
    def rewriter(self) -> Rewriter:
        return self.edition.rewriter

    @property
    def plans(self) -> Cache[Any]:
        return self.edition.plans
