"""Real clients on real sockets, over TLS and with a password; a catalog is beside the server."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from tests.catalog.conftest import PASSWORD, catalogued

__all__ = ["catalogued"]

BY_CITY = "SELECT city, count(*) AS n FROM patients GROUP BY city ORDER BY city"


class Served:
    """Where the server is, in the forms that clients want it in."""

    def __init__(self, house: Any) -> None:
        self.house = house
        self.dsn: str = house.address()
        self.port: int = house.port
        self.certificate = str(house.certificate)
        self.password = PASSWORD

    def url(self, **options: str) -> str:
        """Without certificates, or with what else is given."""
        return self.dsn.partition("?")[0] + (
            "?" + "&".join(f"{k}={v}" for k, v in options.items()) if options else ""
        )

    @property
    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.certificate)

    @property
    def environment(self) -> dict[str, str]:
        """libpq's own variables."""
        return {
            "PGHOST": "localhost",
            "PGPORT": str(self.port),
            "PGUSER": "alice",
            "PGPASSWORD": PASSWORD,
            "PGDATABASE": "tallyveil",
            "PGSSLMODE": "verify-full",
            "PGSSLROOTCERT": self.certificate,
        }

    def spent(self) -> float:
        return float(self.house.spent())


@pytest.fixture(scope="session")
def served(catalogued: Any) -> Served:
    return Served(catalogued)


@pytest.fixture(scope="session")
def by_city(served: Served) -> list[tuple[str, int]]:
    """The answers, paid for. Asking them again, by whichever client, is free."""
    with served.house.connect() as connection:
        return [(str(city), int(n)) for city, n in connection.execute(BY_CITY.encode())]


@pytest.fixture
def free(served: Served, by_city: object) -> Any:
    """What the test asks was answered before."""
    before = served.spent()
    yield
    assert served.spent() == before
