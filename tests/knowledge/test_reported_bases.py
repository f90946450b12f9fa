"""What reported estimates were made from, as several processes recorded it."""

from __future__ import annotations

from fractions import Fraction

from tallyveil.accountant import Basis, Derivation
from tallyveil.knowledge.state import State


def test_a_basis_two_processes_recorded_by_two_criteria_is_one() -> None:
    """Each may have reported the same estimate before it saw that the other had."""
    state, basis, by = State(), Basis((0, 1)), Fraction(19, 20)
    for criterion in (None, by):
        state.derive(Derivation((b"12345678",), basis, criterion))
    assert state.bases(b"12345678....", by) == (basis,)
    state.derive(Derivation((b"12345678",), Basis((2,)), by))
    assert state.bases(b"12345678....", by) == (Basis((2,)), basis)
