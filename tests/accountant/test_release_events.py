"""A charge says for good what was released, whatever becomes of the mechanism's name."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tallyveil.accountant import Accountant, Charge, Joint, Ledger
from tallyveil.accountant.store.event_codec import encode_charge
from tallyveil.accountant.store.ledger_records import ChargeRecord
from tallyveil.errors import LedgerError
from tallyveil.inference import DiscreteLaplaceLaw, NoiseLaw
from tallyveil.invariants import Translate
from tallyveil.knowledge import Aim, Knowledge, Known
from tallyveil.mechanisms import mechanism, registry
from tallyveil.mechanisms.noise.laplace import DiscreteLaplace
from tallyveil.workload.workload import Column, Factor, Workload
from tests.accountant.ledgers import asked, read, recorded_answers


class Retired(DiscreteLaplace):
    name = "retired"


def one(cubes: Any, name: str = "laplace", scale: float = 20.0) -> Charge:
    workload = Workload("person", (cubes.column(["hue"], [[1, 0]]),))
    return Charge(workload, name, (scale,), "SELECT 1")


def spent(path: Path, account: Any) -> tuple[Fraction, list[NoiseLaw | None]]:
    with closing(Ledger(path)) as ledger:
        accountant = Accountant(ledger, {"person": account})
        laws = [answer.law for answer in recorded_answers(accountant, "person")]
        return accountant.balance("person").spent, laws


def pay(path: Path, account: Any, charges: Sequence[Charge]) -> None:
    with closing(Ledger(path)) as ledger:
        accountant = Accountant(ledger, {"person": account})
        for charge in charges:
            (receipt,) = accountant.charge([charge], "alice")
            accountant.record(receipt, [[7]])


def known(path: Path, account: Any, column: Column) -> list[Known | None]:
    with closing(Ledger(path)) as ledger:
        knowledge = Knowledge(Accountant(ledger, {"person": account}), "person")
        aim = Aim(mechanism("laplace"), 20.0, None, Fraction("0.95"))
        return list(knowledge.find([column], [aim]).rows[0])


def test_a_mechanism_that_is_gone_is_accounted_for_and_its_answers_are_known(
    cubes: Any, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_families", dict(registry._families))
    registry.register(Retired())
    pay(path, cubes.account(), [one(cubes, "retired"), one(cubes)])
    before = spent(path, cubes.account())
    assert before == (Fraction(1, 10), [DiscreteLaplaceLaw(20.0)] * 2)
    del registry._families["retired"]
    assert spent(path, cubes.account()) == before
    [row] = known(path, cubes.account(), one(cubes).workload.columns[0])
    assert row is not None
    assert row.value == pytest.approx(7)
    assert row.error.variance < DiscreteLaplaceLaw(20.0).variance


def test_a_name_that_means_another_law_by_now_changes_nothing(
    cubes: Any, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pay(path, cubes.account(), [one(cubes)])
    before = spent(path, cubes.account())
    gaussian = mechanism("gaussian")
    monkeypatch.setitem(registry._families, "laplace", gaussian)
    registry.law_of.cache_clear()
    assert spent(path, cubes.account()) == before
    registry.law_of.cache_clear()


@pytest.mark.parametrize("place", ["version", "strategy"])
def test_what_a_later_program_adds_is_refused(place: str) -> None:
    header, _, body = zlib.decompress(encode_charge(asked((), ()))).partition(b"\n")
    about = json.loads(header) | {place: 2}
    with pytest.raises(LedgerError, match="later version"):
        read(zlib.compress(json.dumps(about).encode() + b"\n" + body, 1))


@pytest.mark.parametrize("kind", ["any order", "every third", "again and again"])
def test_many_rows_are_read_as_they_were_written(kind: str) -> None:
    random, size = np.random.default_rng(3), 400_000
    cells = {
        "any order": random.permutation(size),
        "every third": np.arange(size) * 3,
        "again and again": np.tile(np.arange(size // 4), 4),
    }[kind].astype(np.int64)
    rows = np.arange(size, dtype=np.int64) // 4
    factor = Factor(("x",), (3 * size,), size // 4, rows, cells, np.ones_like(rows))
    column = Column((factor, Factor(("y",), (2,), 1, *np.array([[0], [1], [5]]))))
    written = encode_charge(asked((column,), (2.0,), law="laplace"))
    (found,) = read(written).workload.columns
    for one, other in zip(found.factors, column.factors, strict=True):
        assert (one.rows == other.rows).all()
        assert (one.cells == other.cells).all()
        assert (one.coefficients == other.coefficients).all()
    assert len(written) < 1.1 * len(zlib.compress(zlib.decompress(written), 1))


def test_of_a_matrix_without_zeros_only_the_coefficients_are_kept(cubes: Any) -> None:
    rows, cells = np.divmod(np.arange(6_000), 1_000)
    factor = Factor(("x",), (1_000,), 6, rows, cells, 1 + rows + 7 * cells)
    written = encode_charge(asked((Column((factor,)),), (2.0,), law="laplace"))
    ((found,),) = (column.factors for column in read(written).workload.columns)
    for one, other in ((found.rows, rows), (found.cells, cells)):
        assert (one == other).all()
    assert (found.coefficients == factor.coefficients).all()
    header, _, body = zlib.decompress(written).partition(b"\n")
    about = json.loads(header)
    (held,) = about["columns"][0]["factors"]
    assert held["widths"] == ["<i2"]
    held["height"] = 5
    with pytest.raises(LedgerError, match="cannot be read"):
        read(zlib.compress(json.dumps(about).encode() + b"\n" + body))


def test_a_law_nobody_knows_is_refused(cubes: Any, path: Path) -> None:
    charge = one(cubes)
    object.__setattr__(charge, "law", "cauchy")
    with pytest.raises(Exception, match='no noise with the law "cauchy"'):
        pay(path, cubes.account(), [charge])


def test_a_translate_is_recorded_with_its_fractions_and_found_again(cubes: Any, path: Path) -> None:
    """By rows that the ledger knows as published, and by no others."""
    total = cubes.column(["hue"], [[1, 1]])
    half = Translate(*(np.array([n], dtype=np.int64) for n in (0, 0, 1)), denominator=2)
    with closing(Ledger(path)) as ledger:
        accountant = Accountant(ledger, {"person": cubes.account()})
        own = replace(one(cubes), translates=(half,))
        with pytest.raises(LedgerError, match="does not know"):
            accountant.charge([own], "alice")
        accountant.publish_exact("person", {"SELECT": Workload("person", (total,))})
        accountant.charge([replace(own)], "alice")
        with ledger.snapshot() as view:
            ((stored, _),) = view.after(ChargeRecord)
        (found,) = read(stored.columns).translates
        assert found is not None
        held = found.rows, found.declared, found.numerators
        assert ([a.tolist() for a in held], found.denominator) == ([[0], [0], [1]], 2)
    assert spent(path, cubes.account())[0] == Fraction(1, 40)


def test_a_translate_is_charged_whoever_has_read_or_published_more_since(
    cubes: Any, path: Path
) -> None:
    """Published rows keep their numbers, in every process."""
    account, total = cubes.account(), cubes.column(["hue"], [[1, 1]])
    by_first, by_second = (
        Translate(*(np.array([n], dtype=np.int64) for n in (0, row, 1)), denominator=2)
        for row in (0, 1)
    )
    with closing(Ledger(path)) as first, closing(Ledger(path)) as second:
        here, there = (Accountant(ledger, {"person": account}) for ledger in (first, second))
        here.publish_exact("person", {"SELECT 1": Workload("person", (total,))})
        assert len(here.published("person")) == 1
        here.published("person")
        here.charge([replace(one(cubes), translates=(by_first,))], "alice")
        other = Workload("person", (cubes.column(["age"], [[1, 1, 0]]),))
        there.publish_exact("person", {"SELECT 2": other})
        assert len(there.published("person")) == 2
        there.charge([replace(one(cubes), translates=(by_second,))], "alice")
        here.charge([replace(one(cubes), translates=(by_first,))], "alice")
        balance = here.balance("person")
        assert balance == there.balance("person")
    assert spent(path, account)[0] == balance.spent


def test_noise_drawn_together_is_recorded_with_its_law(cubes: Any) -> None:
    """Where each row is in which draw, by what the ledger holds."""
    column = cubes.column(["hue"], [[1, 0], [0, 1]])
    joint = Joint("conditioned", 2, (2, 2, -1))
    law = "discrete_laplace"
    found = read(encode_charge(asked((column,), (2.0,), law=law, joint=joint)))
    assert found.joint == joint
    charge = Charge(
        Workload("person", found.workload.columns), "conditioned", (2.0,), "", law, joint=joint
    )
    drawn = charge.drawn_together
    assert drawn is not None
    assert drawn.owners.tolist() == [0, 0]
    # Of two leaves of a known total each has noise of half the scale.
    one = drawn.laws[0].functional(drawn.places[:1], np.ones(1))
    assert one.variance == pytest.approx(DiscreteLaplaceLaw(1.0).variance)


def test_a_joint_law_nobody_knows_is_refused(cubes: Any) -> None:
    column = cubes.column(["hue"], [[1, 0], [0, 1]])
    joint = Joint("conditioned", 2, (2, 2, -1))
    event = encode_charge(asked((column,), (2.0,), law="discrete_laplace", joint=joint))
    header, _, body = zlib.decompress(event).partition(b"\n")
    other = header.replace(b'"conditioned"', b'"of a later program"')
    with pytest.raises(LedgerError, match="does not know"):
        read(zlib.compress(other + b"\n" + body))
