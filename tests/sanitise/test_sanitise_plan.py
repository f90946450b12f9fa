"""Which parts a copy has, what each may spend, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from tallyveil.errors import FeatureNotSupported, InvalidParameterValue
from tallyveil.gate.gate import accounts
from tallyveil.mechanisms.records import ClampedLaplace, RandomisedResponse
from tallyveil.policy import Policy, PrivacyUnit
from tallyveil.sanitise import CopyOptions, CopyPlan, least_error, plan
from tallyveil.sanitise.bounds import diameter_bound, packing_bound

Planned = Callable[..., CopyPlan]


def test_the_references_of_both_bounds() -> None:
    assert diameter_bound(1, 1) == pytest.approx(0.134471, abs=5e-7)
    assert packing_bound(10, 1) == pytest.approx(0.768031, abs=5e-7)
    assert least_error(1, 1, 1) == 0
    assert least_error(2, 1, 10**6) == 0


@pytest.mark.parametrize("cells", [2, 3, 50, 1000])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(4)])
def test_no_mechanism_is_better_than_the_bounds(cells: int, epsilon: Fraction) -> None:
    for law in (RandomisedResponse(cells, epsilon), ClampedLaplace(cells, epsilon)):
        bound = least_error(law.cells, law.diameter, epsilon)
        assert law.expected_error >= bound * (1 - 1e-12)
    response = RandomisedResponse(cells, epsilon)
    assert response.expected_error == pytest.approx(packing_bound(cells, epsilon), rel=1e-9)


def test_every_column_has_an_even_share(planned: Planned) -> None:
    found = planned("1/3")
    assert [part.name for part in found.parts] == ["state", "member", "age", "joined", "income"]
    assert found.epsilon <= Fraction(1, 3)
    for part in found.parts:
        assert isinstance(part.law, RandomisedResponse)
        assert float(part.law.epsilon) == pytest.approx(1 / 15)


def test_shares_groups_and_mechanisms_as_told(planned: Planned) -> None:
    found = planned(
        5,
        columns=["age", "state", "joined", "member"],
        together=[["member", "state"]],
        split={"age": Fraction(3)},
        laplace=["age"],
    )
    assert [part.name for part in found.parts] == ["state+member", "age", "joined"]
    assert [float(p.law.epsilon) for p in found.parts] == pytest.approx([1, 3, 1])
    assert [type(p.law) for p in found.parts] == [
        RandomisedResponse, ClampedLaplace, RandomisedResponse
    ]  # fmt: skip
    assert found.parts[0].law.cells == 3 * 3


def test_with_a_delta_the_parts_share_the_pure_epsilon(planned: Planned) -> None:
    """METRIC Ex. 5: b = diam/(ε − ln(1−δ)), in a ledger that is charged ε − ln(1−δ)."""
    found = planned(2, delta=Fraction(1, 10), columns=["age", "state"], laplace=["age"],
                    split={"state": Fraction(1)})  # fmt: skip
    exact = 2 - math.log1p(-0.1)
    assert exact - 2e-12 < found.epsilon <= exact
    state, age = found.parts
    assert isinstance(age.law, ClampedLaplace)
    assert age.law.scale == pytest.approx(10 / (exact - 1), rel=1e-11)
    assert float(state.law.epsilon) == pytest.approx(1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"columns": ["nobody"]}, 'no attribute "nobody"'),
        ({"laplace": ["nobody"]}, 'no attribute "nobody"'),
        ({"columns": ["age", "age"]}, "named once"),
        ({"columns": ["age"], "together": [["state", "age"], ["age", "member"]]}, "named once"),
        ({"split": {"ages": Fraction(1)}}, 'no part "ages"'),
        ({"split": {"age": Fraction(-1)}}, "positive"),
        ({"split": {"age": Fraction(3)}}, "add up to 3 of 2"),
        ({"split": {"age": Fraction(2)}}, "leave nothing"),
        ({"laplace": ["state"]}, "cannot have Laplace noise"),
        ({"laplace": ["income"]}, "cannot have Laplace noise"),
        ({"laplace": ["age"], "together": [["age", "state"]]}, "cannot have Laplace noise"),
        ({"laplace": ["age"], "columns": ["state"]}, "not among the columns"),
        ({"columns": []}, "needs a column"),
        ({"delta": Fraction(1)}, "strictly between 0 and 1"),
        ({"delta": Fraction(0)}, "positive"),
    ],
)
def test_what_does_not_fit_the_table(planned: Planned, options: Any, words: str) -> None:
    with pytest.raises(InvalidParameterValue) as caught:
        planned(2, **options)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "changed",
    [
        {"neighbours": "add_remove"},
        {"privacy_unit": PrivacyUnit(column="state", max_rows=2)},
        {"privacy_unit": PrivacyUnit(column="state", max_rows=1)},
        {"origin": "SELECT * FROM people"},
        {"left_out": "lines that are not UTF-8"},
    ],
)
def test_no_copy_where_it_would_show_a_confidential_number(
    policy: Policy, changed: dict[str, Any]
) -> None:
    table = policy.tables["person"].model_copy(update=changed)
    changed_policy = policy.model_copy(update={"tables": {"person": table}})
    relation = accounts(changed_policy)["person"].relation
    with pytest.raises(FeatureNotSupported, match="number of records") as caught:
        plan(table, relation, CopyOptions(Fraction(1)))
    assert "replace" in (caught.value.hint or "")
