"""What reported estimates were made from, as several processes recorded it."""

from __future__ import annotations

from fractions import Fraction

from tallyveil.accountant import Basis, Derivation
from tallyveil.knowledge.state import State

BY, KEY = Fraction(19, 20), b"12345678...."


def test_the_latest_basis_by_each_criterion_is_the_best() -> None:
    """Each of two processes may have reported an estimate before it saw that the other had."""
    state, basis = State(), Basis((0, 1))
    for criterion in (None, BY):
        state.derive(Derivation((b"12345678",), basis, criterion))
    assert state.bases(KEY) == {None: basis, BY: basis}
    state.derive(Derivation((b"12345678",), Basis((2,)), BY))
    assert state.bases(KEY) == {None: basis, BY: Basis((2,))}
    assert state.bases(b"87654321....") == {}


def test_the_confidence_at_which_an_interval_was_reported_is_one_of_them() -> None:
    """The least variance has not the narrowest interval at all confidences."""
    state, half = State(), Fraction(1, 2)
    state.derive(Derivation((b"12345678",), Basis((0,)), None, half))
    state.derive(Derivation((b"12345678",), Basis((1,)), None, BY))
    assert state.bases(KEY) == {half: Basis((0,)), None: Basis((1,)), BY: Basis((1,))}


def test_so_many_are_kept() -> None:
    state = State()
    for number in range(1, 20):
        at = Fraction(number, 20)
        state.derive(Derivation((b"12345678",), Basis((number,)), None, at))
    assert len(state.bases(KEY)) == 8
    assert state.bases(KEY)[None] == state.bases(KEY)[BY] == Basis((19,))
