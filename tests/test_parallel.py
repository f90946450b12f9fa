"""Several runs at once: every test is run once, and no failure gets lost."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONFTEST = """
from tests.parallel import run_in_parallel

def pytest_runtestloop(session):
    run_in_parallel(session, 3)
    return True
"""
PASSING = """
import pytest

@pytest.mark.parametrize("number", range(20))
def test_it(number):
    with open("ran", "a") as file:
        file.write(f"{__name__} {number}\\n")
"""
FAILING = """
import os
import pytest

@pytest.fixture
def broken():
    yield
    raise ValueError("in a fixture")

def test_skipped():
    pytest.skip("on purpose")

def test_failing():
    print("a word printed")
    assert not "true"

def test_teardown(broken):
    pass

def test_dying():
    os._exit(0)
"""

LEAKING = """
class Leaking:
    def __del__(self):
        raise ValueError("when it is collected")

def test_it():
    one = Leaking()
    one.itself = one
"""


def run(folder: Path) -> tuple[int, str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "own.toml"]
    (folder / "own.toml").write_text('[tool.pytest.ini_options]\nfilterwarnings = "error"\n')
    (folder / "conftest.py").write_text(CONFTEST)
    # The run stands in another folder, and has to find this folder of tests.
    ended = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.returncode, ended.stdout + ended.stderr


def test_every_test_is_run_once(tmp_path: Path) -> None:
    names = [f"test_{letter}" for letter in "abcdefg"]
    for name in names:
        (tmp_path / f"{name}.py").write_text(PASSING)
    status, said = run(tmp_path)
    assert (status, re.findall(r"\d+ \w+ in", said)) == (0, ["140 passed in"]), said
    ran = (tmp_path / "ran").read_text().splitlines()
    assert sorted(ran) == sorted(f"{name} {number}" for name in names for number in range(20))


def test_failures_are_reported(tmp_path: Path) -> None:
    """The last test ends its process, and says that all is well."""
    (tmp_path / "test_a.py").write_text(PASSING)
    (tmp_path / "test_b.py").write_text(FAILING)
    status, said = run(tmp_path)
    assert status == 1
    assert "2 failed, 21 passed, 1 skipped, 1 error" in said
    for words in ("a word printed", "in a fixture", "a run of the tests ended with exit code 0"):
        assert words in said


def test_what_fails_after_the_last_test_is_reported(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(LEAKING)
    status, said = run(tmp_path)
    assert status == 1
    assert "a run of the tests ended with exit code 1" in said
