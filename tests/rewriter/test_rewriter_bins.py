"""Predicates on bins: decided alike for every value of a bin, or refused with the nearest edges."""

from __future__ import annotations

import random
from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.errors import BinCut, StatementError
from tallyveil.policy.domain import Attribute, Domain
from tests.rewriter.oracles import DuckDBOracle, agree
from tests.rewriter.world import World

DOMAIN = Domain(
    "person",
    (
        Attribute("whole", "bins", "INTEGER", (0, 10, 25, None), (0, 10, 25, 60), null_cell=3),
        Attribute("fine", "bins", "DOUBLE", (0.1, 0.3, None), (0.1, 0.3, 0.7), null_cell=2),
        Attribute("sex", "values", "VARCHAR", ("F", "M")),
    ),
)  # fmt: skip


@pytest.fixture(scope="module")
def binned() -> Iterator[World]:
    source = random.Random(5)
    rows = [
        (
            source.choice([None, *range(60)]),
            source.choice([None, 0.1, 0.2, 0.3, 0.30000000000000004, 0.5, 0.6999]),
            source.choice("FM"),
        )
        for _ in range(500)
    ]
    made = World(rows, DOMAIN)
    yield made
    made.close()


@pytest.fixture(scope="module")
def raw(binned: World) -> Iterator[DuckDBOracle]:
    with duckdb.connect() as connection:
        yield DuckDBOracle(connection, binned)


_CONSTANTS = {
    "whole": ["-1", "0", "5", "10", "10.0", "10.5", "25", "24", "60", "61", "5 * 2", "'25'", "1e1"],
    "fine": ["0", "0.1", "0.2", "0.3", "0.30000000000000004", "0.7", "1", "0.1 + 0.2", "3e-1"],
}


def _comparison(name: str) -> st.SearchStrategy[str]:
    constant = st.sampled_from([*_CONSTANTS[name], "null"])
    operator = st.sampled_from(["<", "<=", ">", ">=", "=", "<>"])
    return st.one_of(
        st.builds("{} {} {}".format, st.just(name), operator, constant),
        st.builds("{} {} {}".format, constant, operator, st.just(name)),
        st.builds(f"{name} between {{}} and {{}}".format, constant, constant),
        st.builds(f"{name} in ({{}}, {{}})".format, constant, constant),
        st.sampled_from([f"{name} is null", f"{name} is not null"]),
    )


_PREDICATES = st.recursive(
    st.one_of(_comparison("whole"), _comparison("fine"), st.just("sex = 'F'")),
    lambda inner: st.one_of(
        st.builds("({} and {})".format, inner, inner),
        st.builds("({} or {})".format, inner, inner),
        inner.map("not ({})".format),
        inner.map("case when {} then true else false end".format),
        inner.map("(({}) is true)".format),
        st.builds("coalesce({}, {})".format, inner, inner),
    ),
    max_leaves=4,
)


@given(predicate=_PREDICATES)
def test_what_is_answered_holds_for_the_raw_values(
    binned: World, raw: DuckDBOracle, predicate: str
) -> None:
    agree(binned, raw, f"select count(*) from person where {predicate}", ordered=False)


@given(predicate=_PREDICATES)
def test_sums_and_filters_too(binned: World, raw: DuckDBOracle, predicate: str) -> None:
    sql = (
        f"select sex, count(*) filter (where {predicate}), sum(case when {predicate} then 2 else 1 "
        f"end), count(*) from person group by sex having count(*) > 0"
    )
    agree(binned, raw, sql, ordered=False)


@pytest.mark.parametrize(
    ("predicate", "nearest"),
    [
        ("whole > 5", "0 and 10"),
        ("whole <= 24", "10 and 25"),
        ("20 > whole", "10 and 25"),
        ("whole between 10 and 24", "10 and 25"),
        ("fine < 0.2", "0.1 and 0.3"),
        ("whole in (-1, 30)", "25 and 60"),
    ],
)
def test_a_cut_names_the_nearest_edges(binned: World, predicate: str, nearest: str) -> None:
    with pytest.raises(BinCut) as caught:
        binned.plan(f"select count(*) from person where {predicate}")
    assert f"The nearest edges are {nearest}" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "expression",
    ["whole + 1 > 5", "abs(whole) < 10", "whole < fine", "whole = any(array[1, 2])",
     "coalesce(whole, 0) < 10", "cast(whole as text) = '10'", "whole % 2 = 0", "-whole > -10",
     "case whole when 10 then true end", "whole in (fine, 1)", "whole is distinct from 10",
     "greatest(whole, 3) < 10", "whole < 'NaN'::float8", "nullif(whole, 10) is null",
     "whole between fine and 10", "(whole, 1) = (10, 1)"],
)  # fmt: skip
def test_what_could_tell_values_of_a_bin_apart_is_refused(binned: World, expression: str) -> None:
    for sql in (
        f"select count(*) from person where {expression}",
        f"select count(*) filter (where {expression}) from person",
        f"select ({expression}) as k, count(*) from person group by k",
        f"select count(*) from person group by whole, fine having {expression}",
        f"select sum(case when {expression} then 1 else 0 end) from person",
    ):
        with pytest.raises(StatementError):
            binned.plan(sql)
