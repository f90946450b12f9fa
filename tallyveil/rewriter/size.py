"""How long a statement may become when what it names is written out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sqlglot import exp

from tallyveil.errors import StatementTooComplex

__all__ = ["MAX_NODES", "Size"]

MAX_NODES: Final = 50_000


class Size:
    """The nodes written out so far, of ``what``; ``hint`` says how there would be fewer.

    ``check`` is called now and then, to end what takes too long.
    """

    def __init__(self, what: str, hint: str, check: Callable[[], None] = lambda: None) -> None:
        self._check = check
        self._what = what
        self._hint = hint
        self._nodes = 0

    def add(self, *parts: exp.Expr) -> None:
        self._check()
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
