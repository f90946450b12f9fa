"""What counts give away, against all tables that agree on them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from tallyveil.invariants import Span, disclosure
from tallyveil.policy.domain import Attribute, Domain
from tallyveil.workload.workload import Column
from tests.matrices import column, factor

DOMAIN = Domain(
    "person",
    (
        Attribute("sex", "values", "VARCHAR", ("F", "M")),
        Attribute("age", "range", "BIGINT", (0, 1, 2)),
    ),
)
SIZES = {"sex": 2, "age": 3}


SEX, AGE = column(np.eye(2), ["sex"]), column(np.eye(3), ["age"])
GIRLS = Column((factor([[1, 0]], ["sex"]), factor([[1, 0, 0]], ["age"])))


def values(columns: Sequence[Column], counts: np.ndarray) -> list[int]:
    """Cx; ``counts`` is sex × age."""
    sums = {id(SEX): counts.sum(axis=1), id(AGE): counts.sum(axis=0), id(GIRLS): counts[0, :1]}
    return [int(v) for one in columns for v in sums[id(one)]]


@pytest.mark.parametrize("columns", [[SEX], [AGE], [SEX, AGE], [SEX, GIRLS], [AGE, GIRLS]])
def test_the_cells_that_are_known_are_those_on_which_all_tables_agree(
    columns: list[Column],
) -> None:
    """For nested groups and for two margins, of every small table."""
    tables = [np.array(x).reshape(2, 3) for x in itertools.product(range(3), repeat=6)]
    agreeing: dict[tuple[int, ...], list[np.ndarray]] = {}
    for table in tables:
        agreeing.setdefault(tuple(values(columns, table)), []).append(table)
    # All tables that agree with this one are among them: no cell can be larger.
    whole = {c: own for c, own in agreeing.items() if sum(own[0].ravel()) <= 2}
    span = Span(columns, SIZES)
    assert len(whole) > 5
    for known, own in whole.items():
        found = disclosure(span, known, DOMAIN)
        assert found.whole
        exact = {one.name: one.value for one in found.counts if one.cells == 1}
        constant = {
            f"sex = '{'FM'[s]}' AND age = {a}": int(own[0][s, a])
            for s, a in itertools.product(range(2), range(3))
            if len({int(table[s, a]) for table in own}) == 1
        }
        for name, value in exact.items():
            assert constant[name] == value
        # Cells that no row tells apart are one class: alone they are known only if it is empty.
        classes = {one.name: one.value for one in found.counts}
        for name, value in constant.items():
            sex, _, age = name.partition(" AND ")
            assert value in (classes.get(name), classes.get(sex), classes.get(age)) or value == 0


def test_names_and_sizes() -> None:
    found = disclosure(Span([SEX, GIRLS], SIZES), [5, 7, 2], DOMAIN)
    assert {(one.name, one.value, one.cells) for one in found.counts} == {
        ("sex = 'F'", 5, 3),
        ("sex = 'M'", 7, 3),
        ("sex = 'F' AND age = 0", 2, 1),
        ("sex = 'F' AND age BETWEEN 1 AND 2", 3, 2),
    }
    assert (found.rank, found.cells, found.unprotected) == (3, 6, 1)
    assert [one.name for one in found.small(3)] == ["sex = 'F' AND age = 0"]


def test_a_group_of_nobody_empties_its_cells() -> None:
    found = disclosure(Span([SEX, AGE], SIZES), [4, 0, 3, 1, 0], DOMAIN)
    bounded = {one.name: one.value for one in found.counts if one.bounded}
    assert bounded == {
        "sex = 'F' AND age = 0": 3,
        "sex = 'F' AND age = 1": 1,
        "sex = 'F' AND age = 2": 0,
        "sex = 'M' AND age = 0": 0,
        "sex = 'M' AND age = 1": 0,
        "sex = 'M' AND age = 2": 0,
    }
    assert found.unprotected == 2


def test_a_group_that_is_full_empties_the_cells_around_it() -> None:
    """F counts as many as the two youngest of them. Other rows tell the ages apart."""
    domain = Domain(
        "person",
        (DOMAIN.attributes[0], Attribute("age", "range", "BIGINT", (0, 1, 2, 3))),
    )

    def group(sex: list[int], age: list[int]) -> Column:
        return Column((factor([sex], ["sex"]), factor([age], ["age"])))

    columns = [SEX, *(group([1, 0], [1, 1, 0, 0]), group([0, 1], [1, 0, 0, 0]))]
    columns.append(group([0, 1], [0, 0, 1, 0]))
    found = disclosure(Span(columns, {"sex": 2, "age": 4}), [5, 7, 5, 1, 2], domain)
    assert {one.name: one.value for one in found.counts if one.bounded} == {
        "sex = 'F' AND age = 2": 0,
        "sex = 'F' AND age = 3": 0,
    }
