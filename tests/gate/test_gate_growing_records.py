"""More records than can be counted: the version before is served on, and nothing is lost."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tallyveil.cli.serving.schedule import publish_due
from tallyveil.cube.kept import slices
from tallyveil.errors import SourceError
from tests.gate.growing_visits import Visits, day, random_rows


@pytest.mark.parametrize("unit", ['"row"', '{ column = "pid", max_rows = 3 }'])
def test_a_day_that_makes_too_many_records_is_not_published(tmp_path: Path, unit: str) -> None:
    visits = Visits(tmp_path)
    visits.declare(
        unit=unit, data='append = "day", late = 0, arrived = "loaded", publish = 06:00:00'
    )
    rows = [row for row in random_rows(np.random.default_rng(1), 300) if row[3] == 0]
    visits.fill(rows)
    visits.publish(0)
    visits.publish(1)
    with visits.open() as connection:
        before = visits.counts(connection)
        most = sum(before.values())
        assert most > 0
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(slices, "MAX_RECORDS", most)
            for _ in range(2):
                with pytest.raises(SourceError, match=f"at most {most:,} records can be counted"):
                    visits.publish(2)
                with pytest.raises(SourceError, match="at most"):
                    publish_due(connection._gate, dt.datetime(2026, 1, 4, 7, tzinfo=dt.UTC))
            assert visits.counts(connection) == before == visits.counts()
            versions = "SELECT version, through FROM dp.versions ORDER BY version"
            assert connection.execute(versions).fetchall() == [(1, day(0)), (2, day(1))]
        with pytest.MonkeyPatch.context() as patch:
            more = most + sum(n == 2 for n, *_ in rows)
            patch.setattr(slices, "MAX_RECORDS", more)
            publish_due(connection._gate, dt.datetime(2026, 1, 4, 7, tzinfo=dt.UTC))
        assert connection.execute(versions).fetchall()[-1] == (3, day(2))
        if unit == '"row"':
            own = Counter((n, kind) for n, kind, *_ in rows if n <= 2)
            assert visits.counts(connection) == visits.counts() == own
