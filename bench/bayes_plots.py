"""Figures for docs/experiments/bayes.md, from the lines that bench.bayes prints.

Needs matplotlib, which is in the extra ``dev``.

    SHARED=… make -s bench NAME=bayes | .venv/bin/python -m bench.bayes_plots docs/experiments

The figures have the numbers that they have in the paper.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt

Line = dict[str, Any]

MARKS = {"baseline": "x--", "ols": "v:", "paper": "s-", "gate": "^-"}
METHODS = {"inversion": "o-", "probability_calculation": "s-", "monte_carlo": "^--"}


class Curve(NamedTuple):
    name: str
    mark: str
    x: Sequence[float]
    y: Sequence[float]


class Panel(NamedTuple):
    x: str
    y: str
    curves: Sequence[Curve]
    logarithmic: str = ""
    title: str = ""


def figure(path: Path, panels: Sequence[Panel], across: int) -> None:
    down = -(-len(panels) // across)
    drawing, axes = plt.subplots(down, across, figsize=(3.4 * across, 2.7 * down), squeeze=False)
    for place, panel in zip(axes.flat, panels, strict=True):
        for curve in panel.curves:
            place.plot(curve.x, curve.y, curve.mark, markersize=3, linewidth=1, label=curve.name)
        if "x" in panel.logarithmic:
            place.set_xscale("log")
        if "y" in panel.logarithmic:
            place.set_yscale("log")
        place.set_xlabel(panel.x)
        place.set_ylabel(panel.y)
        place.set_title(panel.title, fontsize=9)
        place.legend(fontsize=7)
    drawing.tight_layout()
    drawing.savefig(path, dpi=80, metadata={"Software": None})
    plt.close(drawing)


def curve(lines: Sequence[Line], x: str, y: str, name: str, mark: str) -> Curve:
    return Curve(name, mark, [line[x] for line in lines], [line[y] for line in lines])


def running_time(lines: Sequence[Line], against: str) -> Panel:
    curves = [curve(lines, against, "estimate_ms", "estimate", "o-"),
              curve(lines, against, "eq50_ms", "eq. 50 from scratch", "s--")]  # fmt: skip
    return Panel(against, "ms", curves, "y", "n = 100" if against == "m" else "m = 2n")


def three_methods(lines: Sequence[Line], against: str, title: str) -> Panel:
    curves = [
        curve(lines, against, f"{method}_ms", method.replace("_", " "), mark)
        for method, mark in METHODS.items()
    ]
    return Panel(against, "ms", curves, "y", title)


def errors(lines: Sequence[Line], x: str, method: str, bound: str) -> list[Panel]:
    """The method's time and its error, as x grows."""
    label = {"beta": "β", "samples": "sample size"}[x]
    name = method.replace("_", " ")
    time = [curve(lines, x, f"{method}_ms", name, METHODS[method]),
            curve(lines, x, "inversion_ms", "inversion", METHODS["inversion"])]  # fmt: skip
    error = [curve(lines, x, f"{method}_error", name, METHODS[method]),
             curve(lines, x, bound, "the paper's bound", "k:")]  # fmt: skip
    return [Panel(label, "ms", time, "xy"), Panel(label, "error (Def. 4.6)", error, "xy")]


def systems(lines: Sequence[Line], metrics: Sequence[str]) -> list[Panel]:
    return [
        Panel(
            "queries",
            metric,
            [
                Curve(line["system"], MARKS[line["system"]], line["after"], line["curves"][metric])
                for line in lines
            ],
        )
        for metric in metrics
    ]


def main() -> None:
    folder = Path(sys.argv[1])
    lines = [json.loads(text) for text in sys.stdin]

    def of(bench: str, **wanted: str) -> list[Line]:
        return [
            line
            for line in lines
            if line["bench"] == bench and all(line[key] == value for key, value in wanted.items())
        ]

    figure(
        folder / "bayes-5.png", [running_time(of("5", against=x), x) for x in ("m", "n")], across=2
    )
    by_m, by_n = of("posterior", against="m"), of("posterior", against="n")
    figure(
        folder / "bayes-6.png",
        [
            three_methods(by_m, "m", "n = 100"),
            three_methods(by_n, "n", "m = 500"),
        ],
        across=2,
    )
    beta = errors(of("posterior", against="beta"), "beta", "probability_calculation", "promised")
    figure(folder / "bayes-7.png", beta, across=2)
    sampled = errors(
        of("posterior", against="samples"), "samples", "monte_carlo", "monte_carlo_bound"
    )
    figure(folder / "bayes-8.png", sampled, across=2)
    for number, setting, metrics in (
        (9, "unbounded", ("cost", "E", "R_i")),
        (10, "bounded", ("R_a", "E", "R_i")),
    ):
        drawn = systems(of("answering", setting=setting), metrics)
        figure(folder / f"bayes-{number}.png", drawn, across=3)


if __name__ == "__main__":
    main()
