"""A connection to PostgreSQL in one read-only transaction, and what is told where it fails.

Passwords come from where libpq looks for them: PGPASSWORD, a password file, a service file, or the
url. Messages tell PostgreSQL's words only where these are about the connection or the custodian's
SQL; of what fails while rows are read they tell the kind, since its words may quote a record.
"""

from __future__ import annotations

import os
from types import MappingProxyType
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tallyveil.errors import SourceError
from tallyveil.policy import Source
from tallyveil.policy.mistakes import without_passwords

__all__ = ["failed", "read_only", "refused"]

# What texts of values and their equality depend on, whatever the role's own settings are.
_SETTINGS: Final = MappingProxyType(
    {
        "datestyle": "ISO",
        "intervalstyle": "postgres",
        "timezone": "UTC",
        "extra_float_digits": "3",
        "row_security": "off",  # an error where it would filter
    }
)
_ENCODINGS: Final = ("UTF8", "LATIN1")
_OLDEST: Final = 12
_CONNECT_TIMEOUT: Final = 10
_UNLESS: Final = (
    ("statement_timeout", "6h", "current_setting('statement_timeout') <> '0'"),
    # With PostgreSQL's 4 MB, 10^5 groups are sorted on disk.
    ("work_mem", "64MB", "pg_size_bytes(current_setting('work_mem')) > pg_size_bytes('64MB')"),
)
"""Settings of a role that says nothing else."""

_ABOUT_SQL: Final = ("42", "3F", "0A")
_DENIED: Final = "42501"
_HINTS: Final = MappingProxyType(
    {
        "22": "A SELECT given as from must succeed on every record.",
        "57014": "The statement was cancelled, or took longer than its statement_timeout: set a"
        " longer one for the role, or at the end of the url: ?options=-c%20statement_timeout%3D…",
        "25006": "The source is only read: from must not write.",
    }
)


def read_only(source: Source) -> psycopg.Connection[Any]:
    """A connection whose transaction sees the data of one moment. Raises SourceError."""
    options: dict[str, Any] = conninfo_to_dict(source.url)
    if "PGCONNECT_TIMEOUT" not in os.environ:
        options.setdefault("connect_timeout", _CONNECT_TIMEOUT)
    options.update(client_encoding="UTF8", application_name="tallyveil")
    try:
        connection = psycopg.connect(**options, prepare_threshold=None)
    except psycopg.Error as error:
        raise SourceError(
            f"{source.key}: cannot connect to {source.shown}",
            detail=without_passwords(str(error).strip()),
            hint="The password is taken from PGPASSWORD, from a password file or service file as"
            " libpq does, or from the url.",
        ) from None
    try:
        _begin(connection, source.shown)
    except psycopg.Error as error:
        connection.close()
        raise failed(source.shown, error) from None
    except SourceError:
        connection.close()
        raise
    return connection


def _begin(connection: psycopg.Connection[Any], shown: str) -> None:
    if connection.info.server_version < _OLDEST * 10_000:
        raise SourceError(f"{shown}: PostgreSQL {_OLDEST} or later is needed")
    encoding = connection.info.parameter_status("server_encoding")
    if encoding not in _ENCODINGS:
        raise SourceError(
            f"{shown}: the database's encoding is {encoding}; a record with a character that UTF-8"
            " lacks could make reading fail",
            hint=f"Copy what is needed into a database whose encoding is {_ENCODINGS[0]}.",
        )
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    connection.read_only = True
    for name, value in _SETTINGS.items():
        connection.execute("SELECT set_config(%s, %s, true)", [name, value])
    for name, value, unless in _UNLESS:
        connection.execute(f"SELECT set_config(%s, %s, true) WHERE NOT {unless}", [name, value])


def refused(origin: str, key: str, error: psycopg.Error) -> SourceError:
    """What the custodian is told where PostgreSQL cannot tell the columns of ``origin``."""
    code, said = error.sqlstate or "", without_passwords(error.diag.message_primary or "")
    if code == _DENIED:
        return _denied(key, said)
    if not code.startswith(_ABOUT_SQL):
        return failed(key, error)
    what = "has no such table or view" if code == "42P01" else "cannot read it"
    return SourceError(
        f"{key}: PostgreSQL {what}: {without_passwords(origin)}",
        detail=said,
        hint="from is the name of a table or view, with its schema unless that is in the role's"
        " search_path, or a SELECT in PostgreSQL's SQL.",
    )


def failed(key: str, error: Exception) -> SourceError:
    """As `refused`, while rows are read: without PostgreSQL's words, which may quote a record."""
    code = getattr(error, "sqlstate", None) or ""
    if code == _DENIED:
        return _denied(key, None)
    if isinstance(error, psycopg.OperationalError) and code not in _HINTS:
        return SourceError(f"{key}: the connection to PostgreSQL was lost")
    return SourceError(
        f"{key}: PostgreSQL failed to read it ({type(error).__name__})",
        hint=_HINTS.get(code, _HINTS.get(code[:2])),
    )


def _denied(key: str, said: str | None) -> SourceError:
    return SourceError(
        f"{key}: the role may not read all of its rows",
        detail=said,
        hint="GRANT SELECT on it, and where it has row security, ALTER ROLE … BYPASSRLS.",
    )
