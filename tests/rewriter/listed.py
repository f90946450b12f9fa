"""The constructs listed in ``fixtures/expressions.sql`` and ``statements.sql``."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from tests.rewriter.world import DOMAIN

__all__ = ["GROUPED", "grouped", "listed", "statements"]

# An expression to group by.
GROUPED = "select {} as k, count(*) as n from person group by 1 having count(*) > 0"

_FIXTURES = Path(__file__).with_name("fixtures")
_NAMES = re.compile(rf"\b({'|'.join(attribute.name for attribute in DOMAIN.attributes)})\b")
_TOGETHER = 6


def grouped(expressions: Sequence[str], *, named: bool) -> Iterator[str]:
    """Statements that group by a few expressions of the same attributes each, so that their groups
    are no more than these attributes' values; with names for the columns, or without."""
    alike = defaultdict(list)
    for one in expressions:
        alike[frozenset(_NAMES.findall(one))].append(one)
    for own in alike.values():
        for start in range(0, len(own), _TOGETHER):
            some = own[start : start + _TOGETHER]
            keys = ", ".join(f"{one} as k{n}" if named else one for n, one in enumerate(some))
            by = ", ".join(map(str, range(1, len(some) + 1)))
            yield f"select {keys}, count(*) as n from person group by {by} having count(*) > 0"


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
