"""The figure of docs/experiments/two-views.md, from the lines that bench.two_views prints.

Needs the extra ``plot``: pip install 'tallyveil[plot]'.

    make -s bench NAME=two_views | .venv/bin/python -m bench.two_views_plots docs/experiments
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt

BOX = ("apple and banana", "apple", "banana", "nothing")
STATES = {
    "before": (0.0, 0.7, 0.3, 0.0),
    "conditioning: there never was an apple": (0.0, 0.0, 1.0, 0.0),
    "imaging: the apple is gone": (0.0, 0.0, 0.3, 0.7),
}


def main() -> None:
    folder = Path(sys.argv[1])
    lines = [json.loads(text) for text in sys.stdin]
    drawing, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4))
    for place, (name, chances) in enumerate(STATES.items()):
        left.bar([n + 0.27 * (place - 1) for n in range(4)], chances, 0.25, label=name)
    left.set_xticks(range(4), BOX, fontsize=8)
    left.set_ylabel("probability")
    left.set_title("Example 2.3: no apple in the box", fontsize=9)
    left.legend(fontsize=7)
    for line in lines:
        if line["part"] == "density":
            label = f"{line['view']}, variance {line['variance']:.3f} λ²"
            right.plot(line["at"], line["density"], linewidth=1, label=label)
    right.set_xlabel("error of one count, in λ")
    right.set_ylabel("density")
    right.set_title("Three counts of a known total, Laplace noise of scale λ", fontsize=9)
    right.legend(fontsize=7)
    drawing.tight_layout()
    drawing.savefig(folder / "two-views.png", dpi=80, metadata={"Software": None})


if __name__ == "__main__":
    main()
