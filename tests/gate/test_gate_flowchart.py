"""``auto(properties=…)``: COUNT Fig. 5 chooses, and what it chose is charged, told and kept."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import pytest

import tallyveil
from tallyveil.mechanisms import CountMechanism, chart_of, mechanism
from tallyveil.mechanisms.matrix.designing import flowchart
from tallyveil.mechanisms.matrix.properties import Property, closure, holds
from tests.gate.asking import Connect

ONE_AGE = "SELECT count(*) AS n FROM person WHERE age = 7"
MONOTONE = "designed(n=10, properties=ch+cm+rh+rm+s+wh)"


def used(connection: tallyveil.Connection) -> list[str]:
    return [name for (name,) in connection.execute("SELECT mechanism FROM dp.history").fetchall()]


def use(connection: tallyveil.Connection, name: str) -> None:
    connection.execute(f"SET dp.mechanism = '{name}'")


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


@pytest.mark.parametrize(
    ("epsilon", "properties", "recorded"),
    [
        # α = e^{−0.1} = 0.905 and n = 10 < 2α/(1−α) = 19.0; at ε = 0.5 that is 3.08.
        (0.1, "f", "fair(n=10)"),
        (0.1, "rm+s", "truncated_geometric(n=10)"),
        (0.1, "WH", "weakly_honest(n=10)"),
        (0.1, "cm", MONOTONE),
        (0.1, "ch+rh", MONOTONE),
        (0.5, "wh", "truncated_geometric(n=10)"),
        (0.5, "cm", MONOTONE),
        (0.7, "cm", "truncated_geometric(n=10)"),
    ],
)
def test_what_it_leads_to_is_recorded_and_has_the_properties(
    connect: Connect, epsilon: float, properties: str, recorded: str
) -> None:
    connection = connect({"epsilon": epsilon})
    use(connection, f"auto(n=10, properties={properties})")
    assert f"by {recorded}" in connection.explain(ONE_AGE)
    result = connection.execute(ONE_AGE)
    assert f"by {recorded};" in result.notices[0].message
    assert used(connection) == [recorded]
    assert connection.budget()[0]["spent"] == pytest.approx(epsilon)
    found = mechanism(recorded)
    assert isinstance(found, CountMechanism)
    matrix = found.matrix(1 / epsilon)
    assert all(holds(matrix, name) for name in closure(properties.split("+")))
    # The same noise by its own name is the same answer, free.
    use(connection, recorded)
    assert connection.execute(ONE_AGE).notices[0].message.startswith("answered from history")


def test_n_is_the_policys_where_it_says_so(connect: Connect) -> None:
    connection = connect({"epsilon": 0.1, "mechanism": "auto(properties=wh)"}, count_range=50)
    assert connection.execute("SHOW dp.mechanism").fetchall() == [("auto(properties=wh)",)]
    (notice,) = connection.execute(ONE_AGE).notices
    # 50 ≥ 19.0.
    assert "by truncated_geometric(n=50), n from the policy's count_range" in notice.message


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


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("auto()", "needs properties"),
        ("auto(n=5)", "needs properties"),
        ("auto(properties=xx)", "no property"),
        ("auto(properties=wh, objective=l1)", "auto has no parameter objective"),
        ("auto(n=501, properties=wh)", "from 1 to 500"),
        ("auto(n=0, properties=wh)", "n=0"),
        ("auto(WH, CM)", "is not a mechanism"),
    ],
)
def test_what_is_no_question_to_the_flowchart(connect: Connect, text: str, says: str) -> None:
    connection = connect()
    with pytest.raises(tallyveil.Error, match=says.replace("(", r"\(")):
        use(connection, text)
    assert connection.execute("SHOW dp.mechanism").fetchall() == [("auto",)]
    with pytest.raises(tallyveil.Error, match=r"defaults\.mechanism"):
        connect({"epsilon": 0.1, "mechanism": text})


@pytest.mark.parametrize(
    ("settings", "sql", "says", "hint"),
    [
        ({}, ONE_AGE, "needs a public range", "'auto(n=…, properties=wh)'"),
        ({"n": 9}, "SELECT sum(age) FROM person WHERE age = 7", "counts only", "laplace"),
        ({"n": 9, "half": 5}, ONE_AGE, "dp.half_width is set", "dp.epsilon"),
        ({"n": 151}, ONE_AGE, "too many to design", "Ask for property F"),
        ({"n": 9, "mechanisms": ["laplace"]}, ONE_AGE, "not among the mechanisms", "laplace"),
    ],
)
def test_what_it_cannot_answer_costs_nothing(
    connect: Connect, settings: dict[str, Any], sql: str, says: str, hint: str
) -> None:
    allowed = {"mechanisms": settings["mechanisms"]} if "mechanisms" in settings else {}
    connection = connect({"epsilon": 0.01}, **allowed)
    n = f"n={settings['n']}, " if "n" in settings else ""
    use(connection, f"auto({n}properties=wh)")
    if "half" in settings:
        connection.execute(f"SET dp.half_width = {settings['half']}")
    with pytest.raises(tallyveil.Error, match=says) as caught:
        connection.execute(sql)
    assert hint in str(caught.value.hint)
    assert math.isclose(connection.budget()[0]["spent"], 0)


def test_a_policy_that_allows_what_is_chosen_allows_the_choice(connect: Connect) -> None:
    connection = connect(mechanisms=["fair", "laplace"])
    use(connection, "auto(n=10, properties=f)")
    connection.execute(ONE_AGE)
    assert used(connection) == ["fair(n=10)"]
