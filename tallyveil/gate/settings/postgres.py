"""PostgreSQL's own settings: what may be set, and what that does.

Each is applied, or has the values only that are offered, or is one of the `parameters` without
effect; docs/analyst.md has the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tallyveil.gate.settings import values as read
from tallyveil.gate.settings.parameters import WITHOUT_EFFECT
from tallyveil.gate.settings.values import Setting

__all__ = ["FIXED", "KEPT", "LISTS", "REPORTED", "SERVER_VERSION"]

SERVER_VERSION: Final = "18.0"
"""The version reported by a server without catalogs; with catalogs it reports theirs."""


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
    "application_name": Setting("", read.label),
    "client_min_messages": Setting("notice", read.severity),
    "default_transaction_deferrable": Setting("off", read.switch),
    "default_transaction_isolation": Setting("read committed", read.isolation),
    "default_transaction_read_only": Setting("on", read.switch),
    "statement_timeout": Setting("0", read.duration),
    "timezone": Setting("UTC", read.time_zone),
}

_OFFERED: Final = {
    "bytea_output": Setting("hex", read.only("hex", read.one_of("hex", "escape"))),
    "client_encoding": Setting("UTF8", read.encoding),
    "datestyle": Setting("ISO, MDY", read.date_style),
    "extra_float_digits": Setting("1", read.number("1", "3")),
    "intervalstyle": Setting(
        "postgres",
        read.only(
            "postgres", read.one_of("postgres", "postgres_verbose", "sql_standard", "iso_8601")
        ),
    ),
    "search_path": Setting('"$user", public', read.search_path),
    "standard_conforming_strings": Setting("on", read.only("on", read.switch)),
}

KEPT: Final[Mapping[str, Setting]] = MappingProxyType({**_APPLIED, **_OFFERED, **WITHOUT_EFFECT})

# Settings that take several values.
LISTS: Final = frozenset({"datestyle", "search_path"})

# Those that clients are sent, as PostgreSQL spells them.
REPORTED: Final = (
    "application_name", "client_encoding", "DateStyle", "default_transaction_read_only",
    "in_hot_standby", "integer_datetimes", "IntervalStyle", "is_superuser", "scram_iterations",
    "search_path", "server_encoding", "server_version", "standard_conforming_strings", "TimeZone",
    "session_authorization",
)  # fmt: skip
