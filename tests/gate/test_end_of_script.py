"""A script that leaves a connection open ends as one that closes it does: without a word."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.programs import of_its_own

SETUP = """
import sys, threading
import duckdb, tallyveil
# Most need none of them; they take as long to import as half of all else.
assert not {"scipy.optimize", "scipy.signal", "scipy.stats"} & sys.modules.keys()

source = duckdb.connect()
source.execute("CREATE TABLE people AS SELECT ['F', 'M'][1 + i % 2] AS sex FROM range(100) t(i)")
policy = tallyveil.parse_policy(
    {"tables": {"person": {"from": "people", "budget": {"epsilon": 1.0},
     "attributes": {"sex": {"values": ["F", "M"]}}}}}, base=sys.argv[1])
QUERY = "SELECT sex, count(*) AS n FROM person GROUP BY sex"
connection = tallyveil.connect(policy, source=source)
"""

KEPT = """
relations = [connection.sql(QUERY).filter("n > 0") for _ in range(2)]
cursor = iter(connection.execute(QUERY))
next(cursor)
try:
    connection.execute("SELECT absent FROM person")
except tallyveil.Error as error:
    kept = error
import logging
logging.connection = connection
reader = connection.sql(QUERY).to_arrow_reader()
def rows():
    yield from tallyveil.connect(policy, source=source).sql(QUERY).fetchall()
generator = rows()
next(generator)
def work():
    global relation
    relation = connection.sql(QUERY)
    sys.exit(3)
threading.Thread(target=work).start()
"""


def ended(base: Path, script: str) -> tuple[int, str]:
    """Its status, and what it said on standard error."""
    with of_its_own(SETUP + script, base, stderr=subprocess.PIPE) as program:
        _, said = program.communicate(timeout=60)
    return program.returncode, said


def test_a_script_may_leave_a_connection_open(tmp_path: Path) -> None:
    """With relations, a cursor, a generator and an error kept, also by another module, and with
    sys.exit in a thread."""
    assert ended(tmp_path, KEPT) == (0, "")


@pytest.mark.slow
def test_an_exception_ends_it_with_its_traceback_alone(tmp_path: Path) -> None:
    raising = "relation = connection.sql(QUERY)\nraise ValueError('the end')\n"
    status, said = ended(tmp_path, raising)
    assert status == 1
    assert said.splitlines()[-1] == "ValueError: the end"
