"""Where programs are, and how a test runs one. Where one is absent, its test is skipped, and the
reason names the package that has it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.clients.conftest import Served

__all__ = ["HERE", "INSTALLED", "lines", "need", "run", "skip"]

HERE = Path(__file__).parent
INSTALLED = HERE.parent.parent / ".clients"


# Debian's packages; `make test-clients` installs what pip and npm have.
PACKAGES = {
    "DBD::Pg": "libdbd-pg-perl",
    "RPostgreSQL": "r-cran-rpostgresql",
    "Rscript": "r-cran-rpostgresql",
    "isql": "unixodbc and odbc-postgresql",
    "java": "default-jdk-headless and libpostgresql-jdbc-java",
    "node": "nodejs and npm",
    "pdo_pgsql": "php-pgsql",
    "pgbench": "postgresql",
    "pgjdbc": "libpostgresql-jdbc-java",
    "php": "php-cli and php-pgsql",
    "psql": "postgresql-client",
    "psqlodbc": "odbc-postgresql",
    "ruby": "ruby and ruby-pg",
    "ruby-pg": "ruby-pg",
}


def skip(program: str) -> NoReturn:
    package = PACKAGES.get(program)
    source = (
        f"on Debian and Ubuntu it is in {package}" if package else "`make test-clients` does it"
    )
    pytest.skip(f"{program} is not installed: {source}")


def need(program: str, path: str | None = None) -> str:
    return shutil.which(program, path=path) or skip(program)


def run(served: Served, *command: str, text: str = "", **more: str) -> str:
    done = subprocess.run(
        command,
        input=text,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env=os.environ | served.environment | more,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def lines(by_city: list[Any], between: str = "|") -> list[str]:
    return [f"{city}{between}{n}" for city, n in by_city]
