"""AND and OR of many operands: trees of little depth that say the same."""

from __future__ import annotations

import math

import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from tallyveil.rewriter.sql.short_forms import balance

_CONDITIONS = st.recursive(
    st.sampled_from(["a", "b = 1", "NOT c", "d IS NULL"]),
    lambda inner: st.builds(
        lambda word, parts: "(" + f" {word} ".join(parts) + ")",
        st.sampled_from(["AND", "OR"]),
        st.lists(inner, min_size=1, max_size=9),
    ),
)


@given(_CONDITIONS)
def test_nothing_changes_but_the_depth(condition: str) -> None:
    tree = sqlglot.parse_one(f"SELECT x FROM t WHERE {condition} AND a OR b OR c")
    written = tree.sql()
    balance(tree)
    assert tree.sql() == written
    assert all(child.parent is node for node in tree.walk() for child in node.iter_expressions())


@pytest.mark.parametrize("word", ["AND", "OR"])
@pytest.mark.parametrize("operands", [2, 3, 1000])
def test_the_depth_grows_as_the_logarithm(word: str, operands: int) -> None:
    tree = sqlglot.parse_one(f" {word} ".join(f"a{n}" for n in range(operands)))
    balance(tree)
    deepest = max(column.depth for column in tree.find_all(exp.Column))
    assert deepest == math.ceil(math.log2(operands))
    assert [column.name for column in tree.flatten()] == [f"a{n}" for n in range(operands)]
