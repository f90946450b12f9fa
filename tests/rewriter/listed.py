"""The constructs listed in ``fixtures/expressions.sql`` and ``statements.sql``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

__all__ = ["GROUPED", "UNNAMED", "listed", "statements"]

# An expression to group by, without a name of its own and with one.
UNNAMED = "select {}, count(*) as n from person group by 1 having count(*) > 0"
GROUPED = "select {} as k, count(*) as n from person group by 1 having count(*) > 0"

_FIXTURES = Path(__file__).with_name("fixtures")


def listed(name: str, verdict: Literal["answered", "refused"], dialect: str) -> list[str]:
    """The lines of a fixture under this verdict, for both dialects or this one."""
    lines = []
    for block in (_FIXTURES / name).read_text().strip().split("\n\n"):
        title, *own = block.splitlines()
        for part in title.removeprefix("-- ").split(" and "):
            found, _, where, *_ = part.split()
            if found == verdict and where in ("both", dialect):
                lines += own
    return lines


def statements(name: str) -> tuple[list[str], list[str]]:
    """The lines of a fixture under "answered", and those under "refused"."""
    answered, refused = list[str](), list[str]()
    for block in (_FIXTURES / name).read_text().strip().split("\n\n"):
        title, *own = block.splitlines()
        (refused if title.startswith("-- refused") else answered).extend(own)
    return answered, refused
