"""PostgreSQL's own settings: what may be set, and what that does.

Each is applied, or cannot change an answer, or has one value only; docs/analyst.md has the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tallyveil.gate.settings import values as read

__all__ = ["FIXED", "KEPT", "LISTS", "REPORTED", "SERVER_VERSION", "Kept"]

SERVER_VERSION: Final = "18.0"
"""Of a server without catalogs, which would say theirs."""


@dataclass(frozen=True)
class Kept:
    """A setting of PostgreSQL's that a session keeps: its default, and how its text is read."""

    default: str
    read: read.Reading


FIXED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "server_encoding": "UTF8",
        "integer_datetimes": "on",
        "is_superuser": "off",
        "in_hot_standby": "off",
        "max_identifier_length": "63",
        "lc_collate": "C",
        "lc_ctype": "C",
        "password_encryption": "scram-sha-256",
        "scram_iterations": "4096",
    }
)

_APPLIED: Final = {
    "client_min_messages": Kept("notice", read.severity),
    "default_transaction_deferrable": Kept("off", read.switch),
    "default_transaction_isolation": Kept("read committed", read.isolation),
    "default_transaction_read_only": Kept("on", read.switch),
    "statement_timeout": Kept("0", read.duration),
    "timezone": Kept("UTC", read.time_zone),
}

_WITHOUT_INFLUENCE: Final = {
    "application_name": Kept("", read.label),
    "jit": Kept("off", read.switch),
    "lock_timeout": Kept("0", read.duration),
    "row_security": Kept("on", read.switch),
    "synchronize_seqscans": Kept("on", read.switch),
}

_OFFERED: Final = {
    "bytea_output": Kept("hex", read.only("hex", "escape")),
    "client_encoding": Kept("UTF8", read.encoding),
    "datestyle": Kept("ISO, MDY", read.date_style),
    "extra_float_digits": Kept(
        "1", read.whole(1, 3, "Numbers are written with all the digits they have.")
    ),
    "idle_in_transaction_session_timeout": Kept("0", read.no_duration),
    "idle_session_timeout": Kept("0", read.no_duration),
    "intervalstyle": Kept(
        "postgres", read.only("postgres", "postgres_verbose", "sql_standard", "iso_8601")
    ),
    "search_path": Kept('"$user", public', read.search_path),
    "standard_conforming_strings": Kept("on", read.always_on),
    "transaction_timeout": Kept("0", read.no_duration),
}

KEPT: Final[Mapping[str, Kept]] = MappingProxyType(_APPLIED | _WITHOUT_INFLUENCE | _OFFERED)

# Settings that take several values.
LISTS: Final = frozenset({"datestyle", "search_path"})

REPORTED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "application_name": "application_name",
        "client_encoding": "client_encoding",
        "datestyle": "DateStyle",
        "default_transaction_read_only": "default_transaction_read_only",
        "in_hot_standby": "in_hot_standby",
        "integer_datetimes": "integer_datetimes",
        "intervalstyle": "IntervalStyle",
        "is_superuser": "is_superuser",
        "scram_iterations": "scram_iterations",
        "search_path": "search_path",
        "server_encoding": "server_encoding",
        "server_version": "server_version",
        "standard_conforming_strings": "standard_conforming_strings",
        "timezone": "TimeZone",
    }
)
