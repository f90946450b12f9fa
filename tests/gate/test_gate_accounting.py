"""What max_rows keeps of the records of a unit that has more."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pyarrow as pa

import tallyveil


def test_max_rows_keeps_a_trend_and_the_share_of_each_ward(
    tmp_path: Path,
) -> None:
    """A unit's rows are in the order of time, there are more of them each year, and max_rows leaves
    out most.

    The oracle is the share max_rows / n of the rows of a unit that has n > max_rows, spread evenly:
    what a year or a ward is expected to keep. By Hoeffding's inequality the sum of what units keep,
    each between 0 and max_rows, is within √(units · max_rows² · ln(2 · 10⁸) / 2) of it with a
    probability of 1 − 10⁻⁸; the noise has an interval at 1 − 10⁻⁷.
    """
    units, most = 2000, 3
    years, wards = range(2020, 2026), range(5)
    # Unit i has 4 to 12 visits; the k-th from the end is in year 2025 − k(k + 1)/8, cut at 2020.
    visits = [
        (unit, max(2020, 2025 - k * (k + 1) // 8), (unit + k) % 5)
        for unit in range(units)
        for k in range(4 + unit % 9)[::-1]
    ]
    table = pa.table(dict(zip(("patient", "year", "ward"), zip(*visits, strict=True), strict=True)))
    rows = Counter(unit for unit, _, _ in visits)
    expected: Counter[tuple[str, int]] = Counter()
    for unit, year, ward in visits:
        for key in (("year", year), ("ward", ward)):
            expected[key] += min(1, Fraction(most, rows[unit]))
    policy = tallyveil.parse_policy(
        {
            "tables": {
                "visit": {
                    "budget": {"epsilon": 10},
                    "privacy_unit": {"column": "patient", "max_rows": most},
                    "attributes": {
                        "year": {"range": [years[0], years[-1]]},
                        "ward": {"values": list(wards)},
                    },
                }
            },
            "defaults": {"epsilon": 5, "confidence": 1 - 1e-7},
        },
        base=tmp_path,
    )
    spread = (units * most**2 * math.log(2e8) / 2) ** 0.5
    with tallyveil.connect(policy, source=table) as connection:
        for axis, values in (("year", years), ("ward", wards)):
            query = (
                f"SELECT {axis}, count(*) AS n, dp_interval_high(n) AS high"
                f" FROM visit GROUP BY {axis} ORDER BY {axis}"
            )
            answers = connection.execute(query).fetchall()
            assert [value for value, _, _ in answers] == list(values)
            for value, n, high in answers:
                assert abs(n - expected[axis, value]) < spread + (high - n)
            if axis == "year":
                trend = [n for _, n, _ in answers]
    # The years differ by far more than that, so a trend that is turned round would be noticed.
    assert expected["year", 2025] > expected["year", 2022] + 3 * spread
    assert trend[-1] > trend[2]
