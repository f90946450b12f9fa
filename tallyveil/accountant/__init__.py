"""Budgets: what has been spent, whether more may be spent, and what was answered.

This room composes the losses of releases (`mechanisms` has the cost of one release), keeps the
append-only ledger of charges and noisy answers, and issues receipts once a charge is written. It
handles workloads, scales and noisy answers, never a true answer; the ledger file is its only I/O.
"""

from tallyveil.accountant.accountant import Accountant, Budgets
from tallyveil.accountant.binding import check_data, check_tables
from tallyveil.accountant.budget_reports import BudgetReports
from tallyveil.accountant.budgets.account import Account, Balance, Room, Share, is_plan
from tallyveil.accountant.budgets.quote import Quote, TableQuote, cost_text, listed, report_charge
from tallyveil.accountant.charges import Answer, Charge, Entry, OdometerReading, Spending
from tallyveil.accountant.checkpoint import Arrays
from tallyveil.accountant.derivation import ROW_BYTES, Basis, Derivation, Part
from tallyveil.accountant.joint_law import Drawn, Joint
from tallyveil.accountant.past import Past, Records
from tallyveil.accountant.published_counts import PUBLISHED, invariants_of
from tallyveil.accountant.releases import Release
from tallyveil.accountant.sale import Draw
from tallyveil.accountant.store.event_codec import decode_column, encode_column
from tallyveil.accountant.store.ledger_records import ReplacementRecord, VersionRecord, now
from tallyveil.accountant.store.ledger_store import (
    LedgerAdvanced,
    LedgerStore,
    Seen,
    VersionAdvanced,
)
from tallyveil.accountant.store.sqlite_ledger import Ledger
from tallyveil.accountant.versions import VersionLog, publish_replacement, publish_version

__all__ = [
    "PUBLISHED",
    "ROW_BYTES",
    "Account",
    "Accountant",
    "Answer",
    "Arrays",
    "Balance",
    "Basis",
    "BudgetReports",
    "Budgets",
    "Charge",
    "Derivation",
    "Draw",
    "Drawn",
    "Entry",
    "Joint",
    "Ledger",
    "LedgerAdvanced",
    "LedgerStore",
    "OdometerReading",
    "Part",
    "Past",
    "Quote",
    "Records",
    "Release",
    "ReplacementRecord",
    "Room",
    "Seen",
    "Share",
    "Spending",
    "TableQuote",
    "VersionAdvanced",
    "VersionLog",
    "VersionRecord",
    "check_data",
    "check_tables",
    "cost_text",
    "decode_column",
    "encode_column",
    "invariants_of",
    "is_plan",
    "listed",
    "now",
    "publish_replacement",
    "publish_version",
    "report_charge",
]
