"""Statements that take long, and that are stopped soon."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from psycopg.errors import QueryCanceled

# Meant are 0.2 s, but a loaded machine takes longer. Without a cancel each of these takes from ten
# minutes to hours.
SOON = 60.0

SLEEPING = "SELECT current_user FROM pg_sleep(600), pg_am"

# It looks for no signal while it searches, which takes hours.
UNHEEDING = (
    "SELECT position('b' || repeat('a', 300000) IN repeat(left(amtype, 0) || 'a', 30000000))::text "
    "FROM pg_am"
)


def canceled(running: Future[Any]) -> str:
    """Why a statement was cancelled, which it was soon."""
    with pytest.raises(QueryCanceled) as why:
        running.result(SOON)
    return str(why.value)
