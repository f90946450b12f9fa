"""What psql shows of answers and refusals, and what the guide says of a server without catalogs."""

from __future__ import annotations

import subprocess
from typing import Any

import psycopg
import pytest

from bench.postgres import program

COUNT = "SELECT count(*) FROM person WHERE age = 30 AND state = 'AL'"


def test_psql(house: Any) -> None:
    with house.connect() as connection:
        ((answer,),) = connection.execute(COUNT).fetchall()

    def run(*commands: str) -> subprocess.CompletedProcess[str]:
        arguments = [part for command in commands for part in ("-c", command)]
        return subprocess.run(
            [program("psql"), house.dsn, "-X", "-A", "-t", *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    done = run("SET dp.confidence = 0.9", COUNT)
    assert done.stdout.splitlines() == ["SET", str(answer)]
    assert "answered from history, free" in done.stderr
    failed = run("SELECT count(*) FROM person WHERE income > 20000")
    assert failed.returncode == 1
    assert "LINE 1: SELECT count(*) FROM person WHERE income > 20000" in failed.stderr
    assert "The nearest edges are 15000 and 30000" in failed.stderr


def test_what_the_guide_says_does_not_work_yet_is_refused_free(house: Any) -> None:
    """The guide lists it; whoever makes one of these work takes it off the list."""
    with house.connect() as connection:
        for statement in (
            "SELECT routine_name FROM information_schema.routines",
            "SELECT relname FROM pg_catalog.pg_class",
        ):
            with pytest.raises(psycopg.Error) as caught:
                connection.execute(statement)
            assert caught.value.diag.message_hint
    assert house.spent() == 0
