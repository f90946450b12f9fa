"""`tallyveil mechanism compare`: expected losses side by side (COUNT Fig. 9)."""

from __future__ import annotations

import json as json_format
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Final

import typer

from tallyveil.cli.drawings import check_drawing
from tallyveil.cli.mechanism_arguments import levels_of, objective_of, ranges_of
from tallyveil.cli.text import aligned
from tallyveil.errors import StatementTooComplex
from tallyveil.mechanisms.matrix import (
    MAX_DESIGNED_RANGE,
    NAMED,
    Objective,
    score,
)

__all__ = ["NAMES", "Row", "compare"]

# Randomised response is not among the paper's curves: it answers another question.
NAMES: Final = ("GM", "WH", "WM", "EM", "UM")
# n, α and the loss of each of `NAMES`.
Row = tuple[int, Fraction, tuple[float, ...]]


def compare(ns: str, alphas: str, objective: str, plot: Path | None, *, json: bool) -> None:
    """Print the expected loss for every n and α; with ``plot``, draw it, over n if there are
    several, else over α.

    Raises InvalidParameterValue, StatementTooComplex, OutputError, FeatureNotSupported.
    """
    if plot is not None:
        check_drawing(plot)
    sizes, levels, loss = ranges_of(ns), levels_of(alphas), objective_of(objective)
    if sizes[-1] > MAX_DESIGNED_RANGE:
        raise StatementTooComplex(
            f"counts up to {sizes[-1]} are too many to design mechanisms for",
            hint=f"Compare up to --n {MAX_DESIGNED_RANGE}.",
        )
    rows: list[Row] = [(n, level, _losses(n, level, loss)) for level, n in product(levels, sizes)]
    if plot is not None:
        from tallyveil.cli.plotting import curves

        curves(rows, NAMES, str(loss), plot)
    if json:
        typer.echo("\n".join(_as_json(row, loss) for row in rows))
        return
    cells = [[f"{float(a):g}", n, *(f"{loss:.6f}" for loss in losses)] for n, a, losses in rows]
    typer.echo("\n".join(aligned(("alpha", "n", *NAMES), cells)[:-1]))
    typer.echo(
        f"Expected {loss} loss, a flat prior over 0..n."
        if loss.aggregate == "sum"
        else f"Expected {loss} loss: that of the worst truth."
    )


def _losses(n: int, alpha: Fraction, objective: Objective) -> tuple[float, ...]:
    return tuple(float(score(NAMED[name].make(n, alpha), objective)) for name in NAMES)


def _as_json(row: Row, objective: Objective) -> str:
    n, alpha, losses = row
    values: Sequence[tuple[str, float]] = list(zip(NAMES, losses, strict=True))
    return json_format.dumps(
        {"n": n, "alpha": str(alpha), "objective": str(objective), "loss": dict(values)}
    )
