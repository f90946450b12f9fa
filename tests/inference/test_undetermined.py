"""What is proved not to be determined gets no combination, and most of what gets none is proved."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from tallyveil.inference import (
    DiscreteLaplaceLaw,
    Noises,
    best_combinations,
    surely_undetermined,
)


def _noises(rows: int) -> Noises:
    return Noises.concatenated([Noises.of(DiscreteLaplaceLaw, 1.0)] * rows)


@pytest.mark.parametrize("seed", range(30))
def test_a_proof_and_a_combination_exclude_each_other(seed: int) -> None:
    random = np.random.default_rng(seed)
    m, n, k = (int(random.integers(*ends)) for ends in ((1, 20), (2, 30), (1, 8)))
    units = random.choice([1, 7, 10**6], size=(m, 1))
    history = random.integers(-1, 2, (m, n)) * units
    history[random.integers(m)] = history[random.integers(m)]
    question = random.integers(-1, 2, (k, n))
    question[0] = random.integers(-3, 4, m) @ history  # which it determines
    question[-1] = 0 if seed % 3 else question[-1]
    rows, asked = sparse.csr_matrix(history), sparse.csr_matrix(question)
    proved = surely_undetermined(rows, asked)
    found = best_combinations(rows, _noises(m), asked)
    rank = np.linalg.matrix_rank
    for own, combination, query in zip(proved.tolist(), found, question, strict=True):
        determined = rank(history / units) == rank(np.vstack([history / units, query]))
        assert own == (not determined)
        assert combination is None or not own


def test_nothing_is_proved_of_what_takes_too_much_work_or_has_no_rows() -> None:
    many = sparse.csr_matrix(np.ones((300, 300), dtype=np.int64))
    assert not surely_undetermined(many, many[:1]).any()
    assert not surely_undetermined(many[:0], many[:1]).any()
    nothing = sparse.csr_matrix((2, 300), dtype=np.int64)
    assert not surely_undetermined(nothing, nothing).any()


def test_what_is_all_but_determined_is_not_proved() -> None:
    """One of 10⁸ records of a cell is left: too little beside rounding errors."""
    history = sparse.csr_matrix(np.array([[10**8, 10**8]]))
    question = sparse.csr_matrix(np.array([[10**8, 10**8 + 1]]))
    assert not surely_undetermined(history, question).any()
