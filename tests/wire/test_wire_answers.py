"""What a client receives: rows, types, costs, errors, through psycopg over TCP."""

from __future__ import annotations

from typing import Any

import pytest


def test_parameters(house: Any) -> None:
    with house.connect() as connection:
        literal = connection.execute(
            "SELECT count(*) FROM person WHERE age = 30 AND state = 'AL'"
        ).fetchall()
        for binary in (False, True):
            bound = connection.execute(
                "SELECT count(*) FROM person WHERE age = %s AND state = ANY(%s)",
                (30, ["AL"]),
                binary=binary,
            ).fetchall()
            assert bound == literal
    assert house.spent() == pytest.approx(0.05)
