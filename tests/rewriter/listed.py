"""The constructs listed in ``fixtures/expressions.sql`` and ``statements.sql``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

__all__ = ["grouped", "listed"]

_FIXTURES = Path(__file__).with_name("fixtures")


def listed(name: str, verdict: Literal["answered", "refused"], dialect: str) -> list[str]:
    """The lines of a fixture under this verdict, for both dialects or this one."""
    lines = []
    for block in (_FIXTURES / name).read_text().strip().split("\n\n"):
        title, *own = block.splitlines()
        words = title.split()
        if words[1] == verdict and words[3] in ("both", dialect):
            lines += own
    return lines


def grouped(expression: str) -> str:
    return f"select {expression} as k, count(*) as n from person group by 1 having count(*) > 0"
