"""The picture of docs/architecture.md of where a statement comes by."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import duckdb
import psycopg
import pytest

import tallyveil
from tallyveil.gate import Gate
from tallyveil.proxy import Server, ServerThread
from tests.test_rooms import ARCHITECTURE, PACKAGE

_, LIFE = re.findall(r"```mermaid\n(.*?)```", ARCHITECTURE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def visited() -> Iterator[list[str]]:
    """The files of the package, one after the other, in which threads that start now call."""
    found: list[str] = []
    root = str(PACKAGE) + "/"

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        name = frame.f_code.co_filename.replace("\\", "/")
        if event == "call" and name.startswith(root) and found[-1:] != [name[len(root) :]]:
            found.append(name[len(root) :])

    threading.setprofile(profile)
    yield found
    threading.setprofile(None)


def test_a_statement_comes_by_the_files_of_the_picture(visited: list[str], tmp_path: Path) -> None:
    table = {
        "from": "people",
        "budget": {"epsilon": 1.0},
        "attributes": {"state": {"values": ["AL", "AK"]}},
    }
    policy = tallyveil.parse_policy({"tables": {"person": table}}, base=tmp_path)
    with duckdb.connect() as source:
        source.execute("CREATE TABLE people AS SELECT 'AL' AS state FROM range(100)")
        gate = Gate(policy, source)
    try:
        with (
            ServerThread(Server(gate.session, port=0)) as server,
            psycopg.connect(f"postgresql://a@127.0.0.1:{server.port}/p", autocommit=True) as client,
        ):
            client.execute("SELECT 1")
            visited.clear()
            client.execute("SELECT state, count(*) FROM person GROUP BY state").fetchall()
    finally:
        gate.close()
    drawn = re.findall(r'\["([\w/]+\.py): ', LIFE)
    assert len(drawn) > 20
    later = iter(visited)
    assert [name for name in drawn if name not in later] == [], "not there, or not after the others"


def test_files_that_documents_name_are_there() -> None:
    """Wherever in the repository, if the end of the path is right."""
    root = PACKAGE.parent
    there = {f"/{path.relative_to(root).as_posix()}" for path in root.rglob("*.py")}
    documents = [root / "README.md", root / "CONTRIBUTING.md", *(root / "docs").rglob("*.md")]
    named = {
        (document.name, name)
        for document in documents
        for name in re.findall(r"`([\w/]+\.py)`", document.read_text(encoding="utf-8"))
        if "NAME" not in name
    }
    assert len(named) > 40
    assert not [each for each in named if not any(path.endswith(f"/{each[1]}") for path in there)]
