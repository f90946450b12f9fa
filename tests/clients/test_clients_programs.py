"""Programs: psql, pgcli, pgbench, pgjdbc, psqlodbc by isql, dbt, DuckDB."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.clients.conftest import BY_CITY, Served
from tests.clients.programs import HERE, INSTALLED, lines, need, run, skip

pytestmark = pytest.mark.usefixtures("free")

JARS = (
    "/usr/share/java/postgresql.jar",
    *map(str, (Path.home() / ".m2/repository/org/postgresql/postgresql").glob("*/*.jar")),
)


def test_psql(served: Served, by_city: list[Any], tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    script = f"""
\\set QUIET on
SET client_min_messages = warning;
\\set FETCH_COUNT 2
{BY_CITY};
SELECT relname FROM pg_catalog.pg_class WHERE relname IN ('patients', 'towns') ORDER BY 1;
\\unset FETCH_COUNT
\\copy ({BY_CITY}) TO '{out}' CSV
PREPARE p (text) AS SELECT $1 || '!';
EXECUTE p ('done');
SELECT count(*) AS n FROM patients LIMIT 0 \\gdesc
\\conninfo
"""
    found = run(served, need("psql"), "-XAtq", "-v", "ON_ERROR_STOP=1", text=script).splitlines()
    assert found[:4] == lines(by_city)
    assert found[4:8] == ["patients", "towns", "done!", "n|bigint"]
    assert "SSL" in found[-1]
    assert out.read_text().splitlines() == lines(by_city, ",")

    asked = ("-c", "SHOW password_encryption", "-c", "ALTER USER alice PASSWORD 'x'")  # \\password
    sent = subprocess.run(
        (need("psql"), "-XAt", *asked),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env=os.environ | served.environment,
    )
    assert sent.stdout == "scram-sha-256\n"
    assert "`tallyveil user` changes passwords" in sent.stderr


def test_pgcli(served: Served, by_city: list[Any], tmp_path: Path) -> None:
    """At a prompt, beside which it asks for what to complete names with."""
    pgcli = need("pgcli", f"{INSTALLED / 'pgcli' / 'bin'}:{os.environ['PATH']}")
    asked = ("\\T csv", "\\d patients", "\\dt", "\\l", "\\dn", f"{BY_CITY};", "TABLE patients;")
    found = run(served, pgcli, "--less-chatty", text="\n".join(asked) + "\n", HOME=str(tmp_path))
    seen = found.replace('"', "").splitlines()
    for line in (*lines(by_city, ","), "public,towns,table,tallyveil", "dp,tallyveil"):
        assert line in seen
    assert any(line.startswith("age,integer") for line in seen)
    assert "rows of a protected table are not answered" in found


@pytest.mark.parametrize("mode", ["simple", "extended", "prepared"])
def test_pgbench(served: Served, mode: str, tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    script.write_text(f"{BY_CITY};\n")
    arguments = ("-n", "-M", mode, "-c", "2", "-t", "5", "-f", str(script))
    options = {"PGOPTIONS": "-c client_min_messages=warning"}
    found = run(served, need("pgbench"), *arguments, **options)
    assert "number of failed transactions: 0 (0.000%)" in found


def test_pgjdbc(served: Served, by_city: list[Any]) -> None:
    """Simple and prepared statements, binary after five, fetch sizes, timeouts, metadata."""
    java, jar = need("java"), next(filter(os.path.exists, JARS), None)
    if jar is None:
        skip("pgjdbc")
    quick = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", jar)
    found = run(served, java, *quick, str(HERE / "Jdbc.java"), BY_CITY).splitlines()
    assert found == lines(by_city) * 8 + ["city text", "age int4", "sex text"]


def test_psqlodbc(served: Served, by_city: list[Any], tmp_path: Path) -> None:
    """Through unixODBC, as a plain result and by cursors."""
    isql = need("isql")
    driver = next((str(p) for p in Path("/usr/lib").glob("*/odbc/psqlodbcw.so")), None)
    if driver is None:
        skip("psqlodbc")
    for fetch in ("0", "1"):
        (tmp_path / "odbc.ini").write_text(
            f"[people]\nDriver={driver}\nServername=localhost\nPort={served.port}\n"
            f"Database=tallyveil\nUserName=alice\nPassword={served.password}\n"
            f"Sslmode=verify-full\nUseDeclareFetch={fetch}\nFetch=2\n"
            f"pqopt=sslrootcert={served.certificate}\n"
        )
        ini = {"ODBCINI": str(tmp_path / "odbc.ini")}
        text = f"{BY_CITY}\n"
        found = run(served, isql, "people", "-b", "-d|", "-v", text=text, **ini).splitlines()
        assert [line for line in found if "|" in line] == lines(by_city)


DBT = {
    "dbt_project.yml": "{name: clinic, version: 1.0.0, profile: clinic}",
    "profiles.yml": """
clinic:
  target: people
  outputs:
    people:
      {type: postgres, host: localhost, port: PORT, user: alice, password: PASSWORD, schema: public,
       dbname: tallyveil, sslmode: verify-full, sslrootcert: CERTIFICATE, threads: 1}
""",
    "models/sources.yml": """
sources:
  - {name: clinic, schema: public, tables: [{name: patients}, {name: towns}]}
  - {name: dp, schema: dp, tables: [{name: attributes}]}
""",
    "models/cities.sql": "{{ config(materialized='ephemeral') }} " + BY_CITY.partition(
        " ORDER"
    )[0].replace("patients", "{{ source('clinic', 'patients') }}"),
    "models/large.sql": """
SELECT c.city, n, millions FROM {{ ref('cities') }} AS c
JOIN {{ source('clinic', 'towns') }} AS t ON c.city = t.city
WHERE (SELECT count(*) FROM {{ source('dp', 'attributes') }}) = 6
ORDER BY c.city
""",
}  # fmt: skip


def test_dbt(served: Served, by_city: list[Any], tmp_path: Path) -> None:
    """debug, show of a model over public tables and dp, and the refusal of what run creates."""
    dbt = need("dbt", f"{INSTALLED / 'dbt' / 'bin'}:{os.environ['PATH']}")
    given = {"PORT": served.port, "PASSWORD": served.password, "CERTIFICATE": served.certificate}
    for name, text in DBT.items():
        for word, value in given.items():
            text = text.replace(word, str(value))
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)

    def ask(*words: str) -> subprocess.CompletedProcess[str]:
        options = ("--no-version-check", "--no-send-anonymous-usage-stats", "--no-use-colors")
        where = ("--project-dir", str(tmp_path), "--profiles-dir", str(tmp_path))
        command = (dbt, *options, *words, *where)
        return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)

    assert "Connection test: [OK connection ok]" in ask("debug").stdout
    shown = ask("--quiet", "show", "--select", "large", "--output", "json")
    counts = dict(by_city)
    assert json.loads(shown.stdout)["show"] == [
        {"city": "Berlin", "n": counts["Berlin"], "millions": 3.7},
        {"city": "Paris", "n": counts["Paris"], "millions": 2.1},
    ]
    refused = ask("run", "--select", "large")
    assert refused.returncode == 1
    assert "CREATE is not answered" in refused.stdout
    assert "Send its SELECT by itself" in refused.stdout


DUCKDB = """
import json, os, sys
from pathlib import Path
import duckdb, duckdb_extension_postgres_scanner as scanner

[extension] = Path(scanner.__file__).parent.glob("extensions/*/*.duckdb_extension")
connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
connection.execute(f"LOAD '{extension}'")
connection.execute("ATTACH '' AS people (TYPE postgres, READ_ONLY)")
asked = "SELECT * FROM postgres_query('people', ?)"
print(json.dumps(connection.execute(asked, [sys.argv[1]]).fetchall()))
print(json.dumps(connection.execute("SELECT city FROM people.towns ORDER BY 1").fetchall()))
print(json.dumps([row[0] for row in connection.execute("DESCRIBE people.patients").fetchall()]))
try:
    connection.execute("SELECT count(*) FROM people.patients")
except duckdb.Error as error:
    print(json.dumps(str(error)))
"""


def test_duckdb(served: Served, by_city: list[Any]) -> None:
    """Its postgres extension: counts by postgres_query; it would read a protected table's rows."""
    python = INSTALLED / "duckdb" / "bin" / "python"
    if not any(INSTALLED.glob("duckdb/lib/*/site-packages/duckdb_extension_postgres_scanner")):
        skip("DuckDB with its postgres extension")
    found = run(served, str(python), "-c", DUCKDB, BY_CITY)
    counts, towns, columns, refused = map(json.loads, found.splitlines())
    assert [tuple(row) for row in counts] == by_city
    assert towns == [["Berlin"], ["Paris"]]
    assert columns[:3] == ["city", "age", "sex"]
    assert "rows of a protected table are not answered" in refused
