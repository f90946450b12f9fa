"""How tests of the gate ask: by connections to one table, whose budget says what was charged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tallyveil

Connect = Callable[..., tallyveil.Connection]
"""The fixture `connect`: its keyword arguments go into the table's declaration."""


def spent(connection: tallyveil.Connection) -> float:
    """By the first table's budget."""
    return float(connection.budget()[0]["spent"])


def ask(connection: tallyveil.Connection, sql: str, **settings: object) -> list[tuple[Any, ...]]:
    """The rows, once these settings of dp are made, which stay."""
    for name, value in settings.items():
        connection.execute(f"SET dp.{name} = {value}")
    return connection.execute(sql).fetchall()
