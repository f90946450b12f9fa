"""Wx is exact, whatever the coefficients and however sparse; and the cube shows nothing else."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
import pprint
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tallyveil.boundary import TrueAnswer, issue_receipt, open_answer
from tallyveil.cube import Cube, cube_product, marginals
from tallyveil.cube import cube as cube_module
from tallyveil.cube.cube import MAX_RECORDS
from tallyveil.cube.cube_product import exact_product
from tallyveil.cube.marginals import DENSE_CELLS, marginal, marginal_cache
from tallyveil.errors import ReceiptError, StatementTooComplex
from tallyveil.policy import Domain, parse_policy
from tallyveil.workload.workload import Column, Factor, Workload

SIZES = {"a": 3, "b": 4, "c": 2}


def domain(**sizes: int) -> Domain:
    attributes = {name: {"range": [0, size - 1]} for name, size in (sizes or SIZES).items()}
    table = {"budget": {"epsilon": 1}, "attributes": attributes}
    return parse_policy({"tables": {"t": table}}).tables["t"].domain


def int64(values: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.asarray(list(values), dtype=np.int64)


def cube_of(
    records: dict[tuple[int, ...], int], over: Domain | None = None, earlier: Cube | None = None
) -> Cube:
    over = over or domain()
    codes = tuple(int64(cell[axis] for cell in records) for axis in range(len(over.names)))
    return Cube(over, codes, int64(records.values()), earlier=earlier)


def column(
    axes: tuple[str, ...],
    shape: tuple[int, ...],
    height: int,
    entries: dict[tuple[int, int], int],
    multiplier: Fraction = Fraction(1),
) -> Column:
    ordered = sorted(entries)
    rows, cells = int64(r for r, _ in ordered), int64(c for _, c in ordered)
    coefficients = int64(entries[e] for e in ordered)
    return Column.joint(axes, shape, height, rows, cells, coefficients, multiplier)


def opened(cube: Cube, *columns: Column) -> tuple[tuple[int, ...], ...]:
    workload = Workload("t", columns)
    receipt = issue_receipt(1, workload.key, [1.0] * len(columns))
    return open_answer(cube.answer(workload), receipt)


all_cells = list(itertools.product(*(range(size) for size in SIZES.values())))
tables = st.dictionaries(st.sampled_from(all_cells), st.integers(1, 2**26), max_size=24)
coefficients = (
    st.integers(-3, 3) | st.integers(-(2**52), 2**52) | st.sampled_from([2**63 - 1, -(2**63)])
).filter(bool)


@st.composite
def factors(draw: st.DrawFn, axes: tuple[str, ...]) -> Factor:
    shape = tuple(SIZES[name] for name in axes)
    height = draw(st.integers(0, 5))
    size = int(np.prod(shape, dtype=np.int64))
    places = [(row, cell) for row in range(height) for cell in range(size)]
    entries = draw(st.dictionaries(st.sampled_from(places), coefficients)) if places else {}
    return column(axes, shape, height, entries).factors[0]


@st.composite
def columns(draw: st.DrawFn) -> Column:
    """Products of up to three factors, or some of a product's rows."""
    place = {name: draw(st.integers(-1, 2)) for name in SIZES}
    groups = [tuple(name for name in SIZES if place[name] == g) for g in range(3)]
    drawn = [draw(factors(axes)) for axes in groups if axes or draw(st.booleans())]
    whole = Column(tuple(drawn))
    if draw(st.booleans()) or not whole.height:
        return whole
    return whole.take(int64(sorted(draw(st.sets(st.integers(0, whole.height - 1))))))


def coefficient(factor: Factor, row: int, record: tuple[int, ...]) -> int:
    cell = 0
    for name, size in zip(factor.axes, factor.shape, strict=True):
        cell = cell * size + record[list(SIZES).index(name)]
    here = (factor.rows == row) & (factor.cells == cell)
    return int(factor.coefficients[here].sum())


def brute_force(records: dict[tuple[int, ...], int], asked: Column) -> tuple[int, ...]:
    """Every record and every row on its own, in Python's integers."""
    numbers = list(itertools.product(*(range(f.height) for f in asked.factors)))
    if asked.selected is not None:
        numbers = [numbers[i] for i in asked.selected.tolist()]
    return tuple(
        sum(
            n * math.prod(map(coefficient, asked.factors, number, itertools.repeat(record)))
            for record, n in records.items()
        )
        for number in numbers
    )


def fits(asked: Column) -> bool:
    largest = [max(map(abs, f.coefficients.tolist()), default=0) for f in asked.factors]
    return len(asked.factors) == 1 or math.prod(largest) < 2**63


def diagonal(*names: str) -> Column:
    """Of a product of single cells the rows whose places are the same."""
    sizes = [SIZES[name] for name in names]
    ones = [{(i, i): 1 + i for i in range(size)} for size in sizes]
    each = [column((n,), (len(own),), len(own), own) for n, own in zip(names, ones, strict=True)]
    whole = Column(tuple(one.factors[0] for one in each))
    places = [range(min(sizes))] * len(sizes)
    return whole.take(int64(np.ravel_multi_index(places, sizes)))


@example({(0, 0, 0): 3, (1, 1, 1): 4, (2, 1, 0): 5}, [diagonal("a", "b", "c")], 0)
@given(
    records=tables,
    asked=st.lists(columns().filter(fits), max_size=3),
    dense=st.sampled_from([DENSE_CELLS, 8, 3, 0]),
)
def test_answers_are_exact(
    records: dict[tuple[int, ...], int], asked: list[Column], dense: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for module in (marginals, cube_module, cube_product):
            patch.setattr(module, "DENSE_CELLS", dense)
        patch.setattr(cube_product, "_CHUNK", 2)
        assert opened(cube_of(records), *asked) == tuple(brute_force(records, c) for c in asked)


@given(
    records=tables,
    asked=st.lists(columns().filter(fits), max_size=3),
    ends=st.lists(st.integers(0, 8), max_size=4).map(sorted),
    after=st.sets(st.integers(0, 4)),
    dense=st.sampled_from([DENSE_CELLS, 3, 0]),
)
def test_a_cube_that_grows_answers_as_one(
    records: dict[tuple[int, ...], int],
    asked: list[Column],
    ends: list[int],
    after: set[int],
    dense: int,
) -> None:
    """Asked after some of the times that it has grown."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (marginals, cube_module, cube_product):
            patch.setattr(module, "DENSE_CELLS", dense)
        cube: Cube | None = None
        for number, (start, end) in enumerate(itertools.pairwise([0, *ends, len(records)])):
            cube = cube_of(dict([*records.items()][start : max(start, end)]), earlier=cube)
            if number in after or end == len(records):
                so_far = dict([*records.items()][: max(start, end)])
                found = tuple(brute_force(so_far, c) for c in asked)
                assert opened(cube, *asked) == found


@given(records=tables, data=st.data())
def test_columns_with_factors_in_common_are_exact(
    records: dict[tuple[int, ...], int], data: st.DataObject
) -> None:
    ours = [(name, data.draw(factors((name,)))) for name in SIZES for _ in range(2)]
    asked = []
    for _ in range(data.draw(st.integers(1, 6))):
        chosen = dict(data.draw(st.permutations(ours))[: data.draw(st.integers(0, 6))])
        asked.append(Column(tuple(chosen[name] for name in SIZES if name in chosen)))
    asked = [one for one in asked if fits(one)]
    assert opened(cube_of(records), *asked) == tuple(brute_force(records, c) for c in asked)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((("a",), ("b", "c")), (("a", "b"), ("c",))),  # grids of as many axes
        ((("a",), ("b",), ("c",)), (("a", "b", "c"),)),
    ],
)
def test_a_factor_in_common_beside_others_of_the_same_axes_is_exact(one: Any, other: Any) -> None:
    """Components may join the same attributes in different ways."""
    over = domain(a=2, b=2, c=2, d=2)
    records = {cell: 3**n for n, cell in enumerate(itertools.product(range(2), repeat=4))}
    common = column(("d",), (2,), 1, {(0, 1): 1}).factors
    asked = [
        Column(
            tuple(column(axes, (2,) * len(axes), 1, {(0, 1): 1}).factors[0] for axes in joined)
            + common
        )
        for joined in (one, other, one)
    ]
    values = opened(cube_of(records, over), *asked)
    for (found,), joined in zip(values, (one, other, one), strict=True):
        chosen = {"d": 1} | {axis: axis == axes[-1] for axes in joined for axis in axes}
        assert found == records[tuple(int(chosen[name]) for name in "abcd")]


@pytest.mark.parametrize("coefficient", [1, 2**31 - 1, 2**31, 2**52, 2**63 - 1, -(2**63)])
def test_the_largest_table_does_not_overflow(coefficient: int) -> None:
    asked = column(("c",), (2,), 1, {(0, 0): coefficient, (0, 1): coefficient})
    half = MAX_RECORDS // 2
    assert exact_product(asked.factors[0], int64([half, MAX_RECORDS - half])) == [
        coefficient * MAX_RECORDS
    ]


def test_coefficients_beyond_64_bits_are_refused_whatever_the_counts() -> None:
    wide = [column((n,), (SIZES[n],), 1, {(0, 0): 2**32}).factors[0] for n in "ab"]
    with pytest.raises(ValueError, match="exceeds 64 bits"):
        opened(cube_of({}), Column(tuple(wide)))


def test_a_product_over_more_cells_than_an_index_can_name() -> None:
    """10^30 cells, all axes asked, each on its own."""
    axes = {f"a{i}": 10**6 for i in range(5)}
    cube = cube_of({(1, 2, 3, 4, 5): 7, (1, 2, 3, 4, 6): 2, (9, 2, 3, 4, 5): 1}, domain(**axes))
    last = column(("a4",), (10**6,), 2, {(0, 5): 1, (1, 6): 3}).factors[0]
    first = [
        column((name,), (10**6,), 1, {(0, i + 1): 1}).factors[0] for i, name in enumerate(axes)
    ][:4]
    assert opened(cube, Column((*first, last))) == ((7, 6),)


def test_a_multiplier_is_left_to_the_mechanism() -> None:
    asked = column((), (), 1, {(0, 0): 3}, Fraction(1, 7))
    assert opened(cube_of({(0, 0, 0): 5}), asked) == ((15,),)


def test_cells_beyond_a_dense_marginal() -> None:
    """10^18 cells, of which a few are in use and a few are asked."""
    huge = domain(a=10**6, b=10**6, c=10**6)
    records = {(0, 0, 0): 3, (999_999, 999_999, 999_999): 4, (1, 2, 3): 5}
    asked = column(
        ("a", "b", "c"),
        (10**6,) * 3,
        4,
        {(0, 0): 1, (1, 10**18 - 1): 1, (2, 10**12 + 2 * 10**6 + 3): 2, (3, 17): 1},
    )
    assert opened(cube_of(records, huge), asked) == ((3, 4, 10, 0),)
    assert opened(cube_of({}, huge), asked) == ((0, 0, 0, 0),)


def test_a_domain_larger_than_an_index() -> None:
    axes = {f"a{i}": 10**6 for i in range(5)}
    huge = domain(**axes)
    cube = cube_of({(1, 2, 3, 4, 5): 7}, huge)
    assert opened(cube, column(("a4",), (10**6,), 1, {(0, 5): 1})) == ((7,),)
    with pytest.raises(ValueError, match="more cells than an index"):
        opened(cube, column(huge.names, (10**6,) * 5, 1, {(0, 5): 1}))


@pytest.mark.parametrize(
    "asked",
    [
        column(("a",), (4,), 1, {(0, 0): 1}),
        column(("b", "a"), (4, 3), 1, {(0, 0): 1}),
    ],
)
def test_a_workload_for_another_domain_is_refused(asked: Column) -> None:
    with pytest.raises(ValueError, match="another domain"):
        cube_of({}).answer(Workload("t", (asked,)))


def test_a_workload_for_another_table_is_refused() -> None:
    with pytest.raises(ValueError, match="asks u, not t"):
        cube_of({}).answer(Workload("u", ()))


def test_the_cache_drops_the_oldest_and_keeps_even_what_fills_it() -> None:
    codes, counts = int64([0, 1]), int64([1, 1])
    made: list[str] = []

    def get(name: str, cells: int = 1000) -> None:
        def compute() -> Any:
            made.append(name)
            return marginal(codes, cells, counts)

        cache.get((name,), compute)

    cache = marginal_cache(room=64_000)
    for name in "abcdefghaibx":
        get(name)
    assert "".join(made) == "abcdefghibx"
    for _ in range(2):
        get("large", 100_000)
    assert made.count("large") == 1


def test_threads_get_the_same_answers() -> None:
    records = {cell: i + 1 for i, cell in enumerate(all_cells)}
    cube = cube_of(records)
    asked = [
        column((n,), (SIZES[n],), SIZES[n], {(i, i): 1 for i in range(SIZES[n])}) for n in SIZES
    ]
    expected = tuple(brute_force(records, c) for c in asked)
    with ThreadPoolExecutor(4) as threads:
        seen = list(threads.map(lambda _: opened(cube, *asked), range(80)))
    assert seen == [expected] * 80


SECRET = 918273645


def test_a_cube_shows_public_facts_only(counts: Callable[..., list[int]]) -> None:
    cube = cube_of({(0, 0, 0): SECRET})
    assert type(cube.answer(Workload("t", ()))) is TrueAnswer
    assert counts(cube, "a") == [SECRET, 0, 0]
    assert repr(cube) == str(cube) == f"{cube}" == "Cube(t: a, b, c; 24 cells)"
    assert str(SECRET) not in pprint.pformat([cube, cube._counts])
    with pytest.raises(TypeError):
        vars(cube)
    for doubled in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="confidential"):
            doubled(cube)
    faces = ["answer", "counts_units", "digest", "domain", "has_ready", "records"]
    assert [name for name in dir(cube) if not name.startswith("_")] == faces


def test_records_are_sealed_under_a_key_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    held = {(0, 1, 0): 3, (2, 3, 1): 2, (2, 0, 1): 1}
    cube = cube_of(held)
    single = column(("b",), (4,), 4, {(i, i): 1 for i in range(4)})
    joint = column(("a", "c"), (3, 2), 6, {(i, i): 1 for i in range(6)})
    workload = Workload("t", (single, joint))
    sealed = cube.records(workload)
    assert type(sealed) is TrueAnswer
    with pytest.raises(ReceiptError, match="another workload"):
        open_answer(sealed, issue_receipt(1, workload.key, [1.0, 1.0]))
    with pytest.raises(ReceiptError, match="another workload"):
        open_answer(cube.answer(workload), issue_receipt(1, workload.records_key, [1.0, 1.0]))
    b, ac = open_answer(sealed, issue_receipt(1, workload.records_key, [1.0, 1.0]))
    expected = [(j, 2 * i + k) for (i, j, k), n in held.items() for _ in range(n)]
    assert sorted(zip(b, ac, strict=True)) == sorted(expected)
    monkeypatch.setattr(cube_module, "MAX_CODES", 17)
    with pytest.raises(StatementTooComplex, match="17 values"):
        cube.records(workload)
