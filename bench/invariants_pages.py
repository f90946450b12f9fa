"""The tables and figures of docs/experiments/invariants.md and two-views.md, from the lines that
bench.invariants prints. A table stands between <!-- its name --> and <!-- end -->.

Needs matplotlib for the figures, which is in the extra ``dev``.

    make -s bench NAME=invariants > lines
    .venv/bin/python -m bench.invariants_pages docs/experiments < lines
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

__all__ = ["PAGES", "TABLES", "written"]

Line: TypeAlias = Mapping[str, Any]
PAGES: Final = ("invariants.md", "two-views.md")

VIEWS: Final = {
    "conditioning": "conditioning, exact",
    "imaging": "imaging",
    "chain": "conditioning, by a chain",
}
BOX: Final = ("apple and banana", "apple", "banana", "nothing")
STATES: Final = {
    "before": (0.0, 0.7, 0.3, 0.0),
    "conditioning: there never was an apple": (0.0, 0.0, 1.0, 0.0),
    "imaging: the apple is gone": (0.0, 0.0, 0.3, 0.7),
}


class Table(NamedTuple):
    """``columns`` have a title each, and what it shows of a line."""

    experiment: str
    columns: Mapping[str, Callable[[Line], object]]
    chosen: Callable[[Line], bool] = bool

    def text(self, lines: Sequence[Line]) -> str:
        own = [one for one in lines if one["experiment"] == self.experiment and self.chosen(one)]
        rows = ([str(shown(one)) for shown in self.columns.values()] for one in own)
        return "".join(
            f"| {' | '.join(cells)} |\n"
            for cells in ([*self.columns], ["---"] * len(self.columns), *rows)
        )


def keyed(**titles: str) -> dict[str, Callable[[Line], object]]:
    """Columns by the key of what they show."""
    return {title: _getter(key) for key, title in titles.items()}


def _getter(key: str) -> Callable[[Line], object]:
    return lambda line: "–" if line[key] is None else line[key]


def _kind(line: Line) -> str:
    return "not negative" if line["nonnegative"] else "as estimated"


KIND: Final = {**keyed(epsilon="ε"), "values": _kind}

TABLES: Final = {
    "county slope": Table(
        "county slope",
        KIND
        | keyed(
            slope="slope of the mean error over log₁₀ of the size",
            standard_error="its standard error",
            states_missed_by="a total is missed by",
        ),
    ),
    "county deviation": Table(
        "county deviation",
        KIND | keyed(counties="counties", deviation="standard deviation", expected="expected"),
        lambda line: not line["nonnegative"],
    ),
    "county bias": Table(
        "county bias",
        KIND
        | keyed(
            median_size="median size", mean_error="mean error", standard_error="its standard error"
        ),
        lambda line: line["tenth"] == 1,
    ),
    "time": Table(
        "time",
        keyed(
            statement="statement",
            rows="rows",
            without_ms="without, ms",
            with_ms="with exact counts, ms",
            ratio="ratio",
        ),
    ),
    "campus": Table(
        "campus",
        keyed(
            outputs="outputs",
            rank="rank of the margins",
            deviation_of_the_noise="standard deviation of the noise",
            share_kept="share of it that is kept",
            expected="expected",
            margins_missed_by="a margin is missed by",
        ),
    ),
    "bought": Table(
        "bought",
        keyed(
            statement="statement",
            plain="plain",
            projected="projected",
            charged="charged",
            optimal="optimal",
            bound="bound",
        ),
    ),
    "one of three": Table(
        "one of three",
        keyed(
            scale="λ",
            conditioned="conditioned",
            continuous="5λ²/6, of continuous noise",
            projected="projected",
        ),
    ),
    "k-norm": Table(
        "k-norm",
        keyed(
            counts="n",
            projected="projected",
            k_norm="k-norm",
            drawn="k-norm, drawn",
            standard_error="standard error",
            conditioned="conditioned",
        ),
    ),
    "taxi": Table(
        "taxi",
        {
            **keyed(epsilon="ε"),
            "": lambda line: VIEWS[line["view"]],
            **keyed(
                city="city",
                boroughs="boroughs",
                zones="zones",
                effective_per_s="independent draws a second",
            ),
        },
    ),
    "chain": Table(
        "taxi",
        keyed(
            epsilon="ε", r_hat="R-hat", effective="independent draws", seconds="seconds",
            converged="converged",
        ),
        lambda line: line["view"] == "chain",
    ),
}  # fmt: skip

_PLACE: Final = re.compile(r"(<!-- (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)


def written(page: str, lines: Sequence[Line]) -> str:
    """The page with its tables from these lines."""
    return _PLACE.sub(
        lambda found: f"{found[1]}{TABLES[found[2]].text(lines)}{found[3]}",
        page,
    )


def _curves(lines: Sequence[Line], experiment: str) -> Iterator[Line]:
    return (line for line in lines if line["experiment"] == experiment)


def draw_invariants(lines: Sequence[Line], path: Path) -> None:
    """Mean errors by size, with two standard errors, for each cost with and without nonnegativity;
    and what a statement's squared error is of that without exact counts."""
    import matplotlib.pyplot as plt

    bias = list(_curves(lines, "county bias"))
    kinds = sorted({(line["epsilon"], line["nonnegative"]) for line in bias})
    drawing, places = plt.subplots(1, len(kinds) + 1, figsize=(3.4 * (len(kinds) + 1), 2.9))
    for place, kind in zip(places, kinds, strict=False):
        own = [line for line in bias if (line["epsilon"], line["nonnegative"]) == kind]
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
        place.set_title(f"ε = {kind[0]}, {_kind(own[0])}", fontsize=9)
    bought = list(_curves(lines, "bought"))
    for mark, key in (("o", "projected"), ("s", "charged"), ("x", "optimal"), ("^", "bound")):
        shares = [(line[key] or math.nan) / line["plain"] for line in bought]
        places[-1].plot(shares, range(len(bought)), mark, markersize=4, label=key)
    places[-1].set_yticks(range(len(bought)), [line["statement"] for line in bought], fontsize=6)
    places[-1].set_xlabel("squared error, of that without exact counts")
    places[-1].legend(fontsize=7)
    _save(drawing, path)


def draw_two_views(lines: Sequence[Line], path: Path) -> None:
    """Example 2.3, and the densities of one of three counts whose total is known."""
    import matplotlib.pyplot as plt

    drawing, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4))
    for place, (name, chances) in enumerate(STATES.items()):
        left.bar([n + 0.27 * (place - 1) for n in range(4)], chances, 0.25, label=name)
    left.set_xticks(range(4), BOX, fontsize=8)
    left.set_ylabel("probability")
    left.set_title("Example 2.3: no apple in the box", fontsize=9)
    left.legend(fontsize=7)
    for line in _curves(lines, "density"):
        label = f"{line['view']}, variance {line['variance']:.3f} λ²"
        right.plot(line["at"], line["density"], linewidth=1, label=label)
    right.set_xlabel("error of one count, in λ")
    right.set_ylabel("density")
    right.set_title("Three counts of a known total, Laplace noise of scale λ", fontsize=9)
    right.legend(fontsize=7)
    _save(drawing, path)


def _save(drawing: Any, path: Path) -> None:
    drawing.tight_layout()
    drawing.savefig(path, dpi=80, metadata={"Software": None})


def main() -> None:
    import matplotlib

    matplotlib.use("agg")
    folder = Path(sys.argv[1])
    lines = [json.loads(line) for line in sys.stdin if line.startswith("{")]
    for name in PAGES:
        page = folder / name
        page.write_text(written(page.read_text("utf-8"), lines), "utf-8")
    draw_invariants(lines, folder / "invariants.png")
    draw_two_views(lines, folder / "two-views.png")


if __name__ == "__main__":
    main()
