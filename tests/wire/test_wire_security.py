"""Real clients over TLS with SCRAM, unmodified: how each is told to, and that all of it works."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest

from tallyveil.proxy import Tls, self_sign
from tests.wire.conftest import House

COUNT = "SELECT count(*) FROM person WHERE sex = 'F'"
HEAVY = [
    f"SELECT count(*) FROM person WHERE age > {n} GROUP BY CUBE (age, sex, state, income)".encode()
    for n in range(90)
]


@dataclass
class Secured:
    """A house that wants TLS verified and a password proved."""

    house: House
    certificate: Path

    def address(self, **options: str) -> str:
        given = {
            "host": "localhost",
            "port": str(self.house.port),
            "user": "alice",
            "dbname": "people",
            "password": "se:cret",
            "sslmode": "verify-full",
            "sslrootcert": str(self.certificate),
            "channel_binding": "require",
            **options,
        }
        return " ".join(f"{key}={value}" for key, value in given.items() if value)

    @property
    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.certificate)


@pytest.fixture
def secured(serve: Callable[..., House], tmp_path: Path) -> Secured:
    certificate = tmp_path / "server.crt"
    self_sign(certificate, certificate.with_suffix(".key"), "127.0.0.1")
    tls = Tls(certificate, certificate.with_suffix(".key"))
    return Secured(serve(passwords={"alice": "se:cret"}, tls=tls), certificate)


@pytest.mark.parametrize("negotiation", ["postgres", "direct"])
def test_psycopg(secured: Secured, negotiation: str) -> None:
    if psycopg.pq.version() < 170000:
        pytest.skip("sslnegotiation came with libpq 17")
    address = secured.address(sslnegotiation=negotiation)
    with psycopg.connect(address, autocommit=True) as connection:
        assert connection.pgconn.ssl_in_use
        assert connection.execute(COUNT).fetchone() is not None
        rows = connection.execute("SELECT state, count(*) FROM person GROUP BY state").fetchall()
        assert len(rows) == 3
        with connection.pipeline():
            found = [connection.execute("SELECT %s::int", [i]) for i in range(10)]
        assert [cursor.fetchone() for cursor in found] == [(i,) for i in range(10)]


def test_psycopg_cancels_over_tls(secured: Secured) -> None:
    done = threading.Event()
    with psycopg.connect(secured.address(), autocommit=True) as connection:

        def cancel() -> None:
            while not done.wait(0.05):
                connection.cancel_safe()

        def ask() -> None:
            for statement in HEAVY:
                connection.execute(statement)

        canceller = threading.Thread(target=cancel)
        canceller.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            ask()
        done.set()
        canceller.join()
        assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"password": "wrong"}, "password authentication failed"),
        ({"user": "eve"}, "password authentication failed"),
        ({"password": ""}, "no password supplied"),
        ({"sslrootcert": "none.crt"}, "certificate|none.crt"),
        ({"sslmode": "disable"}, "channel binding"),
    ],
)
def test_psycopg_is_refused(secured: Secured, options: dict[str, str], told: str) -> None:
    with pytest.raises(psycopg.OperationalError, match=told):
        psycopg.connect(secured.address(**options))


def test_asyncpg(secured: Secured) -> None:
    async def ask() -> tuple[Any, Any]:
        connection = await asyncpg.connect(
            host="localhost",
            port=secured.house.port,
            user="alice",
            password="se:cret",
            database="people",
            ssl=secured.context,
        )
        try:
            count = await connection.fetchval(COUNT)
            with pytest.raises((TimeoutError, asyncio.TimeoutError)):
                await connection.fetch(HEAVY[0].decode(), timeout=0.01)
            return count, await connection.fetchval("SELECT $1::int + 1", 41)
        finally:
            await connection.close()

    count, after = asyncio.run(ask())
    assert isinstance(count, int)
    assert after == 42
