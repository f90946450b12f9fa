"""dp_stddev, dp_probability and dp.nonnegative, against laws summed up point by point."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import mpmath
import numpy as np
import pytest

import tallyveil
from tallyveil.inference import DiscreteGaussianLaw, DiscreteLaplaceLaw, NoiseLaw, Noises
from tallyveil.knowledge import Known, total
from tallyveil.knowledge.answers.estimate import Estimate, NoiseWeights
from tallyveil.mechanisms import CountMechanism, mechanism
from tests.gate.asking import Connect, ask

BOUNDS = [(None, None), (None, 3), (3, None), (0, 0), (3, 3), (-2, 4), (5, 40), (-900, 900)]


@lru_cache
def pmf(law: NoiseLaw) -> dict[int, float]:
    """P(K = k), from the definition, but for a part below 1e-15."""
    if not law.scale:
        return {0: 1.0}
    scale = mpmath.mpf(law.scale)
    reach = math.ceil(36 * law.scale) + 1
    if isinstance(law, DiscreteLaplaceLaw):
        weights = {k: mpmath.exp(-abs(k) / scale) for k in range(-reach, reach + 1)}
    else:
        weights = {k: mpmath.exp(-(k**2) / (2 * scale**2)) for k in range(-reach, reach + 1)}
    whole = mpmath.fsum(weights.values())
    return {k: float(w / whole) for k, w in weights.items()}


def law_of_sum(laws: list[NoiseLaw], weights: list[Fraction]) -> dict[Fraction, float]:
    """P(Σ A_k N_k = x)."""
    return _law_of_sum(tuple(laws), tuple(weights))


@lru_cache
def _law_of_sum(laws: tuple[NoiseLaw, ...], weights: tuple[Fraction, ...]) -> dict[Fraction, float]:
    parts, total = math.lcm(*(weight.denominator for weight in weights)), {0: 1.0}
    for law, weight in zip(laws, weights, strict=True):
        following: dict[int, float] = {}
        terms = [(int(weight * parts) * k, q) for k, q in pmf(law).items()]
        for (x, p), (step, q) in itertools.product(total.items(), terms):
            at = x + step
            following[at] = following.get(at, 0.0) + p * q
        total = {x: p for x, p in following.items() if p > 1e-18}
    return {Fraction(x, parts): p for x, p in total.items()}


def mass(error: dict[Fraction, float], value: Fraction, low: int | None, high: int | None) -> float:
    """Of the truths value − X, rounded to the nearest, half each where there are two."""
    total = 0.0
    for x, p in error.items():
        truth = value - x
        least = Fraction(-(10**9)) if low is None else Fraction(2 * low - 1, 2)
        most = Fraction(10**9) if high is None else Fraction(2 * high + 1, 2)
        if least < truth < most:
            total += p
        elif truth in (least, most):
            total += p / 2
    return total


def deviation(group: list[Known]) -> float:
    return total(group).error.deviation


def probability(group: list[Known], low: int | None, high: int | None) -> float:
    return total(group).probability(low, high)


def estimated(
    value: Fraction, laws: list[NoiseLaw], weights: list[Fraction], first: int = 0
) -> Any:
    noises = Noises.concatenated([Noises.of(type(law), law.scale) for law in laws])
    numbers = np.arange(first, first + len(laws), dtype=np.int64)
    return Known.estimated(
        Estimate(float(value), numbers, NoiseWeights(np.array(list(map(float, weights))), noises))
    )


LAPLACE, GAUSSIAN = DiscreteLaplaceLaw(2.5), DiscreteGaussianLaw(3.0)


@pytest.mark.parametrize(
    "laws", [[LAPLACE], [GAUSSIAN], [LAPLACE, LAPLACE], [LAPLACE, GAUSSIAN, None]], ids=str
)
@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_added_noise_has_the_mass_of_its_law(
    laws: list[NoiseLaw | None], low: int | None, high: int | None
) -> None:
    """None is no noise."""
    group: list[Known] = [
        Known.with_noise(n + 1, *(() if law is None else (law,))) for n, law in enumerate(laws)
    ]
    value = Fraction(sum(range(1, len(laws) + 1)))
    noises = [law for law in laws if law is not None]
    error = law_of_sum(noises, [Fraction(1)] * len(noises))
    truth = mass(error, value, low, high)
    assert truth - 1e-9 <= probability(group, low, high) <= truth + 1e-12
    variance = math.fsum(p * float(x) ** 2 for x, p in error.items())
    assert deviation(group) == pytest.approx(math.sqrt(variance), rel=1e-9)


# With weights in whole-number proportion and with others; the second has values half-way.
ESTIMATES = [
    (Fraction(10, 3), [LAPLACE, LAPLACE], [Fraction(1, 3), Fraction(2, 3)], 1e-9),
    (Fraction(7, 2), [LAPLACE, DiscreteLaplaceLaw(0.7)], [Fraction(1, 2), Fraction(1, 2)], 1e-9),
    (Fraction(3), [LAPLACE], [Fraction(1)], 1e-9),
    (Fraction(13, 4), [GAUSSIAN, LAPLACE], [Fraction(1, 4), Fraction(3, 4)], 5e-3),
]


@pytest.mark.parametrize(("value", "laws", "weights", "off"), ESTIMATES)
@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_an_estimate_less_its_error_is_rounded_as_its_value_is(
    value: Fraction,
    laws: list[NoiseLaw],
    weights: list[Fraction],
    off: float,
    low: int | None,
    high: int | None,
) -> None:
    error = law_of_sum(laws, weights)
    one = estimated(value, laws, weights)
    truth = mass(error, value, low, high)
    assert truth - off <= probability([one], low, high) <= truth + 1e-9
    variance = math.fsum(p * float(x) ** 2 for x, p in error.items())
    assert deviation([one]) == pytest.approx(math.sqrt(variance), rel=1e-9)


@pytest.mark.parametrize(("value", "laws", "weights", "off"), ESTIMATES)
def test_the_claims_of_single_truths_are_disjoint_and_add_up(
    value: Fraction, laws: list[NoiseLaw], weights: list[Fraction], off: float
) -> None:
    one = estimated(value, laws, weights)
    sum_of_all = math.fsum(probability([one], k, k) for k in range(-120, 121))
    assert 1 - 241 * off <= sum_of_all <= 1 + 1e-6


def test_noises_that_two_estimates_share_count_once() -> None:
    """(K + L)/2 and (K − L)/2 add up to K."""
    half = Fraction(1, 2)
    plus = estimated(Fraction(5, 2), [LAPLACE, LAPLACE], [half, half])
    minus = estimated(Fraction(1, 2), [LAPLACE, LAPLACE], [half, -half])
    for low, high in BOUNDS:
        alone = probability([Known.with_noise(3, LAPLACE)], low, high)
        assert probability([plus, minus], low, high) == pytest.approx(alone, abs=1e-9)
    assert deviation([plus, minus]) == pytest.approx(math.sqrt(LAPLACE.variance), rel=1e-12)


@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_own_noise_beside_an_estimate_may_be_a_part_of_it(
    low: int | None, high: int | None
) -> None:
    """Whether the row's noise is another one, the estimate's own or its opposite."""
    one = estimated(Fraction(2), [LAPLACE], [Fraction(1)])
    group: list[Known] = [Known.with_noise(1, LAPLACE), one]
    found = probability(group, low, high)
    for laws, weights in (
        ([LAPLACE, LAPLACE], [Fraction(1), Fraction(1)]),
        ([LAPLACE], [Fraction(2)]),
        ([LAPLACE], [Fraction(0)]),
    ):
        error = law_of_sum(laws, weights)
        assert found <= mass(error, Fraction(3), low, high) + 1e-9
        spread = math.sqrt(math.fsum(p * float(x) ** 2 for x, p in error.items()))
        assert deviation(group) >= spread * (1 - 1e-12)
    if (low, high) in ((None, None), (-900, 900)):
        assert found > 1 - 1e-9


def test_a_rough_estimate_is_believed_no_more_than_it_deserves() -> None:
    exact = estimated(Fraction(3), [LAPLACE, LAPLACE], [Fraction(1), Fraction(1)])
    weights = exact.estimate.weights
    rough = Known.estimated(
        Estimate(
            exact.value, exact.estimate.numbers, NoiseWeights(weights.values, weights.noises, True)
        )
    )
    for low, high in BOUNDS:
        assert probability([rough], low, high) <= probability([exact], low, high) + 1e-9
    assert probability([rough], -30, 36) > 0.99


def test_what_is_exact_is_certain() -> None:
    group: list[Known] = [Known.with_noise(4), Known.with_noise(0)]
    assert [probability(group, low, high) for low, high in BOUNDS] == [1, 0, 1, 0, 0, 1, 0, 1]
    assert probability([], 0, 0) == 1
    assert deviation(group) == deviation([]) == 0


def test_a_public_range_gives_its_posterior_and_no_sums() -> None:
    noise = mechanism("fair(n=9)")
    assert isinstance(noise, CountMechanism)
    matrix = noise.matrix(2.0)
    for value in range(10):
        row = Known.in_range(noise.name, 2.0, value)
        weights = [matrix.probability(value, truth) for truth in range(10)]
        posterior = [w / sum(weights) for w in weights]
        truth = sum(posterior[2:6])
        assert truth - Fraction(1, 10**15) <= Fraction(probability([row], 2, 5)) <= truth
        squared = sum(p * (truth - value) ** 2 for truth, p in enumerate(posterior))
        assert deviation([row]) == pytest.approx(math.sqrt(squared), rel=1e-12)
    with pytest.raises(TypeError):
        deviation([row, row])


# Through the gate


@pytest.mark.parametrize(
    ("aggregate", "scale", "added", "truth"),
    [("count(*)", 10.0, 0, 760), ("sum(age)", 190.0, 0, 7220), ("5 + sum(age)", 190.0, 5, 7225)],
)
def test_an_answer_has_the_probabilities_of_its_noise(
    connect: Connect, aggregate: str, scale: float, added: int, truth: int
) -> None:
    connection = connect()
    law = pmf(DiscreteLaplaceLaw(scale))
    deviation = math.sqrt(math.fsum(p * k * k for k, p in law.items()))
    rows = connection.execute(
        f"SELECT {aggregate} AS n, dp_stddev(n), dp_probability(n, $1, $2),"
        " dp_probability(n, NULL, $2) FROM person WHERE age < 20",
        [truth - 20, truth + 5.5],
    ).fetchall()
    ((value, spread, both, below),) = rows
    assert spread == pytest.approx(deviation, rel=1e-9)
    within = math.fsum(p for k, p in law.items() if truth - 20 <= value - k <= truth + 5)
    assert both == pytest.approx(within, abs=1e-9)
    under = math.fsum(p for k, p in law.items() if value - k <= truth + 5)
    assert below == pytest.approx(under, abs=1e-9)


def test_the_units_of_a_sum_are_those_of_its_lattice(connect: Connect) -> None:
    """0.3 and 0.7 are tenths, whichever way they are written; a double is read as its decimal."""
    connection = connect()
    query = (
        "SELECT sum(age * 0.1) AS n, dp_stddev(n), dp_probability(n, {0}, {1}) FROM person"
        " WHERE age < 4"
    )
    ((value, spread, plain),) = connection.execute(query.format("70.3", "74.7")).fetchall()
    law = DiscreteLaplaceLaw(30.0)  # of tenths: a record is at most three of them
    assert spread == pytest.approx(math.sqrt(law.variance) / 10, rel=1e-9)
    tenths = round(float(value) * 10)
    inside = math.fsum(p for k, p in pmf(law).items() if 703 <= tenths - k <= 747)
    assert plain == pytest.approx(inside, abs=1e-9)
    for low, high in (("703 / 10.0", "'74.7'"), ("70.21", "74.79"), ("$1", "$2")):
        values = [70.3, 74.7] if low == "$1" else []
        ((_, _, other),) = connection.execute(query.format(low, high), values).fetchall()
        assert other == plain


def test_an_interval_is_a_claim_of_its_confidence(connect: Connect) -> None:
    connection = connect()
    connection.execute("SET dp.confidence = 0.8")
    ((low, high),) = connection.execute(
        "SELECT dp_interval_low(count(*)), dp_interval_high(count(*)) FROM person WHERE age < 9"
    ).fetchall()
    query = "SELECT dp_probability(count(*), $1, $2) FROM person WHERE age < 9"
    ((held,),) = connection.execute(query, [low, high]).fetchall()
    ((narrower,),) = connection.execute(query, [low + 1, high - 1]).fetchall()
    assert narrower < 0.8 <= held
    assert connection.budget()[0]["spent"] == 0.1


def test_a_summed_row_has_the_noise_of_its_parts(connect: Connect) -> None:
    connection = connect()
    connection.execute("SET dp.source = fresh")
    rows = connection.execute(
        "SELECT grouping(sex) AS g, count(*) AS n, dp_stddev(n), dp_probability(n, 2990, NULL)"
        " FROM person GROUP BY ROLLUP (sex)"
    ).fetchall()
    laws: list[NoiseLaw] = [DiscreteLaplaceLaw(10.0)] * 3
    ((total, spread, claim),) = [row[1:] for row in rows if row[0] == 1]
    assert {row[2] for row in rows if row[0] == 0} == {math.sqrt(laws[0].variance)}
    assert spread == pytest.approx(math.sqrt(3 * laws[0].variance), rel=1e-12)
    single = np.array(list(pmf(laws[0]).values()))
    error = np.convolve(np.convolve(single, single), single)
    most = len(error) // 2 + total - 2990  # at which the noise leaves 2990
    assert claim == pytest.approx(math.fsum(error[: max(0, most + 1)]), abs=1e-9)


def test_what_history_does_not_know_is_null(connect: Connect) -> None:
    connection = connect()
    connection.execute("SET dp.source = history")
    query = "SELECT count(*) AS n, dp_stddev(n), dp_probability(n, 0, NULL) FROM person"
    assert connection.execute(query).fetchall() == [(None, None, None)]
    assert ask(connection, query + " WHERE age < 0", source="auto") == [(0, 0, 1)]


def test_asking_how_sure_costs_nothing_more(connect: Connect) -> None:
    connection = connect()
    connection.execute("SELECT age, count(*) FROM person GROUP BY age")
    (notice,) = connection.execute(
        "SELECT age, n, dp_stddev(n), dp_probability(n, 30, 40) FROM"
        " (SELECT age, count(*) AS n FROM person GROUP BY age) AS t"
        " WHERE dp_probability(n, 30, NULL) > 0.5 ORDER BY dp_stddev(n)"
    ).notices
    assert notice.message.startswith("answered from history, free")


def test_a_refusal_charges_nothing(connect: Connect) -> None:
    connection = connect()
    for bounds in ("5, 3", "age, 7", "0, 1/0", "'x', 3", "0"):
        with pytest.raises(tallyveil.Error):
            connection.execute(f"SELECT dp_probability(count(*), {bounds}) FROM person")
    assert connection.budget()[0]["spent"] == 0


def test_nonnegative_raises_counts_after_all_else_is_done(connect: Connect) -> None:
    """About half of the empty groups are negative: that none of 40 is has a chance of 2^-37."""
    connection = connect(attributes={"age": {"range": [0, 149], "clamp": True, "nullable": True}})
    query = (
        "SELECT age, grouping(age) AS g, count(*) AS n, dp_interval_low(n) AS low,"
        " dp_interval_high(n) AS high, dp_stddev(n), dp_probability(n, NULL, -1), count(*) - 5"
        " FROM person WHERE age >= 110 GROUP BY ROLLUP (age) ORDER BY g, age"
    )
    connection.execute(query)
    plain = connection.execute(query).fetchall()
    raised = ask(connection, query, nonnegative="on")
    assert min(row[2] for row in plain) < 0
    *groups, total = [row[2] for row in raised]
    assert sum(groups) == total
    for row, before in zip(raised, plain, strict=True):
        assert 0 <= row[3] <= row[2] <= row[4]
        assert row[4] >= before[4]
        assert row[5:] == (*before[5:7], row[2] - 5)
    assert connection.budget()[0]["spent"] == 0.1
    connection.execute("RESET dp.nonnegative")
    assert connection.execute(query).fetchall() == plain


def test_nonnegative_leaves_what_may_be_negative(connect: Connect) -> None:
    """A difference is raised where it counts records of one kind without another.

    An interval is above 0 with a chance of 1/2000, and the three of a question of 10⁻¹⁰.
    """
    connection = connect({"epsilon": 0.0005, "confidence": 0.999})
    asked = {
        "count(*) FILTER (WHERE age > 85) - count(*) FILTER (WHERE age < 3)": False,
        "count(*) - count(*) FILTER (WHERE age <= 85)": True,
        "sum(age - 50)": False,
        "sum(age) FILTER (WHERE age > 90)": True,
    }
    for aggregate, counts_up in asked.items():
        query = f"SELECT sex, {aggregate} AS n, dp_interval_low(n) FROM person GROUP BY sex"
        connection.execute(query)
        plain = connection.execute(query).fetchall()
        found = ask(connection, query, nonnegative="on")
        connection.execute("SET dp.nonnegative = off")
        assert min(row[2] for row in plain) < 0
        expected = [(s, max(0, n), max(0, low)) for s, n, low in plain] if counts_up else plain
        assert found == expected


def test_a_policy_may_raise_counts_for_every_session(connect: Connect) -> None:
    """Of 69 empty groups one at least is not above 0, but for a chance of 10⁻¹⁹."""
    ages = {"age": {"range": [0, 149], "clamp": True}}
    connection = connect({"epsilon": 0.1, "nonnegative": True}, attributes=ages)
    query = "SELECT age, count(*) AS n FROM person WHERE age > 80 GROUP BY age"
    assert min(n for _, n in connection.execute(query).fetchall()) == 0
    assert connection.execute("SHOW dp.nonnegative").fetchone() == ("on",)
    connection.execute("SET dp.nonnegative = off")
    connection.execute("RESET dp.nonnegative")
    assert connection.execute("SHOW dp.nonnegative").fetchone() == ("on",)


def test_gaussian_noise_has_its_own_law(connect: Connect) -> None:
    budget = {"rho": 10.0, "delta": 1e-6}
    connection = connect({"rho": 0.005}, budget=budget)
    connection.execute("SET dp.mechanism = gaussian")
    ((value, spread, claim),) = connection.execute(
        "SELECT count(*) AS n, dp_stddev(n), dp_probability(n, 2990, 3005) FROM person"
    ).fetchall()
    law = pmf(DiscreteGaussianLaw(10.0))
    assert spread == pytest.approx(10.0, rel=1e-9)
    inside = math.fsum(p for k, p in law.items() if 2990 <= value - k <= 3005)
    assert claim == pytest.approx(inside, abs=1e-9)


def test_two_answers_to_a_question_make_a_better_one(connect: Connect) -> None:
    """Of equal scales, the mean of the two is estimated, with half the variance."""
    connection = connect()
    query = "SELECT count(*) AS n, dp_stddev(n), dp_probability(n, NULL, 3000) FROM person"
    single = [ask(connection, query, source="fresh")[0] for _ in range(2)]
    ((value, spread, claim),) = ask(connection, query, source="history")
    law = DiscreteLaplaceLaw(10.0)
    mean = Fraction(sum(n for n, _, _ in single), 2)
    assert value == round(mean)
    assert [s for _, s, _ in single] == [pytest.approx(math.sqrt(law.variance))] * 2
    assert spread == pytest.approx(math.sqrt(law.variance / 2), rel=1e-9)
    one = np.array(list(pmf(law).values()))
    both = np.convolve(one, one)  # of the sum of the noises, twice the error
    middle = len(both) // 2
    error = {Fraction(x - middle, 2): p for x, p in enumerate(both.tolist())}
    assert claim == pytest.approx(mass(error, mean, None, 3000), abs=1e-8)
