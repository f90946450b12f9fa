"""An adversary with two small tables that agree on the invariants, and statements at random.

Whatever is asked of both, by whomever, with whichever settings: with the same numbers released, all
that analysts get is the same, down to messages and estimates; and the numbers that are released
tell the tables apart by no more than `dp.budget` says is spent. Invariants are worked out from
DuckDB's answers about one record at a time, and noise from what is drawn, not from what is charged.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import numpy as np
import pytest

import tallyveil
from tallyveil.accountant import Charge
from tallyveil.accountant.budgets.pricing import Pricing
from tallyveil.arrays import FloatArray
from tallyveil.boundary import Receipt
from tallyveil.errors import TallyveilError
from tallyveil.gate import Gate
from tallyveil.gate.deciding import decision
from tallyveil.gate.strategies import exact_counts
from tallyveil.gate.strategies.offer import Offer
from tallyveil.inference import DiscreteLaplaceLaw
from tallyveil.inference.conditional.tree import Tree
from tallyveil.invariants import Hierarchy, hierarchy
from tallyveil.mechanisms import Loss
from tallyveil.proxy.inprocess import Connection
from tallyveil.workload.workload import Column
from tests.dense_rows import dense_rows
from tests.gate.agreeing_tables import CELLS, USERS, VALUES, Case, people
from tests.pairs import one_in

Transcript: TypeAlias = list[tuple[Any, ...]]
Make: TypeAlias = Callable[[int], "Attack"]


@dataclass
class Attack:
    """What a case's statements get, and what was ``released`` for it: by whom, and how far apart
    it tells tables in ε or ρ, of each of ``moves``."""

    case: Case
    folder: Path
    moves: FloatArray = field(init=False)
    released: list[tuple[str, FloatArray]] = field(default_factory=list)
    user: str = ""

    def __post_init__(self) -> None:
        """All exchanges of records, pairs of them, and what is added or removed, that agree."""
        single = np.eye(len(CELLS))
        found = [one - other for one, other in itertools.permutations(single, 2)]
        if self.case.policy["tables"]["person"]["neighbours"] == "add_remove":
            found += [*single, *-single]
        rolled = random.Random(1)
        found += [sum(rolled.sample(found, 2), np.zeros(len(CELLS))) for _ in range(3_000)]
        moves = np.array(found)
        agree = ~(abs(moves @ self.case.exact.T) > 1e-9).any(axis=1) & moves.any(axis=1)
        self.moves = moves[agree]

    def transcript(self, number: int) -> tuple[Transcript, Mapping[str | None, Any]]:
        """Of one of the tables: both users have a gate of their own, and take turns."""
        self.released.clear()
        found, turns = Transcript(), random.Random(2)
        with (
            TemporaryDirectory(dir=self.folder) as base,
            people(self.case.tables[number]) as source,
            ExitStack() as opened,
        ):
            policy = tallyveil.parse_policy(self.case.policy, base=Path(base))
            # What a busy machine does to one of two transcripts is nothing that tables are told.
            gates = {
                user: opened.enter_context(Connection(Gate(policy, source, time_limit=600), user))
                for user in USERS
            }
            for sql in self.case.statements:
                self.user = turns.choice(USERS)
                found.append((sql, *self.told(gates[self.user], sql)))
            spent = {row["analyst"]: row for gate in gates.values() for row in gate.budget()}
        return found, spent

    def told(self, gate: tallyveil.Connection, sql: str) -> tuple[Any, ...]:
        try:
            cursor = gate.execute(sql)
            rows = cursor.fetchall() if cursor.description else []
            return rows, [str(notice) for notice in cursor.notices]
        except TallyveilError as error:
            return type(error), error.message, error.detail, error.hint

    def draw(self, offer: Offer, receipt: Receipt, exact: Any) -> tuple[tuple[int, ...], ...]:
        """In the place of a release: numbers that do not depend on the data, where these add up to
        what is exact."""
        rolled = random.Random(len(self.released))
        heights = offer.charge.heights
        columns = [dense(column) for column in offer.charge.workload.columns]
        losses = np.zeros(len(self.moves))
        drawn = offer.charge.drawn_together
        if drawn is None:
            for rows, scale in zip(columns, receipt.scales, strict=True):
                losses += self.loss(rows @ self.moves.T, scale, offer.mechanism.name)
            flat = [rolled.randrange(20) for _ in range(sum(heights))]
        else:
            losses = self.tree_loss(drawn.tree, np.vstack(columns) @ self.moves.T)
            flat = made_up(drawn.tree, [n for column in exact() for n in column], rolled)
        self.released.append((self.user, losses))
        values = iter(flat)
        return tuple(tuple(itertools.islice(values, height)) for height in heights)

    def loss(self, moved: FloatArray, scale: float, mechanism: str) -> FloatArray:
        """Of independent noise on rows that are ``moved`` so far."""
        if mechanism == "gaussian" or "rho" in self.case.policy["defaults"]:
            found: FloatArray = (moved**2).sum(axis=0) / (2 * scale**2)
            return found
        return abs(moved).sum(axis=0) / scale

    def tree_loss(self, tree: Tree, moved: FloatArray) -> FloatArray:
        """Of what is drawn together, and no exact sum may move."""
        every = np.array(
            [tree.sums(own) for own in moved[list(tree.leaves)].T.astype(int).tolist()]
        ).T
        assert (every[: len(moved)] == moved).all()
        pure, squares = np.zeros((2, moved.shape[1]))
        for law, own in zip(tree.laws, every, strict=True):
            if law is not None and not law.scale:
                assert not own.any(), "an exact sum moves"
            elif law is not None and type(law) is DiscreteLaplaceLaw:
                pure += abs(own) / law.scale
            elif law is not None:
                squares += own**2 / (2 * law.scale**2)
        return (
            pure + squares if "epsilon" in self.case.policy["defaults"] else pure**2 / 2 + squares
        )

    def excess(self, spent: Mapping[str | None, Any]) -> float:
        """The greatest loss over all that was spent for the records moved: of everything, and of
        what each user bought."""
        table = self.case.policy["tables"]["person"]
        up, down = (np.maximum(sign * self.moves, 0).sum(axis=1) for sign in (1, -1))
        moved = np.maximum(up, down) if table["neighbours"] == "replace" else up + down
        power = 1 if "epsilon" in self.case.policy["defaults"] else 2
        worst = 0.0
        for user, row in spent.items():
            if row["spent"] is not None:
                own = [loss for who, loss in self.released if user in (None, who)]
                allowed = row["spent"] * (moved / self.case.rows) ** power
                worst = max(worst, float((sum(own, np.zeros(len(moved))) - allowed).max()))
                assert row["spent"] <= row["budget"] * (1 + 1e-9)
        return worst


def made_up(tree: Tree, exact: Sequence[int], rolled: random.Random) -> list[int]:
    """Numbers that add up; the last leaf of each exact sum makes up for the others."""
    leaves = {leaf: rolled.randrange(20) for leaf in tree.leaves}
    for root in tree.atoms:
        if root.exact:
            *_, last = root.leaves
            own = sum(leaves[leaf] for leaf in root.leaves) - leaves[last]
            leaves[last] = sum(exact[leaf] for leaf in root.leaves) - own
    return tree.sums([leaves[leaf] for leaf in tree.leaves])[: len(exact)]


def dense(column: Column) -> FloatArray:
    """Its rows over `CELLS`."""
    rows = dense_rows(column, {name: len(values) for name, values in VALUES.items()})
    return rows.reshape(len(rows), len(CELLS))


def alike(one: Any, other: Any) -> bool:
    """But for the last places of floats."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return one == pytest.approx(other, rel=1e-9, abs=1e-9)
    return bool(one == other)


@pytest.fixture
def attack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Make:
    releasing = decision._releasing

    def made(seed: int) -> Attack:
        found = Attack(Case.of(seed), tmp_path)

        def drawn(offer: Offer) -> Any:
            own = releasing(offer)
            return lambda *opened: found.draw(offer, opened[1], lambda: own(*opened))

        monkeypatch.setattr(decision, "_releasing", drawn)
        return found

    return made


def outcome(attack: Attack) -> tuple[bool, float]:
    """Whether both tables are told the same, and how much more was lost than spent."""
    told, spent = attack.transcript(0)
    excess = attack.excess(spent)
    others, _ = attack.transcript(1)
    for statement, rows, *_ in told[-3:]:
        assert isinstance(rows, list), statement
    return alike(told, others), excess


@pytest.mark.parametrize("seed", one_in(2, range(4)))
def test_tables_that_agree_are_told_apart_by_what_was_charged(attack: Make, seed: int) -> None:
    made = attack(seed)
    assert outcome(made) == (True, pytest.approx(0, abs=1e-9))
    assert made.released


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_tables_that_agree_in_many_more_cases(attack: Make) -> None:
    for seed in range(1_000, 1_060):
        assert outcome(attack(seed)) == (True, pytest.approx(0, abs=1e-9)), seed


def test_a_charge_of_less_than_what_is_drawn_is_seen(
    attack: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    loss = Pricing.loss

    def half(pricing: Pricing, charge: Charge) -> Loss:
        return loss(pricing, replace(charge, scales=tuple(2 * one for one in charge.scales)))

    monkeypatch.setattr(Pricing, "loss", half)
    assert outcome(attack(1))[1] > 0


def test_noise_that_is_clipped_by_the_truth_is_seen(
    attack: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = Attack.draw

    def clipped(own: Attack, offer: Offer, receipt: Receipt, exact: Any) -> Any:
        told = draw(own, offer, receipt, exact)
        pairs = zip(told, exact(), strict=True)
        return tuple(tuple(map(max, *both)) for both in pairs)

    monkeypatch.setattr(Attack, "draw", clipped)
    assert not outcome(attack(1))[0]


def test_sums_that_are_no_invariants_and_are_kept_are_seen(
    attack: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kept(columns: Sequence[Column], span: Any) -> Hierarchy | str:
        """That of the first two rows, where there are more."""
        found = hierarchy(columns, span)
        height = sum(column.height for column in columns)
        if isinstance(found, str) or height < 3:
            return found
        return replace(found, parents=(height, height, *[-1] * (height - 2), -1))

    monkeypatch.setattr(exact_counts, "hierarchy", kept)
    with pytest.raises(AssertionError, match="an exact sum moves"):
        outcome(attack(3))
