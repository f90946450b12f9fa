"""How long a statement may become when what it names is written out."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from tallyveil import deadline
from tallyveil.errors import StatementTooComplex

__all__ = ["MAX_NODES", "Size"]

MAX_NODES: Final = 50_000


class Size:
    """The nodes written out so far, of ``what``; ``hint`` says how there would be fewer."""

    def __init__(self, what: str, hint: str) -> None:
        self._what = what
        self._hint = hint
        self._nodes = 0

    def add(self, *parts: exp.Expr) -> None:
        deadline.check()
        for part in parts:
            for _ in part.walk():
                self.count(1)

    def count(self, nodes: int) -> None:
        """Raises StatementTooComplex beyond MAX_NODES."""
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise StatementTooComplex(
                f"{self._what}, written out, have more than {MAX_NODES} parts", hint=self._hint
            )
