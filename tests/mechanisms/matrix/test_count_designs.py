"""Designed mechanisms against the program as the paper writes it, and their cache."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from tallyveil.audit.matrices import columns_of, tightest_alpha
from tallyveil.errors import InvalidParameterValue, StatementTooComplex
from tallyveil.mechanisms.matrix import designing
from tallyveil.mechanisms.matrix.count_matrix import CountMatrix
from tallyveil.mechanisms.matrix.design_cache import DesignCache
from tallyveil.mechanisms.matrix.designing import choose, design
from tallyveil.mechanisms.matrix.explicit import explicit_fair, geometric
from tallyveil.mechanisms.matrix.objective import Objective, score
from tallyveil.mechanisms.matrix.properties import (
    Property,
    closure,
    derivable_from_geometric,
    holds,
)

L0 = Objective()


def printed_program(n: int, alpha: float, asked: Sequence[str], objective: Objective) -> float:
    """COUNT eqs. 3–14 pair by pair, with no symmetry, margin or shortcut: the optimal value."""
    size = (n + 1) ** 2
    at = np.arange(size).reshape(n + 1, n + 1)
    inside, above = range(n + 1), []

    def at_least(big: tuple[int, int], small: tuple[int, int], factor: float = 1.0) -> None:
        row = np.zeros(size + 1)
        row[at[small]] += factor
        row[at[big]] -= 1
        above.append((row, 0.0))

    equal = []
    for i in inside:
        for j in inside:
            if j < n:
                at_least((i, j), (i, j + 1), alpha)
                at_least((i, j + 1), (i, j), alpha)
            if "RH" in asked:
                at_least((i, i), (i, j))
            if "CH" in asked:
                at_least((j, j), (i, j))
            if "RM" in asked and j != i:
                at_least((i, j + (1 if j < i else -1)), (i, j))
            if "CM" in asked and j != i:
                at_least((i + (1 if i < j else -1), j), (i, j))
            if "S" in asked:
                equal.append((at[i, j], at[n - i, n - j]))
        if "F" in asked:
            equal.append((at[0, 0], at[i, i]))
    a_eq = np.zeros((len(equal) + n + 1, size + 1))
    for r, (one, other) in enumerate(equal):
        a_eq[r, one] += 1
        a_eq[r, other] -= 1
    b_eq = np.zeros(len(a_eq))
    costs = np.zeros(size + 1)
    for j in inside:
        a_eq[len(equal) + j, at[:, j]] = 1
        b_eq[len(equal) + j] = 1
        row = np.zeros(size + 1)
        row[at[:, j]] = [float(objective.factors(n)[j]) * objective.loss(i, j) for i in inside]
        if objective.aggregate == "sum":
            costs += row
        else:
            costs[-1] = 1
            row[-1] = -1
            above.append((row, 0.0))
    low = np.zeros(size + 1)
    if "WH" in asked:
        low[np.diag(at)] = 1 / (n + 1)
    solution = linprog(
        costs,
        A_ub=np.array([row for row, _ in above]),
        b_ub=np.array([bound for _, bound in above]),
        A_eq=a_eq,
        b_eq=b_eq,
        bounds=np.column_stack([low, np.full(size + 1, np.inf)]),
    )
    assert solution.status == 0
    return float(solution.fun)


@st.composite
def objectives(draw: st.DrawFn, n: int) -> Objective:
    penalty = draw(st.sampled_from(["L0", "L1", "L2"]))
    return Objective(
        penalty,
        beyond=draw(st.integers(0, n)) if penalty == "L0" else 0,
        aggregate=draw(st.sampled_from(["sum", "max"])),
        weights=draw(
            st.none() | st.lists(st.integers(0, 5), min_size=n + 1, max_size=n + 1).filter(any)
        ),
    )


@given(st.data(), st.integers(1, 6), st.sets(st.sampled_from(list(Property))))
def test_a_design_has_what_was_asked_and_is_optimal(
    data: st.DataObject, n: int, asked: set[Property]
) -> None:
    alpha = data.draw(st.fractions(Fraction(1, 20), Fraction(99, 100), max_denominator=100))
    objective = data.draw(objectives(n))
    matrix = design(n, alpha, asked, objective)
    assert matrix.n == n
    assert tightest_alpha(columns_of(matrix), any_two=False) >= alpha
    assert all(holds(matrix, name) for name in closure(asked))
    best = printed_program(n, float(alpha), sorted(asked), objective)
    assert float(score(matrix, objective)) == pytest.approx(best, rel=2e-6, abs=2e-6)


@given(
    st.integers(1, 6),
    st.sampled_from(["0.3", "1/2", "0.62", "0.9", "0.97"]),
    st.sets(st.sampled_from(list(Property))),
)
def test_the_flowchart_loses_nothing(n: int, alpha: str, asked: set[Property]) -> None:
    """Figure 5: the few behaviours are as good as the program for exactly what was asked."""
    matrix = choose(n, alpha, asked)
    assert all(holds(matrix, name) for name in asked)
    best = printed_program(n, float(Fraction(alpha)), sorted(asked), L0)
    assert float(score(matrix, L0)) == pytest.approx(best, abs=2e-6)


def test_the_flowchart_prefers_closed_forms() -> None:
    assert choose(20, "10/11") == geometric(20, "10/11")
    assert choose(20, "10/11", ["WH", "RM"]) == geometric(20, "10/11")
    assert choose(5, "1/2", ["CM", "WH", "S"]) == geometric(5, "1/2")
    assert choose(5, "0.4", ["F"]) == explicit_fair(5, "0.4")
    assert choose(19, "10/11", ["WH"]).name.startswith("LP(")
    assert choose(1, "0.9", ["CM"]) == geometric(1, "0.9")


@pytest.mark.parametrize("asked", [["WH"], ["WH", "RM", "CM"]])
def test_weakly_honest_designs_do_not_derive_from_the_geometric_mechanism(asked: list[str]) -> None:
    # With column monotonicity there is one that does at n=2, unlike COUNT §IV-D says.
    for n, alpha in [(3, "0.9"), (4, "0.9"), (7, "0.9"), (10, "10/11")]:
        assert not derivable_from_geometric(design(n, alpha, asked))


def test_everything_at_a_hundred() -> None:
    matrix = design(100, "10/11", Property, Objective("L1"))
    assert all(holds(matrix, name) for name in Property)
    # 9.19996 by the dual simplex without a margin.
    assert float(score(matrix, Objective("L1"))) == pytest.approx(9.1999607, abs=1e-5)


def test_an_alpha_close_to_one_is_no_trouble() -> None:
    matrix = design(12, "0.999999", ["CM", "RM"], Objective("L1"))
    assert tightest_alpha(columns_of(matrix), any_two=False) >= Fraction("0.999999")


@pytest.mark.parametrize("n", [2, 5, 8])
def test_asymmetric_weights_are_not_made_symmetric(n: int) -> None:
    """Theorem 1 needs symmetric weights; forcing symmetry here would cost something."""
    skewed = Objective("L1", weights=[1] + [0] * n)
    assert score(design(n, "0.9", (), skewed), skewed) < score(
        design(n, "0.9", ["S"], skewed), skewed
    )


NONSENSE = [math.nan, math.inf, -math.inf, -1, "x"]


def test_objectives_are_checked() -> None:
    for weights in ([1, value, 1] for value in NONSENSE):
        with pytest.raises(InvalidParameterValue, match="weight"):
            Objective("L0", weights=weights)
    with pytest.raises(InvalidParameterValue, match="above zero"):
        Objective("L0", weights=[0, 0])
    with pytest.raises(InvalidParameterValue, match="as many weights"):
        design(3, "0.9", (), Objective("L0", weights=[1, 2]))
    for arguments in ({"penalty": "L3"}, {"aggregate": "mean"}, {"beyond": -1}, {"beyond": 1.5}):
        with pytest.raises(InvalidParameterValue):
            Objective(**arguments)
    with pytest.raises(InvalidParameterValue, match="for L0 only"):
        Objective("L1", beyond=2)


def test_what_cannot_be_designed_is_refused() -> None:
    with pytest.raises(StatementTooComplex, match="too many") as caught:
        design(151, "0.99", ["CM"])
    assert "Ask for property F" in str(caught.value)
    assert design(151, "0.99", ["F"]).name == "EM"
    with pytest.raises(StatementTooComplex, match="no mechanism was found within"):
        design(60, "0.99", ["CM"], time_limit=1e-9)
    for alpha in (*NONSENSE, 0, 1):
        with pytest.raises(InvalidParameterValue, match="alpha"):
            design(3, alpha)
    with pytest.raises(InvalidParameterValue, match="the largest possible count"):
        choose(0, "0.9")


def test_a_solver_that_the_time_limit_stops_is_not_replaced_by_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One stops a moment before its limit. A design must not depend on how fast the machine is."""
    stopped = []

    def stops(*arguments: Any, method: str, **options: Any) -> Any:
        stopped.append(method)
        if method != "highs-ipm":
            return linprog(*arguments, method=method, **options)
        return SimpleNamespace(status=1)

    monkeypatch.setattr("scipy.optimize.linprog", stops)
    with pytest.raises(StatementTooComplex, match="within the time limit"):
        design(4, "0.91", ["WH", "CM"])
    assert stopped == ["highs-ipm"]


@pytest.fixture
def cached(tmp_path: Path) -> tuple[DesignCache, CountMatrix, Path]:
    cache = DesignCache(tmp_path / "designs")
    matrix = design(4, "0.9", ["WH", "CM"], cache=cache)
    (file,) = (tmp_path / "designs").iterdir()
    return cache, matrix, file


def again(cache: DesignCache) -> CountMatrix:
    return design(4, "0.9", ["WH", "CM"], cache=cache)


def test_a_design_is_solved_once(
    cached: tuple[DesignCache, CountMatrix, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, matrix, _ = cached
    monkeypatch.setattr(designing, "solve", None)
    assert again(cache) == matrix
    with pytest.raises(TypeError):
        design(4, "0.91", ["WH", "CM"], cache=cache)


def rewrite(file: Path, weights: list[list[str]]) -> None:
    """What somebody who knows the format, but has no privacy to offer, would write."""
    stored = json.loads(file.read_text())
    digest = hashlib.sha256(json.dumps(weights, sort_keys=True).encode()).hexdigest()
    file.write_text(json.dumps({**stored, "weights": weights, "sha256": digest}))


def identity(size: int) -> list[list[str]]:
    return [["1" if i == j else "0" for i in range(size)] for j in range(size)]


def hexadecimal(matrix: CountMatrix) -> list[list[str]]:
    return [[format(weight, "x") for weight in column] for column in matrix.weights]


@pytest.mark.parametrize(
    "weights",
    [
        identity(5),
        identity(4),
        hexadecimal(geometric(4, "0.9")),  # private, but neither WH nor CM
        hexadecimal(explicit_fair(3, "0.9")),  # for another n
        hexadecimal(explicit_fair(4, "0.5")),  # less private
        [["1", "1"]] * 5,
        [["1", "1"]] * 1002,
        [["zz"] * 5] * 5,
        [],
        [[1.5] * 5] * 5,
    ],
)
def test_a_cache_is_never_trusted(
    cached: tuple[DesignCache, CountMatrix, Path], weights: list[list[str]]
) -> None:
    cache, matrix, file = cached
    whole = file.read_text()
    rewrite(file, weights)
    assert again(cache) == matrix
    assert file.read_text() == whole


def test_a_damaged_file_is_solved_again(cached: tuple[DesignCache, CountMatrix, Path]) -> None:
    cache, matrix, file = cached
    whole = file.read_bytes()
    places = range(0, len(whole), 97)
    for damaged in (
        b"",
        whole[:-20],
        b"\xff\x00",
        b"[]",
        b"null",
        b"[" * 10**5,
        *(whole[:p] for p in places),
    ):
        file.write_bytes(damaged)
        assert cache.load(json.loads(whole)["key"], "x", Fraction(9, 10)) is None
    flipped = bytearray(whole)
    flipped[whole.index(b'"weights"', whole.index(b"sha256")) + 16] ^= 1
    file.write_bytes(bytes(flipped))
    assert again(cache) == matrix
    assert file.read_bytes() == whole


def test_a_cache_keeps_the_designs_stored_last(tmp_path: Path) -> None:
    cache = DesignCache(tmp_path / "designs", size=2)
    for n in (3, 4, 5):
        design(n, "0.9", ["WH", "CM"], cache=cache)
    kept = {json.loads(file.read_bytes())["key"]["n"] for file in cache.directory.iterdir()}
    assert kept == {4, 5}


def test_a_cache_that_cannot_be_written_does_not_matter(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    matrix = design(4, "0.9", ["WH"], cache=DesignCache(tmp_path / "file"))
    assert matrix == design(4, "0.9", ["WH"])
    assert "could not cache" in caplog.text


def test_the_cache_is_where_the_user_keeps_caches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if (tmp_path / "tallyveil" / "designs") != DesignCache().directory:
        pytest.skip("this system has no XDG directories")
