"""How much the ledger holds of each table, and of it by each analyst, against the policy's limits.

A charge is counted with as many rows as it has answers, and with the bytes of its statement and
its coefficients besides `values.ANSWER_BYTES` for each answer. So what it takes is known before
anything is charged, depends on nothing that is drawn, and follows from the ledger alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tallyveil.accountant.account import Account, Amount, Room
from tallyveil.accountant.quote import Quote, out_of_room, too_cheap

__all__ = ["Recording"]


class Recording:
    """Counts what is recorded. Used under the accountant's lock."""

    def __init__(self, accounts: Mapping[str, Account]) -> None:
        self._accounts = accounts
        self.amounts: dict[tuple[str, str], Amount] = {}
        """By table and analyst."""
        self._tables: dict[str, Amount] = {}

    def add(self, table: str, analyst: str, amount: Amount) -> None:
        self._tables[table] = self._held(table) + amount
        self.amounts[table, analyst] = self._held(table, analyst) + amount

    def room(self, table: str, analyst: str | None = None) -> Room:
        """Of a table: in all, or for what one analyst asks, which the table's own limits bound."""
        own = None if analyst is None else self._held(table, analyst)
        return self._accounts[table].room(self._held(table), own)

    def _held(self, table: str, analyst: str | None = None) -> Amount:
        if analyst is None:
            return self._tables.get(table, Amount())
        return self.amounts.get((table, analyst), Amount())

    def check(self, quote: Quote, asked: Sequence[tuple[str, Amount]], analyst: str) -> None:
        """Refuse a statement that costs less than the least, or for which there is no room.

        ``asked`` is what each of its charges takes, by table. What would cost nothing is refused
        too: the gate answers by itself what no record can move, and asks for no charge.

        Raises InvalidParameterValue (22023) and RecordingLimitExceeded (53400).
        """
        for one in quote.tables:
            least = self._accounts[one.table].least_cost
            if not one.cost or one.cost < least:
                raise too_cheap(one, least)
        for table in dict.fromkeys(name for name, _ in asked):
            takes = sum((amount for name, amount in asked if name == table), Amount())
            for whose in (None, analyst):
                left = self.room(table, whose).left
                if takes.rows > left.rows:
                    raise out_of_room(table, whose, takes.rows, left.rows, "rows")
                if takes.size > left.size:
                    raise out_of_room(table, whose, takes.size, left.size, "bytes")
