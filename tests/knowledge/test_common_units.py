"""The units of multiples, none of which divides the others."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from tallyveil.knowledge.sums.common_units import common_units


@pytest.mark.parametrize(
    ("multiples", "unit"),
    [([4, -6], 2), ([-6, 10, 15], 1), ([2, 3, 1], None), ([2, -4, 6], None), ([5, 5], None)],
)
def test_a_unit_is_found_where_no_row_is_it(multiples: list[int], unit: int | None) -> None:
    rows = np.array([[1, 0, 0, 0], *([0, times, 3 * times, 0] for times in multiples), [0] * 4])
    units, members, factors = common_units(sparse.csr_matrix(rows), len(rows))
    if unit is None:
        assert units.shape[0] == len(members) == len(factors) == 0
    else:
        assert units.toarray().tolist() == [[0, unit, 3 * unit, 0]]
        assert (rows[members] == factors[:, None] * units.toarray()).all()


def test_only_the_first_rows_count() -> None:
    rows = sparse.csr_matrix(np.array([[2, 0], [3, 0]]))
    assert common_units(rows, 1)[0].shape[0] == common_units(rows[:0], 0)[0].shape[0] == 0
    assert common_units(rows, 2)[0].toarray().tolist() == [[1, 0]]
