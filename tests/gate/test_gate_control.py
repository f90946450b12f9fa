"""Inference control: what is refused, what stays possible, and that it looks at no record."""

from __future__ import annotations

import itertools
import math
import time
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pytest
from scipy import sparse

import tallyveil
from tallyveil.gate.deciding.control import _at_least
from tallyveil.inference import DiscreteLaplaceLaw, ErrorLaw, Noises
from tallyveil.knowledge import Precision, Preview
from tallyveil.knowledge.recorded.column_store import may_nest
from tallyveil.mechanisms import CountMechanism, mechanism
from tallyveil.workload.workload import Column
from tests.accountant.ledgers import recorded_answers
from tests.gate.asking import Connect, ask, spent
from tests.inference.exact import best_combination
from tests.inference.test_fit import some_history

LIMIT = {"min_half_width": 5}

WHOLE = "SELECT count(*) AS n, dp_interval_low(n), dp_interval_high(n) FROM person"
WOMEN = f"{WHOLE} WHERE sex = 'F'"


@pytest.fixture
def controlled(connect: Connect) -> Connect:
    def make(**control: object) -> tallyveil.Connection:
        return connect(budget={"epsilon": 1000}, inference_control={**LIMIT, **control})

    return make


def refused(connection: tallyveil.Connection, sql: str) -> tallyveil.TallyveilError:
    """Why; and it costs nothing."""
    before = spent(connection)
    with pytest.raises(tallyveil.TallyveilError) as caught:
        connection.execute(sql)
    assert caught.value.sqlstate == "42501"
    assert spent(connection) == before
    return caught.value


def verdict(connection: tallyveil.Connection, sql: str) -> str | None:
    """The SQLSTATE of a refusal."""
    try:
        connection.execute(sql)
    except tallyveil.TallyveilError as error:
        return error.sqlstate
    return None


STATEMENTS = (
    ("4", WOMEN),
    ("7", "SELECT sex, count(*) FROM person GROUP BY sex"),
    ("5", "SELECT state, count(*) FROM person GROUP BY state"),
    ("5", WHOLE),
    ("10", "SELECT sex, state, count(*) FROM person GROUP BY 1, 2"),
    ("2", "SELECT count(*) FILTER (WHERE age < 3), count(*) FILTER (WHERE age < 2) FROM person"),
    ("20", "SELECT sum(age) FROM person"),
    ("0.5", WHOLE),
)


def the_verdicts(connection: tallyveil.Connection) -> list[str]:
    found = []
    for half, sql in STATEMENTS:
        connection.execute(f"SET dp.half_width = {half}")
        try:
            connection.execute(sql)
            found.append(f"{spent(connection):.9g}")
        except tallyveil.TallyveilError as error:
            found.append(f"{error}")
    return found


def test_people_make_no_difference(
    controlled: Connect, source: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    connection = controlled()
    full = the_verdicts(connection)
    connection.close()
    (tmp_path / "tallyveil.ledger.sqlite").unlink()
    source.execute("DELETE FROM people")
    assert the_verdicts(controlled()) == full
    assert any("inference control" in verdict for verdict in full)
    assert not all("inference control" in verdict for verdict in full)


@pytest.mark.parametrize("seed", range(2))
def test_nothing_bought_is_known_more_precisely(controlled: Connect, seed: int) -> None:
    """By an estimator of its own, over all cells of two attributes: every row that was bought,
    and every difference of two nested ones."""
    connection = controlled()
    random = np.random.default_rng(seed)
    for _ in range(12):
        states = random.choice(["'AL'", "'AK'", "'WY'"], random.integers(1, 4), replace=False)
        sexes = random.choice(["'F'", "'M'", "'other'"], random.integers(1, 4), replace=False)
        connection.execute(f"SET dp.half_width = {random.integers(5, 12)}")
        sql = (
            f"SELECT count(*) FROM person WHERE state IN ({', '.join(states)})"
            f" AND sex IN ({', '.join(sexes)})"
        )
        assert verdict(connection, sql) in (None, "42501")
    rows, noises = the_answers(connection)
    assert len(rows) > 3
    history = sparse.csr_matrix(rows)
    queries = {tuple(row) for row in rows.tolist()}
    for a, b in itertools.permutations(list(queries), 2):
        queries |= {tuple(np.subtract(a, b).tolist())} if (np.array(a) >= b).all() else set()
    for query in queries:
        weights = best_combination(history, noises.variances, np.array(query))
        assert weights is not None
        assert ErrorLaw(weights, noises).half_width(0.95) >= 5 * (1 - 1e-5)


def the_answers(connection: tallyveil.Connection) -> tuple[np.ndarray, Noises]:
    """The recorded rows over state × sex, with their noises."""
    shape = {"state": 5, "sex": 3}
    rows, scales = [], []
    for answer in recorded_answers(connection._gate.accountant, "person"):
        noise = mechanism(answer.mechanism)
        assert not isinstance(noise, CountMechanism)
        assert isinstance(noise.law(answer.scale), DiscreteLaplaceLaw)
        factor = answer.column.multiplied_out(10_000)
        assert factor is not None
        one = np.zeros(factor.shape)
        one.reshape(-1)[factor.cells] = factor.coefficients
        places = [list(shape).index(axis) for axis in factor.axes]
        one = one.transpose(np.argsort(places)) if places else one
        full = one.reshape([n if a in factor.axes else 1 for a, n in shape.items()])
        rows.append(np.broadcast_to(full, tuple(shape.values())).ravel())
        scales.append(answer.scale)
    return np.array(rows, dtype=np.int64), Noises.of(DiscreteLaplaceLaw, scales)


def test_the_hint_is_the_same_on_a_slow_machine(
    controlled: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step of the search for it takes another second."""
    connection = controlled()
    connection.execute("SET dp.half_width = 1")
    hint = refused(connection, WOMEN).hint
    late, clock, wider = [0.0], time.monotonic, Preview.wider

    def slowly(preview: Preview, factor: float) -> Preview:
        late[0] += 1
        return wider(preview, factor)

    monkeypatch.setattr(time, "monotonic", lambda: clock() + late[0])
    monkeypatch.setattr(Preview, "wider", slowly)
    assert refused(connection, WOMEN).hint == hint
    assert late[0] > 5


def test_what_was_sold_before_the_rule_stays_but_gets_no_sharper(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And since no wider interval is permitted either, none is searched for."""
    free = connect(budget={"epsilon": 1000})
    ask(free, WOMEN, half_width=1)
    free.close()
    connection = connect(budget={"epsilon": 1000}, inference_control=LIMIT)
    connection.execute("SET dp.half_width = 3")
    cost = spent(connection)
    connection.execute(WOMEN)
    assert spent(connection) == cost
    connection.execute("SET dp.source = fresh")
    monkeypatch.delattr(Preview, "wider")
    assert str(refused(connection, WOMEN).hint).startswith("SET dp.source = history")
    ask(connection, f"{WHOLE} WHERE sex = 'M'", source="auto", half_width=8)
    assert len(connection.execute("SELECT * FROM dp.history").fetchall()) == 2


def test_other_answers_do_not_push_the_row_s_own_out_of_sight(
    controlled: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers about other people are cheap: only so many are looked at, but never before these."""
    monkeypatch.setattr("tallyveil.knowledge.preview._BESIDE", 5)
    connection = controlled()
    ask(connection, f"{WHOLE} WHERE age = 3", half_width=6)
    for ages in ("10, 11", "10"):
        connection.execute(f"{WHOLE} WHERE age IN ({ages})")
    connection.execute("SET dp.half_width = 5")
    for age in range(50, 56):
        connection.execute(f"{WHOLE} WHERE age = {age}")
    connection.execute("SET dp.half_width = 6")
    connection.execute("SET dp.source = fresh")
    refused(connection, f"{WHOLE} WHERE age = 3")
    # What 10 and 11 together say, less what 10 says, counts for 11, and says nothing of 12.
    connection.execute("SET dp.half_width = 5")
    refused(connection, f"{WHOLE} WHERE age = 11")
    connection.execute(f"{WHOLE} WHERE age = 12")


def test_what_cannot_be_looked_at_with_nested_answers_is_refused(
    controlled: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rather than without them: each could give away a difference."""
    monkeypatch.setattr("tallyveil.knowledge.preview._TERMS", 500)
    connection = controlled()
    connection.execute("SET dp.half_width = 30")
    verdicts = [verdict(connection, f"{WHOLE} WHERE age < {age}") for age in range(20, 32)]
    assert verdicts[0] is None
    assert verdicts[-1] == "54001"
    assert set(verdicts) == {None, "54001"}
    # What has nothing to do with those can be asked still.
    connection.execute(f"{WHOLE} WHERE age = 90")


@pytest.mark.parametrize("seed", range(40))
def test_rows_within_one_another_are_always_seen(seed: int) -> None:
    random = np.random.default_rng(seed)

    def single(axes: tuple[str, ...]) -> Column:
        shape = tuple({"a": 3, "b": 2, "c": 2}[axis] for axis in axes)
        touched = np.flatnonzero(random.random(math.prod(shape)) < 0.7)
        return Column.joint(axes, shape, 1, np.zeros_like(touched), touched, np.ones_like(touched))

    def cells(one: Column) -> np.ndarray:
        [factor] = one.factors
        dense = np.zeros(factor.shape, dtype=bool)
        dense.reshape(-1)[factor.cells] = True
        shape = [size if a in one.axes else 1 for a, size in (("a", 3), ("b", 2), ("c", 2))]
        return np.broadcast_to(dense.reshape(shape), (3, 2, 2))

    for axes in itertools.product([("a",), ("a", "b"), ("b", "c"), ("a", "b", "c")], repeat=2):
        one, other = single(axes[0]), single(axes[1])
        first, second = cells(one), cells(other)
        if first.any() and second.any():
            nested = (first <= second).all() or (second <= first).all()
            assert may_nest(one, other) >= nested
    boxes = [Column.joint(("a",), (3,), 1, *np.array([[0], [n], [1]])) for n in (0, 1)]
    assert not may_nest(*boxes)


@pytest.mark.parametrize("seed", range(10))
def test_a_quick_bound_is_below_the_variance(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = sparse.csr_matrix(random.integers(0, 3, (9, 6)).astype(np.int64))
    noises = Noises.of(DiscreteLaplaceLaw, random.uniform(1, 30, 9))
    known = Precision.of(rows, np.zeros(9), noises, 1)
    origin = np.zeros(9, dtype=np.int64)
    queries = sparse.vstack([rows, sparse.csr_matrix(np.eye(6, dtype=np.int64))], format="csr")
    found = Preview(rows, origin, np.zeros(9), noises, queries, 1, lambda: known)
    least, variances = found.least_variances(), known.variances(queries)
    assert (least <= variances * (1 + 1e-9)).all()
    assert (least > 0).all()


def test_exact_answers_leave_the_quick_bound_at_nothing() -> None:
    rows = sparse.csr_matrix(np.array([[1, 1], [1, 0]]))
    noises = Noises.of(DiscreteLaplaceLaw, [0.0, 5.0])
    known = Precision.of(rows, np.zeros(2), noises, 1)
    found = Preview(rows, np.zeros(2, dtype=np.int64), np.zeros(2), noises, rows, 1, lambda: known)
    assert (found.least_variances() == 0).all()


@pytest.fixture
def wide(connect: Connect) -> Connect:
    """Attributes whose values make tens of thousands of combinations."""

    def make() -> tallyveil.Connection:
        attributes = {
            "state": {"values": ["AL", "AK", "WY"], "other": True},
            "age": {"range": [0, 99], "clamp": True},
            "sex": {"values": ["F", "M"], "other": True},
            "day": {"range": [0, 99], "clamp": True, "column": "age"},
        }
        return connect(budget={"epsilon": 1000}, inference_control=LIMIT, attributes=attributes)

    return make


def half_width_of_mean(answers: int, scale: float) -> float:
    """At 95 %, of as many answers with discrete Laplace noise, by convolution."""
    one = np.exp(-np.abs(np.arange(-200, 201)) / scale)
    law = one / one.sum()
    for _ in range(answers - 1):
        law = np.convolve(law, one / one.sum())
    middle = len(law) // 2
    within = [law[middle - k : middle + k + 1].sum() for k in range(middle)]
    return int(np.searchsorted(within, 0.95)) / answers


def test_a_column_over_many_cells_hides_no_earlier_answer(wide: Connect) -> None:
    connection = wide()
    connection.execute("SET dp.epsilon = 0.5")
    connection.execute("SET dp.source = fresh")
    many = "(age * 7 + day * 3 + length(sex)) % {} = 0"
    statements = [
        "SELECT count(*) FILTER (WHERE state = 'AL'),"
        f" count(*) FILTER (WHERE {many.format(prime)}) FROM person"
        for prime in (3, 5, 7, 11, 13, 17, 19)
    ]
    bought = 0
    while half_width_of_mean(bought + 1, scale=4) >= LIMIT["min_half_width"]:
        connection.execute(statements[bought])
        bought += 1
    assert bought > 2
    refused(connection, statements[bought])


def test_aggregates_of_one_attribute_can_be_asked_after_many_of_others(wide: Connect) -> None:
    connection = wide()
    connection.execute("SET dp.epsilon = 0.3")
    for attribute in ("age", "sex", "day"):
        connection.execute(f"SELECT {attribute}, count(*) FROM person GROUP BY {attribute}")
    before = spent(connection)
    connection.execute("SELECT sum(day), stddev(day) FROM person WHERE state = 'AL'")
    assert spent(connection) > before


def test_every_process_on_a_ledger_knows_rows_equally_well() -> None:
    """To the last digit, where cells are so many that random combinations of them are compared."""
    entries = np.random.default_rng(3).integers(0, 4, (9, 400))
    rows, noises = sparse.csr_matrix(entries), Noises.of(DiscreteLaplaceLaw, np.full(9, 7.0))
    known = [Precision.of(rows, np.zeros(9), noises, seed).variances(rows) for seed in (5, 5, 6)]
    assert known[0].tobytes() == known[1].tobytes() != known[2].tobytes()
    assert known[2] == pytest.approx(known[0])


@pytest.mark.parametrize("seed", range(20))
def test_an_interval_is_as_wide_as_is_said_also_where_laws_are_made_of_points(seed: int) -> None:
    """The quick answer, by fewer weights, can be wider than the interval: by up to a point."""
    entries, noises = some_history(seed)
    rows = sparse.csr_matrix(entries)
    after = Precision.of(rows, np.zeros(12), noises, 1)
    query = rows[np.flatnonzero(entries.any(axis=1))[:1]]
    for confidence in (Fraction(1, 2), Fraction(4, 5), Fraction(19, 20)):
        width = after.of_query(query).half_width(confidence)
        assert _at_least(after, query, width, confidence)
        assert not _at_least(after, query, width * 1.001, confidence)
