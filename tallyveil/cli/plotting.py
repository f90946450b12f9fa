"""Drawings of mechanisms, spending and posteriors, by matplotlib if it is installed.

Each function raises OutputError for an unsupported format or a path that cannot be written, and
FeatureNotSupported without matplotlib.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tallyveil.errors import FeatureNotSupported, OutputError

if TYPE_CHECKING:
    from tallyveil.accountant import Balance, OdometerReading
    from tallyveil.mechanisms.matrix.count_matrix import CountMatrix

__all__ = ["check_drawing", "curves", "heatmap", "posteriors", "spending"]

_FORMATS: Final = (".png", ".svg", ".pdf")
_MARKS: Final = ("o-", "v:", "s-", "^-", "x--")
_LEGIBLE: Final = 12  # the largest n at which numbers fit the fields of a heatmap


def check_drawing(path: Path) -> None:
    """Raise OutputError if the path's ending is not a supported format."""
    if path.suffix not in _FORMATS:
        raise OutputError(
            f"unsupported format {path.suffix or path}",
            hint=f"End the file's name in {' or '.join(_FORMATS)}.",
        )


def heatmap(matrix: CountMatrix, path: Path) -> None:
    """Draw P[output | truth] as colours, like COUNT Fig. 1, 2 and 7."""
    probabilities = matrix.probabilities()
    side = min(9.0, 3.2 + 0.42 * matrix.n)
    with _figure(path, 1, (side + 1.0, side)) as axes:
        place = axes[0]
        image = place.imshow(probabilities, cmap="viridis", vmin=0, origin="upper")
        if matrix.n <= _LEGIBLE:
            middle = probabilities.max() / 2
            for (i, j), p in np.ndenumerate(probabilities):
                colour = "black" if p > middle else "white"
                place.text(j, i, f"{p:.2f}", ha="center", va="center", color=colour, fontsize=7)
        ticks = range(0, matrix.n + 1, 1 + matrix.n // 16)
        place.set_xticks(ticks)
        place.set_yticks(ticks)
        place.set_xlabel("true count")
        place.set_ylabel("reported count")
        place.set_title(
            f"{matrix.name}\nn = {matrix.n}, α = {float(matrix.alpha):.4g}", fontsize=10
        )
        place.figure.colorbar(image, ax=place, label="probability", fraction=0.046)


def curves(
    rows: Sequence[tuple[int, Fraction, tuple[float, ...]]],
    names: Sequence[str],
    loss: str,
    path: Path,
) -> None:
    """Draw expected loss over n, a panel for each α; over α if there is only one n (COUNT
    Fig. 9)."""
    over_n = len({n for n, _, _ in rows}) > 1
    panels = sorted({alpha if over_n else Fraction(n) for n, alpha, _ in rows})
    with _figure(path, len(panels), (3.6 * len(panels) + 0.6, 3.4)) as axes:
        for place, panel in zip(axes, panels, strict=True):
            here = [row for row in rows if panel == (row[1] if over_n else row[0])]
            for name, mark, values in zip(
                names, _MARKS, zip(*(losses for _, _, losses in here), strict=True), strict=True
            ):
                across = [n if over_n else float(alpha) for n, alpha, _ in here]
                place.plot(across, values, mark, markersize=4, linewidth=1.2, label=name)
            place.set_title(f"α = {panel}" if over_n else f"n = {panel}", fontsize=10)
            place.set_xlabel("largest possible count n" if over_n else "privacy level α")
            if over_n:
                place.xaxis.get_major_locator().set_params(integer=True)
            place.grid(alpha=0.3)
        axes[0].set_ylabel(f"expected loss, {loss}")
        axes[0].legend(fontsize=8)


def spending(tables: Sequence[tuple[str, Balance, Sequence[OdometerReading]]], path: Path) -> None:
    """Draw what each table has spent over time, as steps, and its budget, as a line."""
    with _figure(path, len(tables), (4.6 * len(tables) + 0.6, 3.4)) as axes:
        for place, (name, balance, readings) in zip(axes, tables, strict=True):
            times = [reading.entry.time for reading in readings]
            spent = [float(reading.spent) for reading in readings]
            place.step(times, spent, "o-", where="post", markersize=4, label="spent")
            place.axhline(float(balance.budget), color="black", linestyle="--", label="budget")
            place.set_ylim(bottom=0)
            place.set_title(name, fontsize=10)
            place.set_ylabel(balance.measure)
            place.tick_params(axis="x", labelrotation=30)
            place.grid(alpha=0.3)
            place.legend(fontsize=8)


def posteriors(
    panels: Sequence[tuple[str, Sequence[tuple[float, float]], tuple[float, float]]],
    level: Fraction,
    path: Path,
) -> None:
    """Draw a panel for each posterior: title, possible answers with their probabilities, and the
    interval at ``level``."""
    number = max(1, len(panels))
    with _figure(path, number, (3.0 * number + 0.6, 3.4)) as axes:
        for place, (title, curve, (low, high)) in zip(axes, panels, strict=False):
            answers, chances = zip(*curve, strict=True)
            inside = [low <= answer <= high for answer in answers]
            share = f"{float(level * 100):g} %"
            place.step(answers, chances, where="mid", linewidth=1.2)
            place.fill_between(answers, chances, where=inside, step="mid", alpha=0.25, label=share)
            place.set_ylim(bottom=0)
            place.set_title(title, fontsize=9)
            place.set_xlabel("true answer")
            place.tick_params(axis="x", labelrotation=30)
            place.grid(alpha=0.3)
            place.legend(fontsize=8)
        axes[0].set_ylabel("posterior probability")


@contextmanager
def _figure(path: Path, panels: int, size: tuple[float, float]) -> Iterator[list[Any]]:
    """Yield axes side by side, and save the figure to ``path`` at the end."""
    check_drawing(path)
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise FeatureNotSupported(
            "drawing needs matplotlib, which is not installed",
            hint="Install it: pip install 'tallyveil[plot]'.",
        ) from None
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    yield list(figure.subplots(1, panels, squeeze=False)[0])
    try:
        figure.savefig(path, dpi=160)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}") from None
