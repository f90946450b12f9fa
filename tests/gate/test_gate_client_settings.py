"""PostgreSQL's settings: each value is taken as PostgreSQL takes it, or refused; never dropped."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import psycopg
import pytest

import tallyveil
from tallyveil.gate.settings import Settings
from tallyveil.gate.settings.parameters import WITHOUT_EFFECT
from tallyveil.gate.settings.postgres import FIXED, KEPT
from tallyveil.policy import Defaults

DURATIONS = [
    "0", "1000", "5s", "5 s", "500ms", "1500", "90s", "2min", "1h", "25h", "1d", "1.5s", " 7 ",
    "0.4", "1500us", "500us", "banana", "5 banana", "5S", "-1", "-1s", "", "1e3", "1,5", "10000d",
    "2147483647", "2147483648", "1 0", "5s5", "NaN",
]  # fmt: skip
TRUTHS = [
    "on",
    "off",
    "true",
    "tru",
    "FALSE",
    "f",
    "yes",
    "n",
    "1",
    "0",
    "of",
    "o",
    "2",
    "",
    "banana",
]
BLOCK = ("isolation", "read_only", "deferrable")
CASES = {
    "statement_timeout": DURATIONS,
    "standard_conforming_strings": TRUTHS,
    "default_transaction_read_only": TRUTHS,
    "default_transaction_deferrable": TRUTHS,
    "default_transaction_isolation": [
        "serializable", "repeatable read", "READ COMMITTED", "read uncommitted", "banana", "",
    ],
    "client_min_messages": [
        "debug5", "DEBUG1", "debug", "log", "notice", "warning", "error", "info", "fatal", "banana",
    ],
    "bytea_output": ["hex", "escape", "HEX", "banana"],
    "intervalstyle": ["postgres", "iso_8601", "sql_standard", "postgres_verbose", "banana"],
    "extra_float_digits": ["1", "2", "3", "0", "-15", "4", "banana", "", "1.5", "1 0"],
    "client_encoding": ["UTF8", "utf-8", "unicode", "LATIN1", "banana"],
    "datestyle": [
        "ISO", "iso, mdy", "ISO, DMY", "ISO,YMD", "DMY", "European", "US", "NonEuro", "SQL, DMY",
        "German", "Postgres", "banana", "ISO, SQL", "DMY, MDY", "ISO, banana", "default", "",
    ],
    "search_path": [
        "public", '"$user", public', "public, x", "dp", "x", "dp, public", '"public', "public,",
    ],
    "timezone": [
        "UTC", "Europe/Paris", "europe/paris", "America/New_York", "GMT", "Etc/GMT+5", "EST5EDT",
        "banana", "Europe/Atlantis", "", "Europe/Paris/x",
    ],
    "application_name": ["x", "", "a b", "x" * 63, "x" * 64],
}  # fmt: skip
SAMPLES = {
    "bool": TRUTHS,
    "integer": [
        "0", "-1", "7", "100", "1.5", "4MB", "100kB", "4000B", "30.1GB", "0.3MB", "12kb", "3TB",
        "5s", "1d", "500us", "2147483648", "x", "",
    ],
    "real": ["0", "1", "-1", "2.5", "1.23456789", "1.75", "0.0001", "1500us", "7ms", "5s", "x", ""],
    "enum": ["banana", ""],
    "string": ["", "x", "C", "heap"],
}  # fmt: skip


def test_values_are_postgresqls_or_refused(postgres_uri: str) -> None:
    assert CASES.keys() == KEPT.keys() - WITHOUT_EFFECT.keys()
    with psycopg.connect(postgres_uri, autocommit=True) as connection:
        connection.execute("SET datestyle = 'ISO, MDY'")
        for name, values in CASES.items():
            for value in values:
                taken, sqlstate = _ours(name, value)
                theirs, _ = _postgresqls(connection, name, value)
                assert sqlstate in (None, "22023", "0A000")
                assert taken is None or _spelled(name, taken) == theirs, (name, value)


def test_parameters_without_effect_are_postgresqls(postgres_uri: str) -> None:
    """All that PostgreSQL 18 lets a user set, with its types, units, limits and defaults."""
    listed = """SELECT lower(name), vartype, enumvals, context = 'user' FROM pg_settings"""
    with psycopg.connect(postgres_uri, autocommit=True) as connection:
        theirs = {name: (kind, words, own) for name, kind, words, own in connection.execute(listed)}
        others = KEPT.keys() | FIXED.keys() | {f"transaction_{mode}" for mode in BLOCK}
        if connection.info.server_version < 190_000:
            assert {name for name, (_, _, own) in theirs.items() if own} - others == set()
        for name in WITHOUT_EFFECT.keys() & theirs.keys():
            kind, words, own = theirs[name]
            assert own, name
            shown = connection.execute("SELECT current_setting(%s)", (name,)).fetchone()
            default = WITHOUT_EFFECT[name].default
            tuned = {"default_text_search_config", "lc_monetary", "lc_numeric", "lc_time"}
            assert name in tuned or shown == (default,), name
            accepted = 0
            # What the kernel keeps of a connection is 0 on a unix socket.
            values = [] if name.startswith("tcp_") else [default, *SAMPLES[kind], *(words or ())]
            for value in values:
                taken, sqlstate = _ours(name, value)
                assert sqlstate in (None, "22023")
                if taken is not None:
                    accepted += 1
                    assert _postgresqls(connection, name, value)[0] == taken, (name, value)
            assert accepted or not values, name


def _ours(name: str, value: str) -> tuple[str | None, str | None]:
    """What is shown afterwards, or the SQLSTATE."""
    settings = Settings(Defaults(epsilon=Fraction(1, 10)))
    try:
        settings.set(name, value)
    except tallyveil.Error as error:
        return None, error.sqlstate if settings.show(name) == KEPT[name].default else "changed"
    return settings.show(name), None


def _postgresqls(
    connection: psycopg.Connection, name: str, value: str
) -> tuple[str | None, str | None]:
    """Set for one statement, which tells the value it set: a session may end that waits for longer
    than its own timeout of a millisecond."""
    try:
        row = connection.execute("SELECT set_config(%s, %s, true)", (name, value)).fetchone()
    except psycopg.Error as error:
        return None, error.sqlstate
    return (row or (None,))[0], None


def _spelled(name: str, value: str) -> str:
    """The names of encodings and schemas are shown as they were given."""
    return "UTF8" if name == "client_encoding" else value


@pytest.mark.parametrize(
    ("value", "zone"),
    [("-5", "Etc/GMT+5"), ("2", "Etc/GMT-2"), ("GMT+2", "Etc/GMT+2"), ("0", "Etc/GMT-0")],
)
def test_a_zone_may_be_given_in_hours(value: str, zone: str) -> None:
    settings = Settings(Defaults(epsilon=Fraction(1, 10)))
    settings.set("timezone", value)
    assert settings.show("timezone") == zone


def test_the_guide_says_of_each_setting_what_it_does() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "analyst.md").read_text()
    table = re.findall(r"^\| `([a-z_]+)` \| .+ \| .+ \|$", guide, re.MULTILINE)
    block = {f"transaction_{mode}" for mode in BLOCK}
    assert set(table) == KEPT.keys() - WITHOUT_EFFECT.keys() | block
