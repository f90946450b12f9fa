"""`tallyveil mechanism list` and `show`."""

from __future__ import annotations

import json as json_format
import math
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
import typer

from tallyveil.cli.mechanism_arguments import level_of, objective_of
from tallyveil.cli.text import aligned, up
from tallyveil.errors import InvalidParameterValue
from tallyveil.mechanisms import Additive, Relation, additive
from tallyveil.mechanisms.matrix import (
    NAMED,
    CountMatrix,
    Objective,
    Property,
    choose,
    design,
    epsilon_for,
    named,
    parse_properties,
    properties_of,
    score,
)
from tallyveil.mechanisms.measure import Measure
from tallyveil.rewriter.workload import Column, Workload

__all__ = ["listing", "show"]

_BEST: Final = "best"
_AUTO: Final = "auto"
_DESIGNED: Final = (_BEST, "designed")
_WIDEST: Final = 15  # larger matrices do not fit a line
_LOSSES: Final = (Objective("L0"), Objective("L0", beyond=1), Objective("L1"), Objective("L2"))


def listing(*, json: bool) -> None:
    """Print noise for any count first, then what needs a public range."""
    rows = [
        {
            "name": family.name,
            "for": "any count",
            "gives": _kind(family),
            "guarantee": family.guarantee,
        }
        for family in additive()
    ]
    rows += [
        {"name": m.name, "for": "0..n", "gives": f"{m.title}: {m.when}", "guarantee": m.guarantee}
        for m in NAMED.values()
    ]
    gives = "designed: the least expected loss with the properties asked for"
    guarantee = NAMED["GM"].guarantee
    rows.append({"name": _BEST, "for": "0..n", "gives": gives, "guarantee": guarantee})
    gives = "flowchart: GM, EM, WH or WM, whichever has the properties asked for at the least L0"
    rows.append({"name": _AUTO, "for": "0..n", "gives": gives, "guarantee": guarantee})
    if json:
        typer.echo(json_format.dumps(rows, ensure_ascii=False))
        return
    columns = ("name", "for", "gives")
    typer.echo("\n".join(aligned(columns, [[row[name] for name in columns] for row in rows])))
    typer.echo("What one guarantees: tallyveil mechanism show NAME …, or list --json.")


def show(
    name: str,
    n: int | None,
    alpha: str | None,
    epsilon: str | None,
    properties: str | None,
    objective: str | None,
    plot: Path | None,
    *,
    json: bool,
) -> None:
    """Print one mechanism; with ``plot``, draw its matrix.

    Raises InvalidParameterValue for an unknown name, or options that make no sense for it;
    StatementTooComplex for a design that is not found; OutputError, FeatureNotSupported.
    """
    level = level_of(alpha, epsilon)
    noise = {family.name: family for family in additive()}
    if name.lower() in noise:
        if (n, properties, objective, plot) != (None, None, None, None):
            raise InvalidParameterValue(
                f"{name} is noise for any count: it has no range, matrix or properties to choose",
                hint="Give it --alpha or --epsilon alone.",
            )
        _show_noise(noise[name.lower()], epsilon_for(level), json=json)
        return
    matrix = _matrix(name, n, level, properties, objective)
    guarantee = named("GM" if name.lower() in (*_DESIGNED, _AUTO) else name).guarantee
    if plot is not None:
        from tallyveil.cli.plotting import heatmap

        heatmap(matrix, plot)
    if json:
        typer.echo(json_format.dumps(_document(matrix, guarantee), ensure_ascii=False))
    else:
        typer.echo("\n".join(_lines(matrix, guarantee)))


def _matrix(
    name: str, n: int | None, level: Fraction, properties: str | None, objective: str | None
) -> CountMatrix:
    known = [*(family.name for family in additive()), *NAMED, _BEST, _AUTO]
    best = name.lower() in (*_DESIGNED, _AUTO)
    if "(" in name:
        raise InvalidParameterValue(
            f'"{name}" is for SQL', hint="Here its parameters are options: see --help."
        )
    try:
        maker = None if best else named(name)
    except InvalidParameterValue:
        raise InvalidParameterValue(
            f'there is no mechanism "{name}"', hint=f"Known: {', '.join(known)}."
        ) from None
    if n is None:
        raise InvalidParameterValue(
            f"{name} is for counts from 0 to a public n", hint="Give it, such as --n 8."
        )
    if name.lower() == _AUTO:
        if objective is not None:
            raise InvalidParameterValue(
                f"{_AUTO} is for L0", hint=f"An objective can be chosen for {_BEST}."
            )
        return choose(n, level, parse_properties(properties or ""))
    if maker is None:
        return design(n, level, parse_properties(properties or ""), objective_of(objective or "L0"))
    if properties is not None or objective is not None:
        raise InvalidParameterValue(
            f"{name} has the properties it has",
            hint=f"They are chosen for {_BEST} and {_AUTO}.",
        )
    return maker.make(n, level)


def _lines(matrix: CountMatrix, guarantee: str) -> list[str]:
    head = f"{matrix.name} for counts from 0 to {matrix.n}, alpha {float(matrix.alpha):.6g},"
    lines = [f"{head} epsilon {up(matrix.epsilon):g}"]
    if matrix.n <= _WIDEST:
        rows = matrix.probabilities()
        columns = ("output", *(f"truth {j}" if j == 0 else str(j) for j in range(matrix.n + 1)))
        cells = [[i, *(f"{p:.4f}" for p in row)] for i, row in enumerate(rows.tolist())]
        lines += aligned(columns, cells)[:-1]
    else:
        lines.append(f"Its {matrix.n + 1} by {matrix.n + 1} probabilities: --json, or --plot.")
    held = properties_of(matrix)
    lines.append("properties: " + (", ".join(_described(p) for p in Property if p in held) or "-"))
    losses = (f"{_short(loss)} {float(score(matrix, loss)):.6f}" for loss in _LOSSES)
    lines.append("expected loss over all truths: " + ", ".join(losses))
    return [*lines, f"guarantee: {guarantee}."]


def _document(matrix: CountMatrix, guarantee: str) -> dict[str, Any]:
    """``probabilities[i][j]`` is P[output i | truth j]."""
    held = properties_of(matrix)
    return {
        "mechanism": matrix.name,
        "n": matrix.n,
        "alpha": str(matrix.alpha),
        "epsilon": up(matrix.epsilon, 12),
        "properties": [str(p) for p in Property if p in held],
        "losses": {_short(loss): float(score(matrix, loss)) for loss in _LOSSES},
        "guarantee": guarantee,
        "probabilities": matrix.probabilities().tolist(),
    }


def _described(held: Property) -> str:
    return f"{held} ({held.name.lower().replace('_', ' ')})"


def _short(loss: Objective) -> str:
    return loss.penalty + (f",{loss.beyond}" if loss.beyond else "")


def _show_noise(family: Additive, epsilon: Fraction, *, json: bool) -> None:
    """What it does to one count at ε; where it has no cost in ε, at ρ = ε²/2."""
    pure = not family.needs.delta
    cost = epsilon if pure else epsilon**2 / 2
    scale = _scale_of_a_count(family, cost, pure)
    law = family.law(scale)
    row = {
        "mechanism": family.name,
        "unit": "epsilon" if pure else "rho",
        "cost": up(cost),
        "scale": float(f"{scale:.6g}"),
        "standard_deviation": float(f"{math.sqrt(law.variance):.6g}"),
        "half_width_95": law.half_width(0.95),
    }
    if json:
        typer.echo(json_format.dumps({**row, "guarantee": family.guarantee}, ensure_ascii=False))
        return
    typer.echo("\n".join(aligned(list(row), [list(row.values())])[:-1]))
    typer.echo(f"guarantee: {family.guarantee}.")


def _scale_of_a_count(family: Additive, cost: Fraction, pure: bool) -> float:
    one = np.zeros(1, dtype=np.int64)
    count = Workload("t", (Column.joint(("a",), (1,), 1, one, one, one + 1),))
    measure: Measure = "epsilon" if pure else "rho"
    return family.scales_for(count, cost, Relation("add_remove"), measure)[0]


def _kind(family: Additive) -> str:
    pure = not family.needs.delta
    return f"{family.name} noise, " + (
        "for every budget" if pure else "for budgets of rho, or with delta"
    )
