"""A server with a catalog beside it, over TLS and with a password: what real clients connect to."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest

from tallyveil.catalog import CatalogSocket
from tallyveil.cli.serving.serving import catalog_beside
from tallyveil.gate import Gate
from tallyveil.policy import CatalogChoice, parse_policy
from tallyveil.proxy import Server, ServerThread, Tls, self_sign
from tests.proxy.scram_users import with_passwords

PASSWORD = "correct horse battery"

ROWS = """
    CREATE TABLE rows AS SELECT i AS patient_id, 'P' || i AS name,
        ['Berlin', 'Paris', 'Rome'][1 + i % 3] AS city, i % 90 AS age,
        CASE WHEN i % 11 = 0 THEN NULL WHEN i % 2 = 0 THEN 'F' ELSE 'M' END AS sex,
        DATE '2020-01-01' + CAST(i % 400 AS INTEGER) AS admitted, i % 9000 AS cost,
        ['cold', 'flu'][1 + i % 2] AS diagnosis
    FROM range(500) t(i);
    CREATE TABLE towns AS SELECT * FROM (VALUES ('Berlin', 3.7), ('Paris', 2.1)) t(city, millions);
"""

POLICY: dict[str, Any] = {
    "tables": {
        "patients": {
            "from": "rows",
            "budget": {"epsilon": 30.0},
            "attributes": {
                "city": {"values": ["Berlin", "Paris", "Rome"], "other": "elsewhere"},
                "age": {"range": [0, 115], "clamp": True},
                "sex": {"values": ["F", "M"], "nullable": True},
                "admitted": {"range": [dt.date(2020, 1, 1), dt.date(2021, 12, 31)]},
                "cost": {"bins": [0, 100, 1000, 10000]},
                "diagnosis": {"values": ["cold", "flu"]},
            },
        }
    },
    "public": {"towns": {"from": "towns"}},
    "views": {
        "by_city": {"sql": "SELECT city, count(*) AS n FROM patients GROUP BY city"},
        "adults": {"sql": "SELECT city, age FROM patients WHERE age >= 18"},
    },
    "defaults": {"epsilon": 0.01},
}


@dataclass
class Catalogued:
    """A running server with its catalog."""

    gate: Gate
    catalog: CatalogSocket
    port: int
    certificate: Path

    def address(self, user: str = "alice") -> str:
        host = f"postgresql://{user}:{PASSWORD.replace(' ', '%20')}@localhost:{self.port}"
        return f"{host}/tallyveil?sslmode=verify-full&sslrootcert={self.certificate}"

    def connect(self, user: str = "alice", **options: Any) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(self.address(user), autocommit=True, **options)

    def spent(self) -> float:
        return float(self.gate.accountant.balance("patients").spent)


@pytest.fixture(scope="session")
def catalogued(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalogued]:
    base = tmp_path_factory.mktemp("catalogued")
    with ExitStack() as running:
        source = running.enter_context(duckdb.connect(":memory:"))
        source.execute(ROWS)
        gate = running.enter_context(closing(Gate(parse_policy(POLICY, base=base), source)))
        catalog = running.enter_context(catalog_beside(gate, CatalogChoice()))
        if catalog is None:
            pytest.skip("needs the extra catalog")
        certificate, key = base / "server.crt", base / "server.key"
        self_sign(certificate, key, "localhost")
        users = with_passwords({"alice": PASSWORD, "bob": PASSWORD})
        server = Server(
            gate.session, port=0, auth=users, tls=Tls(certificate, key), catalog=catalog
        )
        port = running.enter_context(ServerThread(server)).port
        yield Catalogued(gate, catalog, port, certificate)
