"""What a charge costs, and what it takes in the ledger: worked out once, and without a lock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from tallyveil.accountant.codec import Event, encode_event
from tallyveil.accountant.values import Account, Amount, Charge
from tallyveil.errors import TallyveilError, UndefinedTable
from tallyveil.mechanisms import Charged, Loss, additive_by_law, charged

__all__ = ["Priced", "Pricing"]


@dataclass(frozen=True)
class Priced:
    """A charge as it would be recorded. ``columns`` is as `codec` writes them."""

    table: str
    mechanism: str
    sql: str
    columns: bytes
    height: int
    loss: Loss
    amount: Amount


class Pricing:
    """Threads may share it: at worst a charge is priced twice."""

    def __init__(self, accounts: Mapping[str, Account]) -> None:
        self._accounts = accounts
        self._priced: WeakKeyDictionary[Charge, Priced] = WeakKeyDictionary()

    def price(self, charge: Charge) -> Priced:
        """A charge is quoted and then paid for, and priced the first time.

        Raises what `loss` does.
        """
        priced = self._priced.get(charge)
        if priced is None:
            workload = charge.workload
            _ = charge.key  # of its receipt, which is issued while others wait
            event = Event(workload.columns, charge.scales, charge.law)
            columns = encode_event(event, self._accounts[workload.table].relation)
            height = sum(column.height for column in workload.columns)
            priced = self._priced[charge] = Priced(
                workload.table,
                charge.mechanism,
                charge.sql,
                columns,
                height,
                self.loss(charge),
                Amount.of(charge.mechanism, charge.sql, columns, height),
            )
        return priced

    def loss(self, charge: Charge) -> Loss:
        """Raises TallyveilError if the workload is not about the table's declared cells."""
        workload = charge.workload
        account = self._accounts.get(workload.table)
        if account is None:
            raise UndefinedTable(f'there is no protected table "{workload.table}"')
        for column in workload.columns:
            for axis, size in zip(column.axes, column.shape, strict=True):
                if axis not in account.domain or account.domain[axis].size != size:
                    raise TallyveilError(f'the workload does not fit table "{workload.table}"')
        family: Charged = (
            charged(charge.mechanism) if charge.law is None else additive_by_law(charge.law)
        )
        return family.loss(workload, charge.scales, account.relation, account.measure)
