"""How reported estimates were made, in the ledger: kept, shared by processes, and bounded."""

from __future__ import annotations

import json
import zlib
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tallyveil.accountant import Accountant, Basis, Derivation, Ledger, Part
from tallyveil.accountant.derivation import decode_derivation, encode_derivation
from tallyveil.errors import LedgerError


@pytest.fixture
def open_accountant(cubes: Any, tmp_path: Path) -> Any:
    return lambda: Accountant(Ledger(tmp_path / "ledger.db"), {"person": cubes.account()})


ONE = Derivation((b"12345678", b"abcdefgh"), Basis((3, 1, 200), (7,)), Fraction(19, 20))

PARTS = (Part(b"rows", Basis((1,), (2,), True)), Part(b"others", Basis()))
SUM = Derivation((b"12345678",), Basis(parts=PARTS, summed=b"12345678....", content=-3), None)

ABOUT: dict[str, Any] = {"by": None, "at": None, "whole": [], "own": [], "rough": False}


def written(without: str = "", **others: Any) -> bytes:
    """A derivation of no rows: readable, except for the changed or missing entries."""
    about = {key: value for key, value in (ABOUT | others).items() if key != without}
    return zlib.compress(json.dumps(about).encode() + b"\n")


def test_a_derivation_of_no_rows_is_read() -> None:
    assert decode_derivation(written()) == Derivation((), Basis(), None)


@pytest.mark.parametrize("derivation", [ONE, Derivation((b"12345678",), Basis((0,)), None), SUM])
def test_a_derivation_is_read_as_it_was_written(derivation: Derivation) -> None:
    assert decode_derivation(encode_derivation(derivation)) == derivation


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"nothing",
        zlib.compress(b"{}\n"),
        zlib.compress(b"[]\n"),
        written(by="1/0"),
        written(at="1/0"),
        written(at=0.5),
        written(whole=[-1]),
        written(whole=[True]),
        written(whole=3),
        written(rough=1),
        written(summed="x"),
        written(content=0),
        written(content="1"),
        written(parts=3),
        written(parts=[{}]),
        written(parts=[ABOUT | {"rows": "?"}]),
        *(written(without=key) for key in ABOUT),
    ],
)
def test_anything_else_is_an_error(blob: bytes) -> None:
    with pytest.raises(LedgerError, match="cannot be read"):
        decode_derivation(blob)


def test_derivations_are_there_for_other_processes_and_later(open_accountant: Any) -> None:
    first, second = open_accountant(), open_accountant()
    first.derive("person", [ONE], "alice")
    second.derive("person", [ONE, ONE], "bob")
    for accountant in (first, second, open_accountant()):
        assert accountant.learned("person", 0, 0)[1] == [ONE] * 3
        assert accountant.learned("person", 0, 2)[1] == [ONE]


def test_estimates_make_the_ledger_grow_to_a_bound(
    open_accountant: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallyveil.accountant.releases._DERIVED_BYTES", 1_000)
    accountant = open_accountant()
    for _ in range(100):
        accountant.derive("person", [ONE], "alice")
        accountant.learned("person", 0, 0)
    kept = len(accountant.learned("person", 0, 0)[1])
    assert 1 <= kept <= 1_000 // len(encode_derivation(ONE))
    accountant.derive("person", [ONE], "bob")
    assert len(accountant.learned("person", 0, 0)[1]) == kept + 1
