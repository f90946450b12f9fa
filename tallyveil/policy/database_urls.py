"""Urls of databases: which database it is, whoever connects to it and however.

An ADBC driver's is ``adbc://DRIVER?OPTION=VALUE&…``. Options are the driver's own, such as ``uri``;
& in a value is written %26. A value ``$NAME`` is that of an environment variable, as every secret
must be.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from tallyveil.policy.mistakes import SECRET

__all__ = ["DATABASES", "AdbcUrl", "adbc_url"]

_PLACE: Final = ("service", "host", "hostaddr", "port", "dbname")


def _postgresql(url: str) -> str | None:
    """The url of the same database without user, password and options; None for no such url."""
    # Only policies that name such a database load the driver.
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        options = {name: str(value) for name, value in conninfo_to_dict(url).items() if value}
    except ProgrammingError:
        return None
    if not all(port.isdigit() for port in options.get("port", "0").split(",")):
        return None  # perhaps a password, where the host was forgotten
    if options.get("port") == "5432":
        del options["port"]
    place = {name: options[name] for name in _PLACE if name in options}
    if any("@" in value for value in place.values()):  # of a password, left as it is
        return None
    if not {"service", "dbname"} & place.keys() and "user" in options:
        place["dbname"] = options["user"]
    return f"postgresql://?{'&'.join(f'{name}={value}' for name, value in place.items())}"


_OPTION: Final = re.compile(
    rf"{SECRET.pattern}|(^|[._-])(jwt|pat|sas|sig|key|header)([._-]|$)", re.IGNORECASE
)
"""What the name of an option has in it whose value is a secret."""
_USER: Final = re.compile(r"^([^/@]*//)?[^/@]*@")
_HELD: Final = re.compile(
    rf":[^/@]*@|(?:{SECRET.pattern})[^=&]*=|//[^:/@\[]*:(?!\d+(?:[,/?]|$))[^/@]", re.IGNORECASE
)
"""What a value has in it that holds a secret; a port that is no number may be one."""


class AdbcUrl(NamedTuple):
    driver: str
    options: Mapping[str, str]


def adbc_url(url: str) -> AdbcUrl | None:
    """None for no such url, and for one that names no driver or has a secret in it."""
    driver, _, query = url.partition("://")[2].partition("?")
    pairs = [pair.partition("=") for pair in query.split("&") if query]
    options = {name: value.replace("%26", "&") for name, _, value in pairs if name and value}
    if len(options) < len(pairs) or not (driver or "profile" in options) or {*"#="} & {*driver}:
        return None
    for name, value in options.items():
        if not value.startswith("$") and (_OPTION.search(name) or _HELD.search(value)):
            return None
    return AdbcUrl(driver, options)


def _adbc(url: str) -> str | None:
    """The url of the same database without users and secrets; None for no such url."""
    found = adbc_url(url)
    if found is None:
        return None
    named = sorted(found.options.items())
    kept = [(n, _USER.sub(r"\1", v)) for n, v in named if n != "username" and not _OPTION.search(n)]
    return f"adbc://{found.driver}?{'&'.join(f'{name}={value}' for name, value in kept)}"


class _Databases(NamedTuple):
    """``database`` is the url without whoever connects, None for a wrong one; a right one is as
    ``expected``."""

    database: Callable[[str], str | None]
    expected: str


DATABASES: Final = MappingProxyType(
    {
        "postgresql": _Databases(
            _postgresql,
            "expected postgresql://user@host:5432/database, with % and two hexadecimal digits for"
            " each character that is special in a url",
        ),
        "adbc": _Databases(
            _adbc,
            "expected adbc://driver?option=value&option=value, such as adbc://snowflake?uri="
            "account/database&username=reader&password=$PASSWORD: a secret is given as the $NAME"
            " of the environment variable that holds it",
        ),
    }
)
"""By the names of their kinds of sources."""
