"""Figures for docs/experiments/counts.md, from the lines that bench.counts prints.

Needs the extra ``plot``: pip install 'tallyveil[plot]'.

    make -s bench NAME=counts | .venv/bin/python -m bench.count_plots docs/experiments
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt

Line = dict[str, Any]

MARKS = {"GM": "o-", "WH": "v:", "WM": "s-", "EM": "^-", "UM": "x--"}


def figure(
    path: Path,
    lines: Sequence[Line],
    panel: Callable[[Line], str],
    x: str,
    y: Callable[[Line, str], tuple[float, float]],
    label: str,
) -> None:
    """A panel for each value of ``panel``, a curve for each mechanism, y with its error bar."""
    panels = list(dict.fromkeys(panel(line) for line in lines))
    across = 3 if len(panels) % 3 == 0 else 2
    down = len(panels) // across
    drawing, axes = plt.subplots(down, across, figsize=(3.4 * across, 2.7 * down), squeeze=False)
    for place, name in zip(axes.flat, panels, strict=True):
        here = [line for line in lines if panel(line) == name]
        for mechanism, mark in MARKS.items():
            points = [y(line, mechanism) for line in here]
            place.errorbar(
                [line[x] for line in here],
                [mean for mean, _ in points],
                [error for _, error in points],
                fmt=mark,
                markersize=3,
                linewidth=1,
                label=mechanism,
            )
        place.set_title(name, fontsize=9)
        place.set_xlabel(x)
        place.set_ylabel(label)
    axes.flat[0].legend(fontsize=7)
    drawing.tight_layout()
    drawing.savefig(path, dpi=80, metadata={"Software": None})
    plt.close(drawing)


def measured(line: Line, mechanism: str) -> tuple[float, float]:
    return line[mechanism]["mean"], line[mechanism]["stderr"]


def main() -> None:
    folder = Path(sys.argv[1])
    lines = [json.loads(text) for text in sys.stdin]

    def of(bench: str) -> list[Line]:
        return [line for line in lines if line["bench"] == bench and "skipped" not in line]

    figure(
        folder / "counts-9.png",
        of("9"),
        lambda line: f"α = {line['alpha']}",
        "n",
        lambda line, mechanism: (line["L0"][mechanism], 0.0),
        "L0",
    )
    adult = [line for line in of("10") if line["alpha"] == "9/10"]
    if adult:
        path = folder / "counts-10.png"
        figure(path, adult, lambda line: str(line["target"]), "n", measured, "wrong answers")
    for bench, label in (("11", "off by more than 1"), ("13", "RMSE")):
        figure(
            folder / f"counts-{bench}.png",
            of(bench),
            lambda line: f"n = {line['n']}, α = {float_text(line['alpha'])}",
            "p",
            measured,
            label,
        )
    figure(
        folder / "counts-12.png",
        of("12"),
        lambda line: f"p = {line['p']}, α = {float_text(line['alpha'])}",
        "d",
        measured,
        "off by more than d",
    )


def float_text(alpha: str) -> str:
    numerator, denominator = alpha.split("/")
    return f"{int(numerator) / int(denominator):g}"


if __name__ == "__main__":
    main()
