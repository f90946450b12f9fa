"""What some charges would do to the budgets and shares they are taken from."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from tallyveil.mechanisms.measure import Measure

__all__ = ["Quote", "TableQuote"]


@dataclass(frozen=True)
class TableQuote:
    """What some charges would do to one table's budget, or to an analyst's share of it, in
    ``measure``.

    ``cost`` is their cost on their own; where other cells have spent more, ``spent`` grows by
    less. ``exact`` is False where ``spent_after`` is an upper bound. ``analyst`` is whose share it
    is, None for the budget itself; ``has_share`` is False if there is no such share.
    """

    table: str
    cost: Fraction
    spent_before: Fraction
    spent_after: Fraction
    remaining_before: Fraction
    remaining_after: Fraction
    allowed: bool
    exact: bool
    measure: Measure = "epsilon"
    analyst: str | None = None
    has_share: bool = True


@dataclass(frozen=True)
class Quote:
    """A statement's quote, table by table; its own figures are the scarcest table's.

    ``shares`` are the analyst's own, where the table has shares.
    """

    tables: tuple[TableQuote, ...]
    shares: tuple[TableQuote, ...] = ()

    def __getitem__(self, table: str) -> TableQuote:
        for quote in self.tables:
            if quote.table == table:
                return quote
        raise KeyError(table)

    @property
    def scarcest(self) -> TableQuote:
        """The first refused table, or the one with least left."""
        return min(self.tables, key=lambda quote: (quote.allowed, quote.remaining_after))

    @property
    def refused(self) -> TableQuote | None:
        """The budget or share that does not allow it; of several the one with least left."""
        refused = [quote for quote in (*self.tables, *self.shares) if not quote.allowed]
        return min(refused, key=lambda quote: quote.remaining_before, default=None)

    @property
    def cost(self) -> Fraction:
        return self.scarcest.cost

    @property
    def spent_before(self) -> Fraction:
        return self.scarcest.spent_before

    @property
    def spent_after(self) -> Fraction:
        return self.scarcest.spent_after

    @property
    def remaining_before(self) -> Fraction:
        return self.scarcest.remaining_before

    @property
    def remaining_after(self) -> Fraction:
        return self.scarcest.remaining_after

    @property
    def allowed(self) -> bool:
        return self.refused is None

    @property
    def exact(self) -> bool:
        return all(quote.exact for quote in self.tables)
