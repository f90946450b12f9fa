"""The benchmark of the wire runs, and its ratios are there to be read."""

from __future__ import annotations

import itertools
import json
import sys

import pytest

from bench import catalog, wire


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_rates_beside_postgresql_are_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "lasting": lambda _: ["-t", "150"],
        "groups": lambda: itertools.repeat("SELECT a, d, count(*) FROM person GROUP BY a, d"),
        "ROUNDS": 1, "ROWS": 1_000, "IDLE": 20, "MODES": ("extended", "prepared"),
        "CONNECTIONS": (2,), "WORKERS": (1,),
    }.items():  # fmt: skip
        monkeypatch.setattr(wire, name, value)
    monkeypatch.setattr(catalog, "ROUNDS", 3)
    monkeypatch.setattr(catalog, "MANY", 12)
    wire.main()
    every = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    lines = [line for line in every if "target" not in line]
    assert len(every) - len(lines) == 3 + 2 + 3 + 1
    theirs, ours, repeated = lines[3:6]
    assert [one["case"] for one in lines[6:9]] == ["prepared"] * 3
    idle, beside, catalogs, describe = lines[9], lines[10], lines[11:-1], lines[-1]
    assert theirs["x_per_second"] == 1
    assert min(ours["x_per_second"], repeated["x_per_second"]) > 0
    assert repeated["x_cpu"] is None or repeated["x_cpu"] >= 0
    assert idle["mb"] < 20  # 500 may take 100
    assert beside["x_alone"] > 0
    assert all("over_ms" in one for one in catalogs)
    assert 0 < describe["ms"] < 1_000
