"""Node: its driver pg, and libraries, which ask as `libraries.js` has it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clients.conftest import BY_CITY, Served
from tests.clients.programs import HERE, INSTALLED, lines, need, run, skip

pytestmark = pytest.mark.usefixtures("free")

NODE = """
const {Client} = require('pg');
(async () => {
  const client = new Client({
    host: 'localhost', port: process.env.PGPORT, user: 'alice', database: 'tallyveil',
    password: process.env.PGPASSWORD,
    ssl: {ca: require('fs').readFileSync(process.env.PGSSLROOTCERT)},
  });
  await client.connect();
  const asked = process.argv[1];
  for (const query of [asked, {name: 'p', text: asked}, {text: asked, rowMode: 'array'}]) {
    const {rows} = await client.query(query);
    console.log(rows.map(row => Object.values(row).join('|')).join('\\n'));
  }
  const {rows} = await client.query('SELECT 2 = ANY($1::int[]) AS found', [[1, 2]]);
  console.log(rows[0].found);
  await client.end();
})();
"""


def with_modules(served: Served, module: str, *arguments: str) -> str:
    """What node prints, if it has the module."""
    node, modules = need("node"), INSTALLED / "node_modules"
    if not (modules / module).is_dir():
        skip(f"the module {module} of node")
    return run(served, node, *arguments, NODE_PATH=str(modules))


def asked_by(served: Served, module: str) -> list[str]:
    """The rows of the query as it stands, then those of the library's own query."""
    script = str(HERE / "libraries.js")
    return with_modules(served, module, script, module, BY_CITY).splitlines()


def test_node(served: Served, by_city: list[Any]) -> None:
    found = with_modules(served, "pg", "-e", NODE, BY_CITY)
    assert found.splitlines() == lines(by_city) * 3 + ["true"]


def test_postgres_js(served: Served, by_city: list[Any]) -> None:
    """With a list of values, too."""
    assert asked_by(served, "postgres") == lines(by_city) * 2 + lines(by_city[1:3])


def test_knex(served: Served, by_city: list[Any]) -> None:
    assert asked_by(served, "knex") == lines(by_city) * 2


def test_kysely(served: Served, by_city: list[Any]) -> None:
    """It lists the tables, too."""
    tables = ["adults by_city patients towns"]
    assert asked_by(served, "kysely") == lines(by_city) * 2 + tables


def test_drizzle(served: Served, by_city: list[Any]) -> None:
    assert asked_by(served, "drizzle-orm") == lines(by_city) * 2


def test_sequelize(served: Served, by_city: list[Any]) -> None:
    assert asked_by(served, "sequelize") == lines(by_city) * 2


def test_typeorm(served: Served, by_city: list[Any]) -> None:
    assert asked_by(served, "typeorm") == lines(by_city) * 2


def test_slonik(served: Served, by_city: list[Any]) -> None:
    """It sets timeouts of the session when it connects."""
    assert asked_by(served, "slonik") == lines(by_city) * 2
