"""Figures for docs/experiments/counts.md, from the lines that bench.counts prints.

Needs matplotlib, which is in the extra ``dev``.

    make -s bench NAME=counts | .venv/bin/python -m bench.count_plots docs/experiments
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt

Line = dict[str, Any]

MARKS = {"GM": "o-", "WH": "v:", "WM": "s-", "EM": "^-", "UM": "x--"}
# Figure 8: the programs for WH without and with a column property, between two bounds.
COMBINED = {"GM": "-", "WH without column": "v-", "WH and column": "s-", "EM": "^-"}


def figure(
    path: Path,
    lines: Sequence[Line],
    panel: Callable[[Line], str],
    x: Callable[[Line], tuple[str, float]],
    y: Callable[[Line, str], tuple[float, float]],
    label: str,
    marks: Mapping[str, str] = MARKS,
) -> None:
    """A panel for each value of ``panel``, a curve for each of ``marks``, y with its error bar.

    ``x`` gives the name of the axis and the place on it.
    """
    panels = list(dict.fromkeys(panel(line) for line in lines))
    across = 3 if len(panels) % 3 == 0 else 2
    down = len(panels) // across
    drawing, axes = plt.subplots(down, across, figsize=(3.4 * across, 2.7 * down), squeeze=False)
    for place, name in zip(axes.flat, panels, strict=True):
        here = [line for line in lines if panel(line) == name]
        for mechanism, mark in marks.items():
            points = [y(line, mechanism) for line in here]
            place.errorbar(
                [x(line)[1] for line in here],
                [mean for mean, _ in points],
                [error for _, error in points],
                fmt=mark,
                markersize=3,
                linewidth=1,
                label=mechanism,
            )
        place.set_title(name, fontsize=9)
        place.set_xlabel(x(here[0])[0])
        place.set_ylabel(label)
    axes.flat[0].legend(fontsize=7)
    drawing.tight_layout()
    drawing.savefig(path, dpi=80, metadata={"Software": None})
    plt.close(drawing)


def measured(line: Line, mechanism: str) -> tuple[float, float]:
    return line[mechanism]["mean"], line[mechanism]["stderr"]


def by(name: str) -> Callable[[Line], tuple[str, float]]:
    return lambda line: (name, line[name])


def combined(line: Line, curve: str) -> tuple[float, float]:
    """The middle of the combinations' scores, and how far the farthest of them is from it."""
    scores = line["L0"]
    if curve in scores:
        return scores[curve], 0.0
    column = curve == "WH and column"
    chosen = [
        scores[name] for name in scores if name not in ("GM", "EM") and column == ("C" in name)
    ]
    return (max(chosen) + min(chosen)) / 2, (max(chosen) - min(chosen)) / 2


def main() -> None:
    folder = Path(sys.argv[1])
    lines = [json.loads(text) for text in sys.stdin]

    def of(bench: str) -> list[Line]:
        return [line for line in lines if line["bench"] == bench and "skipped" not in line]

    figure(
        folder / "counts-8.png",
        of("8a") + of("8b"),
        lambda line: "α = 0.76" if line["bench"] == "8a" else "n = 8",
        lambda line: ("n", line["n"]) if line["bench"] == "8a" else ("α", value(line["alpha"])),
        combined,
        "L0",
        COMBINED,
    )
    figure(
        folder / "counts-9.png",
        of("9"),
        lambda line: f"α = {line['alpha']}",
        by("n"),
        lambda line, mechanism: (line["L0"][mechanism], 0.0),
        "L0",
    )
    adult = [line for line in of("10") if line["alpha"] == "9/10"]
    if adult:
        path = folder / "counts-10.png"
        figure(path, adult, lambda line: str(line["target"]), by("n"), measured, "wrong answers")
    for bench, label in (("11", "off by more than 1"), ("13", "RMSE")):
        figure(
            folder / f"counts-{bench}.png",
            of(bench),
            lambda line: f"n = {line['n']}, α = {value(line['alpha']):g}",
            by("p"),
            measured,
            label,
        )
    figure(
        folder / "counts-12.png",
        of("12"),
        lambda line: f"p = {line['p']}, α = {value(line['alpha']):g}",
        by("d"),
        measured,
        "off by more than d",
    )


def value(alpha: str) -> float:
    return float(Fraction(alpha))


if __name__ == "__main__":
    main()
