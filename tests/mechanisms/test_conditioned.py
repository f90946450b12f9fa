"""Conditioned noise on trees of counts: its law by enumeration, and what is drawn against that."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import random
import secrets
import time
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from bench.chains import variances
from tallyveil.errors import FeatureNotSupported, StatementTooComplex
from tallyveil.inference import DiscreteGaussianLaw, DiscreteLaplaceLaw, NoiseLaw
from tallyveil.inference.conditional.tree import Node, Tree
from tallyveil.mechanisms.constrained import conditioned, group_draw
from tallyveil.mechanisms.constrained.conditioned import Atom, Conditioned
from tallyveil.mechanisms.constrained.group_total import law_of_total
from tallyveil.mechanisms.constrained.law_weights import happens, weights_of
from tallyveil.mechanisms.constrained.sum_tables import LOG_FALLBACK, Tables, TailBounds
from tallyveil.mechanisms.units import decimal
from tests.goodness import surprise
from tests.pairs import one_in

LAPLACE, GAUSS = DiscreteLaplaceLaw(1.0), DiscreteGaussianLaw(1.0)
EXACT, WIDE = DiscreteLaplaceLaw(0.0), DiscreteLaplaceLaw(40.0)
MISS = 1e-6  # a false alarm of each statistical test


def one(leaves: int, leaf: NoiseLaw, root: NoiseLaw | None) -> Tree:
    return Tree((leaves,) * leaves + (-1,), (leaf,) * leaves + (root,))


def two(leaf: NoiseLaw, group: NoiseLaw | None, root: NoiseLaw | None) -> Tree:
    """Groups of two and of three leaves, and all."""
    return Tree((5, 5, 6, 6, 6, 7, 7, -1), (leaf,) * 5 + (group, group, root))


def taxi(scale: float) -> Tree:
    """263 zones in six boroughs of one city, each with noise of its own."""
    sizes = (43, 61, 1, 69, 69, 20)
    zones = [263 + number for number, size in enumerate(sizes) for _ in range(size)]
    law = DiscreteLaplaceLaw(scale)
    return Tree((*zones, *[269] * 6, -1), (law,) * 270)


@functools.cache
def enumerated(tree: Tree, reach: int) -> dict[tuple[int, ...], float]:
    """P(u) of the definition, for leaves of at most ``reach``: no table, no sum but the whole."""
    every = np.indices((2 * reach + 1,) * len(tree.leaves)).reshape(len(tree.leaves), -1) - reach
    sums = tree.sums(every)
    exact = [sums[n] for n, law in enumerate(tree.laws) if law is not None and not law.scale]
    possible = ~np.any([np.zeros_like(sums[0]), *exact], axis=0)
    every, sums = every[:, possible], [each[possible] for each in sums]
    noisy = [(n, law) for n, law in enumerate(tree.laws) if law is not None and law.scale]
    weights = np.exp(sum(law.log_mass(sums[n].astype(float)) for n, law in noisy))
    shares = weights / math.fsum(weights)
    return dict(zip(map(tuple, every.T.tolist()), shares.tolist(), strict=True))


SMALL = [
    (two(LAPLACE, LAPLACE, EXACT), 4),
    (Tree((2, 2, 4, 4, -1), (LAPLACE, LAPLACE, None, LAPLACE, LAPLACE)), 8),
    (Tree((2, 2, 4, 4, -1), (GAUSS, GAUSS, GAUSS, GAUSS, None)), 6),
    (one(3, DiscreteLaplaceLaw(2.5), EXACT), 30),
    (one(3, DiscreteGaussianLaw(1.7), EXACT), 12),
    (one(2, LAPLACE, None), 20),
    (Tree((2, 3, 3, -1), (LAPLACE, LAPLACE, None, LAPLACE)), 20),
]
ALIKE = Tree((4, 5, 4, 5, -1, -1), (LAPLACE,) * 6)
"""Two groups of one shape, whose leaves take turns."""


@pytest.mark.parametrize(("tree", "reach"), SMALL)
def test_what_is_drawn_has_the_law(tree: Tree, reach: int) -> None:
    """1,000 draws; what the enumeration leaves out is too rare to matter."""
    law = enumerated(tree, reach)
    noise = Conditioned(tree)
    drawn = Counter(tuple(noise.draw()) for _ in range(1_000))
    assert surprise(drawn, law) > MISS


def test_groups_of_one_shape_are_drawn_each_by_itself_from_the_same_tables() -> None:
    """2,000 draws."""
    noise = Conditioned(ALIKE)
    drawn = Counter(tuple(noise.draw()) for _ in range(2_000))
    assert surprise(drawn, enumerated(ALIKE, 8)) > MISS
    assert noise.numbers == Conditioned(one(2, LAPLACE, LAPLACE)).numbers


def test_groups_of_many_shapes_have_no_more_tables_than_one_may_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trees = [one(leaves, LAPLACE, LAPLACE) for leaves in (2, 3)]
    both = Tree((5, 5, 6, 6, 6, -1, -1), (LAPLACE,) * 7)
    numbers = [Conditioned(tree).numbers for tree in trees]
    assert Conditioned(both).numbers == sum(numbers)
    monkeypatch.setattr(conditioned, "MOST", sum(numbers) - 1)
    with pytest.raises(StatementTooComplex, match="too many possible sums"):
        Conditioned(both)


def test_too_large_tables_are_refused_before_any_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[Tables]()
    monkeypatch.setattr(Tables, "_build", lambda tables, *_: made.append(tables))
    with pytest.raises(StatementTooComplex, match="too many possible sums"):
        Conditioned(one(2_000, DiscreteLaplaceLaw(1e4), DiscreteLaplaceLaw(1e4)))
    assert not made


def test_no_more_is_drawn_one_by_one_than_can_be_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Groups whose totals are exact are drawn together, and are not counted."""
    monkeypatch.setattr(conditioned, "_DRAWN", 4)
    assert len(Conditioned(ALIKE).draw()) == 4
    assert len(Conditioned(one(5, LAPLACE, EXACT)).draw()) == 5
    with pytest.raises(StatementTooComplex, match="drawn one by one"):
        Conditioned(two(LAPLACE, LAPLACE, LAPLACE))
    with pytest.raises(StatementTooComplex, match="drawn one by one"):
        Conditioned(one(5, GAUSS, DiscreteGaussianLaw(0.0)))


def narrow(tree: Tree, law: dict[tuple[int, ...], float]) -> tuple[Atom, float]:
    """Tables so narrow that some outcomes lie beyond them, and how likely one does. 3 proposals of
    4 are the fallback's, which is likely enough there."""
    (root,) = tree.atoms
    weights = weights_of(tree.laws[0] or EXACT)
    wide = Atom(root)
    total = math.log(math.fsum(math.exp(-float(wide.exponent(v))) for v in law))
    for excess in np.arange(0.5, 9.0, 0.5).tolist():
        atom = Atom(root, TailBounds(weights, LOG_FALLBACK + excess), 3 << 62)
        beyond = [values for values in law if not atom.within(values)]
        some = beyond[:: max(1, len(beyond) // 100)]
        kept = {values: law[values] * math.exp(total - atom.scale) / 3 for values in some}
        with localcontext(prec=20):
            if all(chance < 0.8 * float(atom.proposed(v)) for v, chance in kept.items()):
                return atom, math.fsum(law[values] for values in beyond)
    raise AssertionError("no fallback is likely enough")


@pytest.mark.parametrize(("tree", "reach"), one_in(2, SMALL))
def test_the_fallback_makes_up_for_what_the_tables_lack(tree: Tree, reach: int) -> None:
    law = enumerated(tree, reach)
    atom, beyond = narrow(tree, law)
    assert beyond > 0.0005
    drawn = Counter(tuple(atom.draw()) for _ in range(300))
    assert surprise(drawn, law) > MISS
    share = sum(not atom.within(values) for values in drawn.elements()) / 300
    assert abs(share - beyond) < 6 * math.sqrt(beyond / 300) + 0.002


@pytest.mark.parametrize("law", [LAPLACE, DiscreteLaplaceLaw(2.5), DiscreteGaussianLaw(1.7)])
def test_the_fallback_is_a_law(law: NoiseLaw) -> None:
    (root,) = one(2, law, EXACT).atoms
    atom = Atom(root)
    with localcontext(prec=20):
        total = sum(float(atom.proposed((k, -k))) for k in range(-1_200, 1_201, 1))
    assert total == pytest.approx(1, abs=1e-6)


def grouped(groups: int, leaves: int, law: NoiseLaw, root: NoiseLaw | None) -> Tree:
    """Groups of leaves, each with noise of its own, as the leaves and the root have."""
    size = groups * leaves
    parents = (*(n // leaves + size for n in range(size)), *[size + groups] * groups, -1)
    return Tree(parents, (*[law] * (size + groups), root))


TREES = [
    *(SMALL[n][0] for n in (0, 2, 3)),
    taxi(2.0),
    # ln Z^n / K is just below what is guessed first.
    grouped(14, 4, DiscreteLaplaceLaw(20.0), DiscreteLaplaceLaw(20.0)),
    grouped(24, 8, DiscreteLaplaceLaw(9.0), LAPLACE),
    grouped(24, 8, DiscreteGaussianLaw(9.0), DiscreteGaussianLaw(4.0)),
    Tree((4, 4, 5, 5, 6, 6, -1), (WIDE, WIDE, WIDE, WIDE, LAPLACE, GAUSS, LAPLACE)),
]


@pytest.mark.parametrize("tree", one_in(2, TREES))
def test_beyond_the_tables_the_fallback_is_likely_enough(tree: Tree) -> None:
    """p / (e^K̂ q₂) ≤ 2⁻⁵⁸ where one leaf, or the sum of some, is one beyond its bound."""
    (root,) = tree.atoms
    atom = Atom(root)
    places = {leaf: place for place, leaf in enumerate(root.leaves)}
    sets = {leaf: [leaf] for leaf in root.leaves}
    for number, halves in atom.tables.halves.items():
        if number != root.number or not root.exact:
            sets[number] = [leaf for one in halves for leaf in one.leaves]
    for number in {id(atom.tables.of[number]): number for number in sets}.values():
        values, beyond = [0] * len(root.leaves), atom.tables.of[number].bound + 1
        each, more = divmod(beyond, len(sets[number]))
        for place, leaf in enumerate(sets[number]):
            values[places[leaf]] = each + (place < more)
        if root.exact:
            outside = next(p for leaf, p in places.items() if leaf not in sets[number])
            values[outside] -= sum(values)
        assert not atom.within(values)
        with localcontext(prec=40):
            chance = (-decimal(atom.exponent(values)) - Decimal(atom.scale)).exp()
            assert (chance / atom.proposed(values)).ln() <= LOG_FALLBACK


def stated_error(atom: Atom) -> float:
    """The bound of M by the numbers of leaves and halvings, and the largest table and exponent."""
    tables, root = atom.tables, atom.root
    exponents = [
        float(weights_of(node.law).exponent([tables.of[node.number].bound]))
        for node in nodes(root)
        if node.law and not node.exact
    ]

    def depth(number: int) -> int:
        return 1 + max((depth(half.number) for half in tables.halves.get(number, ())), default=-1)

    n, d, x = len(root.leaves), depth(root.number), max(exponents)
    longest = max(len(table.weights) for table in tables.of.values())
    each = 5 * longest + 8 * x + d * (x + 20 * math.log2(longest) + 3) + 40
    return 2.0**-53 * n * (2 * d + 4) * each


@pytest.mark.parametrize(
    "tree", one_in(2, [*TREES, one(9, LAPLACE, None), one(70, WIDE, WIDE)], first=1)
)
def test_no_proposal_is_rarer_than_its_bound(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """p ≤ e^{K̂ + M} q₁ for 25 outcomes, most of them at the ends of the tables, in decimals."""
    (root,) = tree.atoms
    atom, chosen, proposals = Atom(root), random.Random(7), list[Decimal]()
    ends = (0, 1, 1 << 40, (1 << 63) - 1, (1 << 64) - (1 << 40), (1 << 64) - 1)

    def words(count: int) -> np.ndarray:
        often = chosen.random()
        found = [
            chosen.choice(ends) if chosen.random() < often else chosen.getrandbits(64)
            for _ in range(count)
        ]
        return np.array(found, dtype=np.uint64)

    def compared(values: list[int], counts: list[int], word: int) -> bool:
        with localcontext(prec=40):
            proposed = (
                sum(Decimal(count).ln() for count in counts) - 61 * len(counts) * Decimal(2).ln()
            )
            proposals.append(-decimal(atom.exponent(values)) - Decimal(atom.scale) - proposed)
        return True

    monkeypatch.setattr(atom, "_accepted", compared)
    assert atom.tables.error <= stated_error(atom)
    for _ in range(5):
        assert atom._propose_inside()
    assert min(proposals) > -3 * atom.tables.error - 1e-7  # so hardly any is rejected
    monkeypatch.setattr(conditioned, "random_words", words)
    for _ in range(25):
        assert atom._propose_inside()
    assert max(proposals) <= 0


@pytest.mark.parametrize(
    ("law", "leaves"),
    [(DiscreteLaplaceLaw(0.3), 5), (DiscreteLaplaceLaw(2.0), 4), (DiscreteGaussianLaw(3.0), 5)],
)
def test_the_error_of_a_table_is_no_greater_than_stated(law: NoiseLaw, leaves: int) -> None:
    """The weights of the sum of leaves, cut off as the table is, in decimals."""
    (root,) = one(leaves, law, None).atoms
    tables = Atom(root).tables
    table, leaf = tables.of[root.number], tables.of[root.leaves[0]].bound
    with localcontext(prec=40):
        each = [(-decimal(weights_of(law).exponent([k]))).exp() for k in range(-leaf, leaf + 1)]
        exact = {0: Decimal(1)}
        for _ in range(leaves):
            added: dict[int, Decimal] = {}
            for s, weight in exact.items():
                for k, own in enumerate(each, -leaf):
                    added[s + k] = added.get(s + k, Decimal(0)) + weight * own
            exact = added
        scale = Decimal(2) ** table.power
        off = [
            abs(Decimal(found) * scale / exact[s] - 1)
            for s, found in enumerate(table.weights.tolist(), -table.bound)
            if abs(s) <= table.bound // 2  # nearer the ends sums of some leaves are cut off
        ]
    assert max(off) < tables.error
    assert tables.error < 1e-9


NESTED = Tree((*[n // 8 + 96 for n in range(96)], *[108] * 12, -1), (WIDE,) * 108 + (None,))


@pytest.mark.parametrize("tree", [SMALL[0][0], SMALL[2][0], taxi(2.0), one(37, WIDE, None), NESTED])
def test_a_table_holds_no_less_than_its_halves_add_up_to(tree: Tree) -> None:
    """As drawing needs: else rare outcomes would be too rare. In their own powers of two."""
    (root,) = tree.atoms
    tables = Atom(root).tables
    laws = {node.number: node.law for node in nodes(root) if node.children and not node.exact}
    seen = set()
    for number, halves in tables.halves.items():
        here, inside = tables.of[number], [tables.of[half.number] for half in halves]
        if id(here) in seen or len(inside) < 2:
            continue
        seen.add(id(here))
        sums = np.convolve(inside[0].weights, inside[1].weights)
        middle, bound = len(sums) // 2, here.bound
        sums = sums[middle - bound : middle + bound + 1]
        law = laws.get(number)
        if law is not None:
            sums = sums * weights_of(law).at(np.arange(-bound, bound + 1.0))
        ratios = np.ldexp(here.weights / sums, here.power - sum(one.power for one in inside))
        assert ratios.min() > 1 - tables.error
        assert ratios[bound] == pytest.approx(1, rel=1e-12)


def nodes(root: Node) -> list[Node]:
    found = [root]
    for node in found:
        found += node.children
    return found


def test_alike_counts_share_tables() -> None:
    """64 groups of 32: five halvings of a group, six of all."""
    tree = Tree((*[n // 32 + 2048 for n in range(2048)], *[2112] * 64, -1), (LAPLACE,) * 2113)
    (root,) = tree.atoms
    tables = Atom(root).tables
    assert len({id(table) for table in tables.of.values()}) == 1 + 5 + 6


def test_a_draw_is_decided_by_as_many_digits_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    third = 2**64 // 3
    for word, expected in ((third - 1, True), (third + 1, False), (0, True), (2**64 - 1, False)):
        assert happens(lambda: Decimal(1) / 3, word) is expected
    for more, expected in ((0, True), (2**64 - 1, False)):
        monkeypatch.setattr(secrets, "randbits", lambda bits, more=more: more)
        assert happens(lambda: Decimal(1) / 3, third) is expected


def epsilon(tree: Tree, moved: tuple[int, ...]) -> float:
    """Σ_v |Δ_v| / b_v over the counts that are not exact."""
    pairs = zip(tree.sums(moved), tree.laws, strict=True)
    return math.fsum(abs(d) / law.scale for d, law in pairs if law is not None and law.scale)


@pytest.mark.parametrize(
    ("tree", "moved"),
    [
        (two(LAPLACE, LAPLACE, EXACT), (1, 0, -1, 0, 0)),
        (two(LAPLACE, None, EXACT), (2, -1, -1, 0, 0)),
        (one(3, LAPLACE, EXACT), (1, -1, 0)),
    ],
)
def test_a_shift_that_keeps_what_is_exact_costs_the_noisy_counts_it_moves(
    tree: Tree, moved: tuple[int, ...]
) -> None:
    """max |ln P(u) / P(u − Δ)| = Σ |Δ_v| / b over the counts that are not exact."""
    law = enumerated(tree, 5)
    worst = max(
        abs(math.log(chance / law[other]))
        for values, chance in law.items()
        if (other := tuple(u - d for u, d in zip(values, moved, strict=True))) in law
    )
    assert worst == pytest.approx(epsilon(tree, moved))


@pytest.mark.parametrize("alpha", [1.5, 2.0])
def test_gaussian_noise_costs_the_squares(alpha: float) -> None:
    """The Rényi divergence is at most αρ, ρ = ½ Σ Δ_v² / σ², and hardly less: Δ = (1, −1, 0)."""
    law = enumerated(one(3, GAUSS, EXACT), 12)
    moment = 0.0
    for values, chance in law.items():
        other = tuple(u - d for u, d in zip(values, (1, -1, 0), strict=True))
        if other in law:
            moment += chance**alpha * law[other] ** (1 - alpha)
    divergence = math.log(moment) / (alpha - 1)
    cost = math.fsum(d * d / 2 for d in one(3, GAUSS, EXACT).sums((1, -1, 0)))
    assert divergence == pytest.approx(alpha * cost, rel=1e-4)
    assert divergence <= alpha * cost + 1e-9


def test_taxi_zones() -> None:
    """What 3,000 draws of a reference gave at ε = 1: zones are 0.807 · 270 off together, and the
    city 0.0025 · 270. Of 60 draws the mean is within 6 standard errors; the times are generous."""
    tree = taxi(1.0)
    start = time.process_time()
    noise = Conditioned(tree)
    built = time.process_time()
    sums = np.array([tree.sums(noise.draw()) for _ in range(60)])
    drawn = (time.process_time() - built) / 60
    off = np.abs(sums)
    zones, city = off[:, :263].sum(axis=1) / 270, off[:, 269] / 270
    assert abs(zones.mean() - 0.807) < 6 * zones.std() / math.sqrt(60) + 0.002
    assert abs(city.mean() - 0.0025) < 6 * city.std() / math.sqrt(60) + 0.0005
    assert built - start < 0.5
    assert drawn < 0.05
    expected = np.mean(variances(tree)[:263])
    assert np.var(sums[:, :263]) == pytest.approx(expected, rel=0.1)


def test_laplace_noise_costs_more_than_the_squares() -> None:
    """Two counts of a known total: the divergence of α near 1 exceeds Σ Δ²/2b², and keeps below
    ε²/2 with ε = 2/b."""
    tree = one(2, DiscreteLaplaceLaw(4.0), EXACT)
    law = enumerated(tree, 150)
    divergence = sum(
        chance * math.log(chance / law[values[0] - 1, values[1] + 1])
        for values, chance in law.items()
        if abs(values[0]) < 150
    )
    assert divergence > 2 * 0.5 / 16
    assert divergence < epsilon(tree, (1, -1)) ** 2 / 2


def test_exact_counts_cut_the_tree() -> None:
    laws = (LAPLACE, LAPLACE, LAPLACE, EXACT, LAPLACE, EXACT, None)
    tree = Tree((4, 4, 5, 5, 6, 6, -1), laws)
    assert [(atom.number, atom.exact, atom.leaves) for atom in tree.atoms] == [
        (5, True, (2,)),
        (6, False, (0, 1)),
    ]
    assert Conditioned(tree).draw()[2:] == [0, 0]


def test_what_is_no_tree_or_cannot_be_drawn() -> None:
    for parents, laws in (
        ((1, 0), (LAPLACE, LAPLACE)),
        ((2, -1), (LAPLACE, LAPLACE)),
        ((-1,), (LAPLACE, LAPLACE)),
        ((1, -1), (None, LAPLACE)),
    ):
        with pytest.raises(ValueError, match=r"every|no count"):
            Tree(parents, laws)
    with pytest.raises(ValueError, match="one law"):
        Conditioned(Tree((2, 2, -1), (LAPLACE, GAUSS, EXACT)))
    with pytest.raises(StatementTooComplex):
        Conditioned(one(50, DiscreteLaplaceLaw(100_000.0), EXACT))
    with pytest.raises(StatementTooComplex):
        Conditioned(one(50, DiscreteLaplaceLaw(100_000.0), None))
    assert Fraction(0) == weights_of(LAPLACE).exponent([0])
    with pytest.raises(FeatureNotSupported):
        weights_of(EXACT)


@pytest.mark.parametrize("scale", [10.4167, 40.0])
def test_hundreds_of_leaves_under_one_total(scale: float) -> None:
    """Texas has 254 counties: the weights of their sums are more than a float can hold."""
    law = DiscreteLaplaceLaw(scale)
    tree = Tree((-1, *[0] * 254), (DiscreteLaplaceLaw(0.0), *[law] * 254))
    noise = Conditioned(tree)
    assert sum(noise.draw()) == 0
    # Of so many the total says next to nothing of any one.
    assert variances(tree)[1] == pytest.approx(law.variance, rel=0.01)


@pytest.mark.parametrize("unsure", [False, True])
def test_groups_of_known_totals_are_drawn_at_once(
    monkeypatch: pytest.MonkeyPatch, unsure: bool
) -> None:
    """1,000 draws of four groups; where the table in floats never tells, by all digits."""
    if unsure:
        built = group_draw._table
        monkeypatch.setattr(
            group_draw, "_table", lambda n, b: dataclasses.replace(built(n, b), error=1)
        )
    wide, narrow_one = DiscreteLaplaceLaw(2.5), LAPLACE
    tree = Tree(
        (8, 9, 8, 9, 8, 10, 11, 11, -1, -1, -1, -1),
        (wide, narrow_one, wide, narrow_one, wide, wide, wide, wide, *[EXACT] * 4),
    )
    noise = Conditioned(tree)
    drawn = np.array([noise.draw() for _ in range(1_000)])
    assert (drawn[:, 5] == 0).all()
    for places, law, reach in (([0, 2, 4], wide, 30), ([1, 3], LAPLACE, 15), ([6, 7], wide, 40)):
        known = enumerated(one(len(places), law, EXACT), reach)
        assert (drawn[:, places].sum(axis=1) == 0).all()
        assert surprise(map(tuple, drawn[:, places].tolist()), known) > MISS
    # Those of one law are independent of each other.
    assert abs(np.corrcoef(drawn[:, 0], drawn[:, 6])[0, 1]) < 5 / math.sqrt(1_000)


@pytest.mark.parametrize(("cells", "scale"), [(2, 0.2), (2, 50.0), (254, 10.4), (3000, 0.3)])
def test_the_table_of_a_total_is_as_exact_as_it_says(cells: int, scale: float) -> None:
    table = group_draw._table(cells, scale)
    assert table.error < 1e-9
    with localcontext(prec=60):
        chances = itertools.islice(law_of_total(cells, scale), table.first + len(table.sums))
        sums = list(itertools.accumulate(chances))[table.first :]
        off = max(abs(Decimal(s) - t) for s, t in zip(table.sums.tolist(), sums, strict=True))
    assert off < table.error
