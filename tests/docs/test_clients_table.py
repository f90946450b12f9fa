"""docs/clients.md: each line names a test that there is, and each test of a client has a line."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")


def rows(part: str) -> list[str]:
    """Of the table of a part, its header aside."""
    return [line for line in part.splitlines() if line.startswith("| ")][1:]


def defined(file: Path) -> set[str]:
    return set(re.findall(r"^(?:async )?def (test_\w+)", file.read_text(), re.MULTILINE))


def test_each_client_has_a_test_and_each_test_a_line() -> None:
    clients, _, superset = DOCUMENT.partition("## Superset")
    named = [re.findall(r"`(test_clients_\w+\.py)::(test_\w+)` \|$", row) for row in rows(clients)]
    assert all(len(found) == 1 for found in named)
    files = (ROOT / "tests" / "clients").glob("test_*.py")
    assert {found[0] for found in named} == {(f.name, test) for f in files for test in defined(f)}
    named = [re.findall(r"`(test_\w+)` \|$", row) for row in rows(superset)]
    assert all(len(found) == 1 for found in named)
    assert {found[0] for found in named} == defined(ROOT / "tests" / "bi" / "test_superset.py")
