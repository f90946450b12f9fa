"""Urls of PostgreSQL databases: which database it is, whoever connects to it and however."""

from __future__ import annotations

from typing import Final

__all__ = ["database_of"]

_PLACE: Final = ("service", "host", "hostaddr", "port", "dbname")


def database_of(url: str) -> str | None:
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
