"""``auto(properties=…)``: COUNT Fig. 5 chooses, and what it chose is charged, told and kept."""

from __future__ import annotations

from itertools import combinations

from tallyveil.mechanisms import CountMechanism, chart_of
from tallyveil.mechanisms.matrix.designing import flowchart
from tallyveil.mechanisms.matrix.properties import Property, closure


def figure_5(n: int, alpha: float, asked: frozenset[Property]) -> str:
    """The flowchart as printed, and §IV-D's sentence for α ≤ 1/2."""
    if "F" in asked:
        return "EM"
    column, honest = bool(asked & {"CH", "CM"}), "WH" in asked
    if alpha <= 0.5 or not (column or honest):
        return "GM"
    if column:
        return "WM"
    return "GM" if n >= 2 * alpha / (1 - alpha) else "WH"


def test_all_128_combinations_lead_where_the_figure_says() -> None:
    for size in range(8):
        for asked in map(frozenset, combinations(Property, size)):
            for n, alpha in ((4, "0.9"), (19, "0.9"), (4, "0.5"), (2, "0.3"), (4, "2/3")):
                numerator, _, denominator = alpha.partition("/")
                level = float(numerator) / float(denominator or 1)
                assert flowchart(n, alpha, asked) == figure_5(n, level, closure(asked)), (
                    n, alpha, asked,
                )  # fmt: skip


def test_columns_at_different_scales_share_one_mechanism() -> None:
    """At ε = 1/2 GM is weakly honest on 0..10 (10 ≥ 3.08), at ε = 1/10 it is not (10 < 19.0)."""
    chart = chart_of("auto(properties=wh)")
    assert chart is not None
    assert chart.chosen(10, (2.0, 0.0)).name == "truncated_geometric(n=10)"
    assert chart.chosen(10, (2.0, 10.0)).name == "weakly_honest(n=10)"
    assert chart.chosen(10, (0.0,)).name == "truncated_geometric(n=10)"
    fair = chart_of("auto(properties=f)")
    assert fair is not None
    assert {fair.chosen(10, (scale,)).name for scale in (0.0, 10.0)} == {"fair(n=10)"}
    both = chart.chosen(10, (10.0, 2.0))
    assert both.matrix(2.0).weights == CountMechanism("truncated_geometric", 10).matrix(2.0).weights
