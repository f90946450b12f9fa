"""Conditioning and imaging side by side: TWO-VIEWS' taxi experiment, and three counts of one total.

    make bench NAME=two_views
    RUNS=3000 make bench NAME=two_views

263 zones in six boroughs of one city, each count with Laplace noise of scale 1/ε of its own, made
consistent: by exact conditioning, by a Markov chain (M_MH) and by imaging, RUNS draws of each. A
line has the mean L1 distance at each level, divided by 270 as the paper has it, and how long a draw
takes of the processor's time; for the chain also what its diagnostics say. The noise does not
depend on the counts, so none are read. `bench.invariants_pages` draws the densities.
"""

from __future__ import annotations

import math
import os
import time

import numpy as np

from bench.chains import Chains
from bench.imaging import Imaged
from bench.measure import report
from tallyveil.arrays import FloatArray, IntArray
from tallyveil.inference import DiscreteLaplaceLaw
from tallyveil.inference.conditional.tree import Tree
from tallyveil.mechanisms.constrained.conditioned import Conditioned

RUNS = int(os.environ.get("RUNS", "1000"))
SIZES = (43, 61, 1, 69, 69, 20)
ZONES, COUNTS = sum(SIZES), sum(SIZES) + len(SIZES) + 1
STEP = 0.01


def hierarchy(scale: float) -> Tree:
    zones = [ZONES + borough for borough, size in enumerate(SIZES) for _ in range(size)]
    boroughs = [COUNTS - 1] * len(SIZES)
    return Tree((*zones, *boroughs, -1), (DiscreteLaplaceLaw(scale),) * COUNTS)


def levels(sums: IntArray) -> dict[str, float]:
    """Mean L1 distances, divided by the number of counts."""
    off = np.abs(sums).mean(axis=0) / COUNTS
    return {
        "city": round(float(off[COUNTS - 1]), 5),
        "boroughs": round(float(off[ZONES : COUNTS - 1].sum()), 5),
        "zones": round(float(off[:ZONES].sum()), 4),
    }


def taxi(epsilon: float) -> None:
    tree = hierarchy(1 / epsilon)
    for name, view in (("conditioning", Conditioned), ("imaging", Imaged)):
        start = time.process_time()
        noise = view(tree)
        built = time.process_time()
        sums = np.array([tree.sums(noise.draw()) for _ in range(RUNS)])
        each = (time.process_time() - built) / RUNS
        report(
            experiment="taxi",
            view=name,
            epsilon=epsilon,
            **levels(sums),
            build_ms=round((built - start) * 1e3, 1),
            draw_ms=round(each * 1e3, 2),
            effective_per_s=round(1 / each),
        )
    start = time.process_time()
    found = Chains(tree, 32).run(max(40, RUNS // 4), first=100)
    spent = time.process_time() - start
    report(
        experiment="taxi",
        view="chain",
        epsilon=epsilon,
        **levels(found.sums.reshape(-1, COUNTS)),
        r_hat=round(found.r_hat, 4),
        effective=round(found.effective),
        converged=found.converged,
        taken=round(found.taken, 3),
        seconds=round(spent, 2),
        effective_per_s=round(found.effective / spent),
    )


def conditional(u: FloatArray) -> FloatArray:
    """h(u) = (λ + |u|) e^{−2|u|/λ} / K, K = 3λ²/2, of one of three, λ = 1."""
    result: FloatArray = (1 + np.abs(u)) * np.exp(-2 * np.abs(u)) / 1.5
    return result


def projection(u: FloatArray) -> FloatArray:
    """The density of ⅔ e_1 − ⅓ e_2 − ⅓ e_3, by convolution of e_1's two thirds and the others'."""
    laws = [np.exp(-np.abs(u) * rate) * rate / 2 for rate in (1.5, 3.0, 3.0)]
    found = laws[0]
    for law in laws[1:]:
        found = np.convolve(found, law, "same") * STEP
    return found


def main() -> None:
    grid = np.arange(-12, 12 + STEP / 2, STEP)
    for name, density in (("conditioning", conditional(grid)), ("imaging", projection(grid))):
        shown = np.abs(grid) <= 3
        report(
            experiment="density",
            view=name,
            variance=round(math.fsum(density * grid**2) * STEP, 4),
            at=[round(float(x), 2) for x in grid[shown][::5]],
            density=[round(float(y), 5) for y in density[shown][::5]],
        )
    for epsilon in (0.5, 1.0, 2.0):
        taxi(epsilon)


if __name__ == "__main__":
    main()
