"""A live Superset beside `tallyveil serve`, and what a browser saw in it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit

import duckdb
import pytest

from tests.catalog.test_catalog_serve import serving
from tests.wire.waiting import until

HERE = Path(__file__).parent
BI = HERE.parent.parent / ".bi"
PASSWORD = "correct-horse"

ROWS = """
SELECT
    ['Berlin', 'Paris', 'Rome', 'Madrid'][CAST(1 + hash(i) % 7 % 4 AS INTEGER)] AS city,
    CAST(hash(i + 1) % 90 AS INTEGER) AS age,
    CASE WHEN hash(i + 2) % 9 = 0 THEN NULL WHEN hash(i + 3) % 2 = 0 THEN 'F' ELSE 'M' END AS sex,
    DATE '2025-01-01' + CAST(hash(i + 4) % 700 AS INTEGER) AS admitted,
    ['cold', 'flu', 'fracture'][CAST(1 + hash(i + 5) % 5 % 3 AS INTEGER)] AS diagnosis
FROM range(20000) t(i)
"""

POLICY = """
[source]
url = "patients.parquet"

[tables.patients]
from = "patients"
budget = { epsilon = 10.0 }

[tables.patients.attributes]
city = { values = ["Berlin", "Madrid", "Paris", "Rome"] }
age = { range = [0, 115], clamp = true }
sex = { values = ["F", "M"], nullable = true }
admitted = { range = [2025-01-01, 2026-12-31] }
diagnosis = { values = ["cold", "flu", "fracture"] }

[defaults]
epsilon = 0.05
"""


@pytest.fixture(scope="session")
def steps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the browser saw at each, and what it cost."""
    for program in ("chromium", "chromedriver"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    if not (BI / "bin" / "superset").exists():
        pytest.skip("Superset is not installed: make test-bi")
    base = tmp_path_factory.mktemp("bi")
    duckdb.sql(ROWS).write_parquet(str(base / "patients.parquet"))
    policy = base / "people.toml"
    policy.write_text(POLICY)
    program = [sys.executable, "-m", "tallyveil", "user", "add", str(policy), "alice", "--stdin"]
    subprocess.run(program, input=PASSWORD, text=True, check=True, capture_output=True)
    with serving(policy, "--tls-self-signed") as printed, superset(base) as site:
        port = urlsplit(printed).port
        options = f"sslmode=verify-full&sslrootcert={policy.with_suffix('.crt')}"
        address = f"postgresql://alice:{PASSWORD}@localhost:{port}/clinic?{options}"
        return browse(site, address)


def browse(site: str, address: str) -> dict[str, Any]:
    uri = address.replace("postgresql:", "postgresql+psycopg2:")
    command = [str(BI / "bin" / "python"), str(HERE / "browser.py"), site, uri, str(BI / "seen")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    steps: dict[str, Any] = {}
    for line in done.stdout.splitlines():
        steps |= json.loads(line)
    assert done.returncode == 0, (steps, done.stderr)
    return steps


@contextmanager
def superset(base: Path) -> Iterator[str]:
    """Where one listens that knows one user and nothing else."""
    environment = os.environ | {
        "FLASK_APP": "superset",
        "SUPERSET_CONFIG_PATH": str(HERE / "superset_config.py"),
        "SUPERSET_HOME": str(base),
    }
    program = str(BI / "bin" / "superset")
    admin = "--username admin --firstname A --lastname B --email a@example.org --password admin"
    for arguments in (["db", "upgrade"], ["fab", "create-admin", *admin.split()], ["init"]):
        subprocess.run(
            [program, *arguments], env=environment, check=True, capture_output=True, timeout=600
        )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [program, "run", "--port", str(port), "--with-threads"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            site = f"http://127.0.0.1:{port}"
            until(lambda: answers(site))
            yield site
        finally:
            process.terminate()


def answers(site: str) -> bool:
    try:
        with urllib.request.urlopen(f"{site}/health", timeout=10) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False
