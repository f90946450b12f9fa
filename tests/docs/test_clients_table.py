"""docs/clients.md: each line names a test that there is, and each test of a client has a line."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_each_client_has_a_test_and_each_test_a_line() -> None:
    document = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
    rows = [line for line in document.splitlines() if line.startswith("| ")][1:]
    named = [re.findall(r"`(test_clients_\w+\.py)::(test_\w+)` \|$", row) for row in rows]
    assert all(len(found) == 1 for found in named)
    there = {
        (file.name, test)
        for file in (ROOT / "tests" / "clients").glob("test_*.py")
        for test in re.findall(r"^(?:async )?def (test_\w+)", file.read_text(), re.MULTILINE)
    }
    assert {found[0] for found in named} == there
