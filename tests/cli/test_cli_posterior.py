"""`tallyveil history --posterior`: against the laws of the noise, and free."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tallyveil.gate import Gate
from tallyveil.inference import DiscreteLaplaceLaw
from tallyveil.policy import load_policy
from tests.cli.shell import shell, spent

WOMEN = "SELECT count(*) AS n FROM person WHERE sex = 'F'"
BY_SEX = "SELECT sex, count(*) AS n FROM person GROUP BY sex"


def posterior(policy: Path, query: str, *more: object) -> list[dict[str, Any]]:
    found = shell("history", policy, "--posterior", query, "--json", *more)
    assert found.exit_code == 0, found.stdout + found.stderr
    rows: list[dict[str, Any]] = json.loads(found.stdout)
    return rows


def test_an_answer_of_its_own_has_the_law_of_its_noise(policy: Path) -> None:
    [[value]] = json.loads(shell("sql", policy, WOMEN, "--epsilon", "0.1", "--json").stdout)["rows"]
    [row] = posterior(policy, WOMEN, "--confidence", "0.9")
    assert row["of"] == "n"
    assert row["answer"] == value
    assert row["stddev"] == pytest.approx(math.sqrt(DiscreteLaplaceLaw(10.0).variance))
    half = DiscreteLaplaceLaw(10.0).half_width(0.9)
    assert (row["low"], row["high"]) == (value - half, value + half)
    assert row["quantiles"]["0.5"] == value
    # P(|K| ≤ h) ≥ 0.9 leaves 0.05 on either side.
    assert row["quantiles"]["0.05"] == value - half
    assert row["quantiles"]["0.95"] == value + half
    assert spent(policy) == 0.1


def test_nothing_is_bought(policy: Path) -> None:
    found = shell("history", policy, "--posterior", BY_SEX)
    assert found.exit_code == 0
    assert "NULL: the answers so far do not determine it." in found.stdout
    assert [row["answer"] for row in posterior(policy, BY_SEX)] == [None] * 4
    assert spent(policy) == 0


def test_answers_are_combined(policy: Path) -> None:
    """Of four groups and their total, each of variance v: of a group, v less v/5."""
    shell("sql", policy, BY_SEX, "--epsilon", "0.1")
    shell("sql", policy, "SELECT count(*) FROM person", "--epsilon", "0.10001")
    rows = posterior(policy, BY_SEX)
    assert [row["group"] for row in rows] == [{"sex": s} for s in ("F", "M", "other", None)]
    one = DiscreteLaplaceLaw(10.0).variance
    for row in rows:
        assert row["stddev"] == pytest.approx(math.sqrt(one * 4 / 5), rel=1e-3)
        assert row["low"] < row["quantiles"]["0.05"] < row["quantiles"]["0.25"] < row["answer"]
        assert row["answer"] - row["quantiles"]["0.05"] == pytest.approx(
            row["quantiles"]["0.95"] - row["answer"]
        )


def test_a_sum_is_in_its_own_units(policy: Path) -> None:
    tenths = "SELECT sum(age / 10.0) AS t FROM person WHERE age IS NOT NULL"
    value = json.loads(shell("sql", policy, tenths, "--json").stdout)["rows"][0][0]
    [row] = posterior(policy, tenths)
    assert row["answer"] == pytest.approx(value)
    assert row["low"] <= value <= row["high"]
    assert row["stddev"] > 100


def test_a_count_with_a_public_range(policy: Path) -> None:
    one = "SELECT count(*) FROM person WHERE age = 90 AND state = 'VT'"
    gate = Gate(load_policy(policy))
    session = gate.session("alice", "people")
    session.set("dp.mechanism", "fair(n=20)")
    session.set("dp.epsilon", "0.5")
    [statement] = session.parse(one)
    [[value]] = session.execute(statement).rows
    [belief] = session.posteriors(one)
    gate.close()
    assert belief.known is not None
    below = 0.0
    for count in range(21):
        below += belief.known.probability(count, count)
        if below >= 0.5:
            assert belief.quantile(0.5) == count
            break
    low, high = belief.interval(Fraction(95, 100))
    assert 0 <= low <= value <= high <= 20


def test_groups_of_several_sets_stand_apart(policy: Path) -> None:
    """Where a query would add the coarser ones up, each has its own estimate here."""
    both = "SELECT sex, count(*) FROM person GROUP BY ROLLUP(sex)"
    shell("sql", policy, both)
    rows = posterior(policy, both)
    assert len(rows) == 5
    assert rows[-1]["answer"] == pytest.approx(sum(row["answer"] for row in rows[:-1]))
