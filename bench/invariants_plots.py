"""The figure of docs/experiments/invariants.md, from the lines that bench.invariants prints.

Needs the extra ``plot``: pip install 'tallyveil[plot]'.

    make -s bench NAME=invariants | .venv/bin/python -m bench.invariants_plots docs/experiments
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt


def drawn(lines: Sequence[dict[str, Any]], path: Path) -> None:
    """Mean errors by size, with two standard errors, for each cost with and without nonnegativity;
    and what a statement's squared error is of that without exact counts."""
    bias = [line for line in lines if line["experiment"] == "county bias"]
    kinds = sorted({(line["epsilon"], line["nonnegative"]) for line in bias}, reverse=True)
    drawing, places = plt.subplots(1, len(kinds) + 1, figsize=(3.4 * (len(kinds) + 1), 2.9))
    for place, (epsilon, nonnegative) in zip(places, sorted(kinds), strict=False):
        own = [n for n in bias if (n["epsilon"], n["nonnegative"]) == (epsilon, nonnegative)]
        place.errorbar(
            [line["median_size"] for line in own],
            [line["mean_error"] for line in own],
            [2 * line["standard_error"] for line in own],
            fmt="o",
            markersize=3,
        )
        place.axhline(0, linewidth=0.5, color="black")
        place.set_xscale("log")
        place.set_xlabel("median size of a tenth of the counties")
        place.set_ylabel("mean error")
        kind = "not negative" if nonnegative else "as estimated"
        place.set_title(f"ε = {epsilon}, {kind}", fontsize=9)
    bought = [line for line in lines if line["experiment"] == "bought"]
    for mark, key in (("o", "projected"), ("s", "charged"), ("^", "bound")):
        shares = [line[key] / line["plain"] for line in bought]
        places[-1].plot(shares, range(len(bought)), mark, markersize=4, label=key)
    places[-1].set_yticks(range(len(bought)), [line["statement"] for line in bought], fontsize=6)
    places[-1].set_xlabel("squared error, of that without exact counts")
    places[-1].legend(fontsize=7)
    drawing.tight_layout()
    drawing.savefig(path, dpi=80, metadata={"Software": None})
    plt.close(drawing)


if __name__ == "__main__":
    drawn(
        [json.loads(line) for line in sys.stdin if line.startswith("{")],
        Path(sys.argv[1]) / "invariants.png",
    )
