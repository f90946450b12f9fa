"""The kinds of records that a ledger has, each in an append-only table of its own."""

from __future__ import annotations

import datetime as dt
from typing import NamedTuple, TypeAlias, TypeVar

from tallyveil.mechanisms.measure import Measure

__all__ = [
    "AnswerRecord",
    "BudgetRecord",
    "ChargeRecord",
    "DataRecord",
    "DerivationRecord",
    "InvariantRecord",
    "MigrationRecord",
    "R",
    "Record",
    "ReplacementRecord",
    "TableRecord",
    "VersionRecord",
    "now",
]


class TableRecord(NamedTuple):
    """A protected table, with its declaration, JSON without passwords, and the fingerprint of all
    of it."""

    name: str
    fingerprint: str
    declared: str
    added: str


class MigrationRecord(NamedTuple):
    """A table's declaration changed: ``fingerprint`` and ``declared`` are those since then, and
    ``body`` how the codes of records before and after go together (`migrations`)."""

    table: str
    fingerprint: str
    declared: str
    body: str
    added: str


class BudgetRecord(NamedTuple):
    """``declared`` is as `declarations.declaration` writes it."""

    time: str
    table: str
    declared: str


class DataRecord(NamedTuple):
    """The keyed digest of the data that a table's answers are about (`binding`), once for each
    table. As confidential as the data."""

    table: str
    digest: bytes
    added: str


class VersionRecord(NamedTuple):
    """A version of a table that grows: all days up to ``through``, written as ISO, are over; empty
    if none is. Those from ``since`` on were counted for it. ``snapshot`` is a random name of what
    was counted, and never shown."""

    table: str
    number: int
    since: str
    through: str
    snapshot: str
    published: str


class ReplacementRecord(NamedTuple):
    """A version of a table whose rows are replaced: they were counted anew. ``charges`` and
    ``derivations`` are the numbers of the last ones before it, ``snapshot`` is as of
    `VersionRecord`."""

    table: str
    number: int
    charges: int
    derivations: int
    snapshot: str
    published: str


class InvariantRecord(NamedTuple):
    """An event of counts: they were declared or published. ``rows`` is the digest of their rows,
    ``columns`` are as `event_codec` writes them."""

    table: str
    event: str
    sql: str
    rows: bytes
    columns: bytes
    added: str


class ChargeRecord(NamedTuple):
    """``cost`` is in units of 10⁻¹² of ``measure``, ``columns`` are as `event_codec` writes
    them."""

    time: str
    analyst: str
    table: str
    mechanism: str
    sql: str
    cost: int
    height: int
    columns: bytes
    measure: Measure = "epsilon"


class AnswerRecord(NamedTuple):
    """The noisy answer to a charge, once for each."""

    charge_id: int
    noisy: bytes


class DerivationRecord(NamedTuple):
    """How estimates were made that were reported to an analyst (`derivation`)."""

    table: str
    analyst: str
    body: bytes


Record: TypeAlias = (
    TableRecord
    | MigrationRecord
    | BudgetRecord
    | DataRecord
    | VersionRecord
    | ReplacementRecord
    | InvariantRecord
    | ChargeRecord
    | AnswerRecord
    | DerivationRecord
)
R = TypeVar(
    "R",
    TableRecord,
    MigrationRecord,
    BudgetRecord,
    DataRecord,
    VersionRecord,
    ReplacementRecord,
    InvariantRecord,
    ChargeRecord,
    AnswerRecord,
    DerivationRecord,
)


def now() -> str:
    """The time, as records have it."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="microseconds")
