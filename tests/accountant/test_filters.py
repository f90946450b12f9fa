"""The filters where charges are translates, and translates are given up: against adding up anew."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.accountant import Share
from tallyveil.accountant.budgets.filters import Filters
from tallyveil.mechanisms import Neighbours, mechanism

LAPLACE = mechanism("laplace")


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@given(data=st.data())
def test_what_is_given_up_is_counted_as_asked(
    cubes: Any, neighbours: Neighbours, data: st.DataObject
) -> None:
    """A translate loses what another release does, which stands for the other rows."""
    shares = {name: Share(Fraction(5)) for name in ("ann", "bob")}
    tables = ("person", "visit")
    accounts = {t: cubes.account(neighbours=neighbours, shares=shares, table=t) for t in tables}
    relation = accounts["person"].relation

    def loss(release: Any) -> Any:
        return LAPLACE.loss(release.workload, release.scales, relation, "epsilon")

    filters, made = Filters.unused(accounts), list[tuple[str, str, Any, Any]]()
    for release in data.draw(cubes.histories):
        table = data.draw(st.sampled_from(tables))
        analyst = data.draw(st.sampled_from(["ann", "bob", "carol"]))
        own = data.draw(st.none() | cubes.histories.map(lambda history: history[0]))
        plainly = data.draw(st.booleans())
        as_asked = loss(release)
        charged = as_asked if own is None else loss(own)
        if plainly:
            made = [(t, who, a if t == table else c, a) for t, who, c, a in made]
        made.append((table, analyst, charged, as_asked))
        filters = filters.after(table, analyst, charged, as_asked, plainly=plainly)
        anew = Filters.unused(accounts)
        given_up = Filters.unused(accounts)
        for t, who, counted, asked in made:
            anew = anew.after(t, who, counted)
            given_up = given_up.after(t, who, asked if t == "person" else counted)
        for whose, meter in filters.meters.items():
            assert meter.spent == anew.meters[whose].spent
        for whose, meter in filters.given_up("person").meters.items():
            assert meter.spent == given_up.meters[whose].spent
        assert filters.meters.keys() == anew.meters.keys()
    assert set(filters.as_asked) <= set(filters.meters)
