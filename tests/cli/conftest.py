"""The example policy, over two thousand of the demo's people."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tallyveil.cli.demo_data import copy_example, write_people


@pytest.fixture(scope="session")
def _people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("people") / "people.parquet"
    write_people(path, 2_000)
    return path


@pytest.fixture
def policy(_people: Path, tmp_path: Path) -> Path:
    shutil.copy(_people, tmp_path)
    return copy_example(tmp_path)
