"""What other rows are compared by: errors by formula, against dense algebra and the solver."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tallyveil.gate.strategies import instead
from tallyveil.gate.strategies.groupings import _haar, groupings
from tallyveil.gate.strategies.ordered import ordered
from tallyveil.gate.strategies.other_rows import Asked, Family
from tallyveil.gate.strategies.parts import parts
from tallyveil.knowledge.estimator import Estimator
from tallyveil.knowledge.system import ANY_WORK, System
from tallyveil.mechanisms.measure import Measure
from tallyveil.workload.workload import Column, Factor
from tests.gate.one_ledger import Open, on_one_ledger
from tests.gate.test_gate_parts import plan

SIZES = {"a": 6, "b": 5, "c": 4}
MEASURES = pytest.mark.parametrize("measure", ["epsilon", "rho"])


def rows(axis: str, matrix: npt.ArrayLike) -> Factor:
    found = np.array(matrix, dtype=np.int64)
    at, cells = np.nonzero(found)
    shape = (SIZES[axis],)
    return Factor((axis,), shape, len(found), at, cells, found[at, cells])


def dense(column: Column) -> npt.NDArray[np.int64]:
    """By brute force, over all cells of a, b and c in this order."""
    own = {axis: np.ones((1, size), dtype=np.int64) for axis, size in SIZES.items()}
    own.update({one.axes[0]: one.dense() for one in column.factors})
    order = [*(one.axes[0] for one in column.factors)]
    order += [axis for axis in SIZES if axis not in order]
    found = np.ones((1, 1), dtype=np.int64)
    for axis in order:
        found = np.kron(found, own[axis])
    shape = [SIZES[axis] for axis in order]
    found = found.reshape(-1, *shape).transpose(0, *(1 + order.index(axis) for axis in SIZES))
    return found.reshape(len(found), -1)[column.numbers]


A, B, C = (rows(axis, np.eye(size)) for axis, size in SIZES.items())
PAIRS = rows("a", np.kron(np.eye(3), [1, 1]))
FIVE = rows("a", np.eye(6)[[4, 0, 1, 3]])  # a WHERE leaves cells out, and the order differs
PREFIXES = rows("a", np.tril(np.ones((6, 6))))
HALF = rows("a", [[1, 1, 1, 0, 0, 0]])
LAST = rows("a", [[0, 0, 1, 1, 1, 1]])
ASKED: dict[str, tuple[Family, list[tuple[Factor, ...]]]] = {
    "marginals": (groupings, [(B, A), (A, C), (C, B)]),
    "a rollup of blocks": (groupings, [(A, B), (PAIRS, B), (PAIRS,), ()]),
    "of some cells": (groupings, [(FIVE, C), (FIVE,), (rows("a", FIVE.dense().sum(0)[None]), C)]),
    "prefixes": (ordered, [(PREFIXES,)]),
    "grouped prefixes": (ordered, [(B, PREFIXES)]),
    "single counts": (ordered, [(rows("a", [own]),) for own in np.tril(np.ones((6, 6)))]),
    "filters": (parts, [(HALF,), (LAST,), ()]),
    "grouped filters": (parts, [(B, HALF), (B, LAST), (B,)]),
}


@MEASURES
@pytest.mark.parametrize("name", ASKED)
def test_errors_are_those_of_the_best_estimates(name: str, measure: Measure) -> None:
    family, factors = ASKED[name]
    columns = tuple(map(Column, factors))
    found = family(Asked(columns, tuple(SIZES), len(columns), measure, "total"))
    if found is None:
        assert (family, measure) == (groupings, "epsilon")  # no union gains
        return
    assert found.errors is not None
    like = np.array(found.like or [1.0] * len(found.columns))
    noise = (like / like.max()) ** 2 * 3.7
    heights = [column.height for column in found.columns]
    bought = np.concatenate([*map(dense, found.columns)])
    precision = (bought / np.repeat(noise, heights)[:, None]).T @ bought
    inverse = np.linalg.pinv(precision, rcond=1e-10, hermitian=True)
    for column, errors in zip(columns, found.errors(noise.tolist()), strict=True):
        own = dense(column)
        assert own @ inverse @ precision == pytest.approx(own, abs=1e-6)
        assert errors == pytest.approx(((own @ inverse) * own).sum(axis=1), rel=1e-6)


@pytest.mark.parametrize("number", [*range(2, 33), 100, 365])
def test_contrasts_are_orthogonal_and_nearly_equally_long(number: int) -> None:
    own, shares = _haar(number, 1024)
    gram = own @ own.T
    squares = np.diag(gram).astype(np.float64)
    assert (gram == np.diag(np.diag(gram))).all()
    assert shares == pytest.approx(((own / squares[:, None]) ** 2).sum(axis=0))
    # As if all had one length, a value would cost (1 − 1/n)/σ² and have the variance (1 − 1/n) σ².
    cost = float((own.astype(np.float64) ** 2).sum(axis=0).max())
    assert 1 - 1e-12 < cost * shares.max() / (1 - 1 / number) ** 2 < 1.002


RECORD = "i % 12 AS a, (i * 7) % 3 AS b"
ATTRIBUTES = {"a": {"range": [0, 11]}, "b": {"range": [0, 2]}}
OVERLAP = (
    "SELECT count(*) FILTER (WHERE a < 8) AS n, count(*) FILTER (WHERE a > 3) AS m FROM person"
)
STATEMENTS = [
    OVERLAP,
    "SELECT count(*) FILTER (WHERE a < 8) AS n, count(*) FILTER (WHERE a < 3) AS m FROM person",
    "SELECT b, count(*) FILTER (WHERE a < 8) AS n, count(*) AS m FROM person GROUP BY b",
    "SELECT a, b, count(*) FROM person GROUP BY GROUPING SETS ((a), (b))",
    "SELECT count(*) FILTER (WHERE a % 2 = 0) AS n, count(*) FILTER (WHERE b = 0) AS m,"
    " count(*) FILTER (WHERE a < 5) AS k FROM person",
]
BUDGETS: list[dict[str, Any]] = [{"epsilon": 100.0}, {"rho": 100.0, "delta": 1e-9}]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    with on_one_ledger(tmp_path, "person", RECORD, ATTRIBUTES) as opened:
        yield opened


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("budget", BUDGETS, ids=["epsilon", "rho"])
def test_bounds_change_nothing_that_is_bought(
    opened: Open, budget: dict[str, Any], neighbours: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = opened(budget, neighbours=neighbours)
    measure = next(iter(budget))
    each = itertools.product(STATEMENTS, ["auto", "total", "worst"], ["1", "0.1"])
    for sql, objective, cost in each:
        connection.execute(f"SET dp.objective = {objective}")
        connection.execute(f"SET dp.{measure} = {cost}")
        before = plan(connection, sql)
        with monkeypatch.context() as patched:
            patched.setattr(instead, "_KEPT", type(instead._KEPT)(8))
            patched.setattr(instead, "_least", lambda *_: None)
            assert plan(connection, sql) == before


def test_what_cannot_gain_is_not_solved(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = opened(BUDGETS[1])
    solved = list[object]()
    follow = Estimator.follow

    def noted(self: Estimator, *asked: Any, **more: Any) -> Any:
        solved.append(asked)
        return follow(self, *asked, **more)

    monkeypatch.setattr(Estimator, "follow", noted)
    assert "instead of" not in plan(connection, OVERLAP)
    assert not solved
    assert "by parts, instead of" in plan(connection, STATEMENTS[1])
    assert solved


SIXTEENTHS = {name: {"range": [0, 15]} for name in "abc"}
CONTRASTS = [
    "SELECT count(*) FROM person GROUP BY GROUPING SETS ((a, b), (a, c), (b, c))",
    "SELECT count(*) FROM person WHERE a < 4 GROUP BY ROLLUP (a, b, c)",
    "SELECT count(*) FROM person WHERE a < 12 AND b <> 3 GROUP BY GROUPING SETS ((a, b), (b, c))",
    "SELECT a // 4, b, count(*) FROM person GROUP BY GROUPING SETS ((a // 4, b), (a, b), (b))",
]


@pytest.mark.parametrize("sql", CONTRASTS)
def test_contrasts_that_are_not_solved_determine_every_row(
    tmp_path: Path, sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planning takes contrasts' errors from their form: the solver, asked for all rows, agrees."""
    by_formula, errors, asked = System.by_formula, System.errors, list[bool]()

    def noted(state: Any, others: Any, columns: Any, work: int) -> bool:
        asked.append(by_formula(state, others, columns, work))
        return asked[-1]

    def all_solved(self: Estimator, columns: Any, others: Any, laws: Any, *more: Any) -> Any:
        found = errors(self._state, others, laws, columns, ANY_WORK)
        assert found is not None
        for own, each in zip(found, more[1], strict=True):
            assert own == pytest.approx(each, rel=1e-9)
        return follow(self, columns, others, laws, *more, orthogonal=True)

    follow = Estimator.follow
    monkeypatch.setattr(System, "by_formula", staticmethod(noted))
    records = "i % 16 AS a, i * 3 % 16 AS b, i * 5 % 16 AS c"
    with on_one_ledger(tmp_path, "person", records, SIXTEENTHS) as opened:
        connection = opened(BUDGETS[1])
        with monkeypatch.context() as patched:
            patched.setattr(Estimator, "follow", lambda s, *own, **_: all_solved(s, *own))
            assert "by groupings, instead of" in plan(connection, sql)
        assert asked
        assert all(asked)
        every = connection.execute(sql).fetchall()
        assert {type(row[-1]) for row in every} == {int}
        assert connection.execute(sql).fetchall() == every
