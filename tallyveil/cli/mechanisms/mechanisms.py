"""`tallyveil mechanism list`, `show` and `compare`: expected losses side by side (COUNT Fig. 9)."""

from __future__ import annotations

from itertools import product
from types import MappingProxyType
from typing import Any, Final

from tallyveil.cli.mechanisms.mechanism_arguments import (
    QUALITIES,
    IntegerQuality,
    MechanismOptions,
    levels_of,
    objective_of,
    ranges_of,
)
from tallyveil.cli.mechanisms.noise_shown import show_noise
from tallyveil.cli.text import Output, aligned, table, up, up_text
from tallyveil.errors import InvalidParameterValue, StatementTooComplex
from tallyveil.mechanisms import Additive, additive
from tallyveil.mechanisms.matrix.count_matrix import CountMatrix
from tallyveil.mechanisms.matrix.designing import MAX_DESIGNED_RANGE, choose, design
from tallyveil.mechanisms.matrix.exponential import exponential
from tallyveil.mechanisms.matrix.named import NAMED, named
from tallyveil.mechanisms.matrix.objective import Objective, score
from tallyveil.mechanisms.matrix.properties import (
    Property,
    derivable_from_geometric,
    parse_properties,
    properties_of,
)

__all__ = ["compare", "listing", "show"]

_BEST: Final = "best"
_AUTO: Final = "auto"
_DESIGNED: Final = (_BEST, "designed")
_CHOSEN: Final = (*_DESIGNED, _AUTO)
_WIDEST: Final = 15  # larger matrices do not fit a line
_LOSSES: Final = MappingProxyType(
    {
        "L0": Objective("L0"),
        "L0,1": Objective("L0", beyond=1),
        "L1": Objective("L1"),
        "L2": Objective("L2"),
    }
)

# The mechanisms of the paper's figure. It has no randomised response, whose guarantee differs.
NAMES: Final = ("GM", "WH", "WM", "EM", "UM")


def listing() -> Output:
    """Return the mechanisms: first noise for any count, then those with a public range."""
    best = "designed: the least expected loss with given properties"
    auto = "flowchart: the one of GM, EM, WH and WM with given properties and the least L0"
    chosen = NAMED["GM"].guarantee
    listed = [
        *((family.name, "any count", _kind(family), family.guarantee) for family in additive()),
        *((m.name, "0..n", f"{m.title}: {m.when}", m.guarantee) for m in NAMED.values()),
        (_BEST, "0..n", best, chosen),
        (_AUTO, "0..n", auto, chosen),
    ]
    rows = [dict(zip(("name", "for", "gives", "guarantee"), one, strict=True)) for one in listed]
    hint = "For the guarantee of one: tallyveil mechanism show NAME …, or list --json."
    return Output(rows, [*table(("name", "for", "gives"), rows), hint])


def show(name: str, options: MechanismOptions) -> Output:
    """Return a mechanism's description.

    Raises InvalidParameterValue for an unknown name, or options that do not apply to it, and
    StatementTooComplex if no design is found.
    """
    noise = {family.name: family for family in additive()}
    if name.lower() in noise:
        return show_noise(noise[name.lower()], options)
    objective = objective_of(options.objective or "L0", options.weights)
    matrix = _matrix(name, options, objective)
    guarantee = named("GM" if name.lower() in _CHOSEN else name).guarantee
    document = _document(matrix, objective, guarantee)
    return Output(document, _lines(matrix, objective, document))


def _matrix(name: str, options: MechanismOptions, objective: Objective) -> CountMatrix:
    if "(" in name:
        raise InvalidParameterValue(
            f'"{name}" is written for SQL', hint="Give parameters as options: see --help."
        )
    word = name.lower()
    try:
        maker = None if word in _CHOSEN else named(name)
    except InvalidParameterValue:
        known = [*(family.name for family in additive()), *NAMED, _BEST, _AUTO]
        raise InvalidParameterValue(
            f'there is no mechanism "{name}"', hint=f"Known: {', '.join(known)}."
        ) from None
    level = options.level()
    if options.n is None:
        raise InvalidParameterValue(
            f"{name} is for counts from 0 to a public n", hint="Give n, such as --n 8."
        )
    properties = parse_properties(options.properties or "")
    if word in _DESIGNED:
        options.only(name, "n", "properties", "objective", "weights")
        return design(options.n, level, properties, objective)
    if word == _AUTO:
        options.only(f"{name}, which minimises L0,", "n", "properties")
        return choose(options.n, level, properties)
    if maker is not None and maker.name == "EXP":
        options.only(name, "n", "quality")
        return exponential(options.n, level, _quality(options.quality or "distance"))
    if maker is None or (options.properties or options.objective or options.weights) is not None:
        raise InvalidParameterValue(
            f"{name} takes no properties, objective or weights",
            hint=f"{_BEST} takes all of them, {_AUTO} takes properties.",
        )
    options.only(name, "n")
    return maker.make(options.n, level)


def _quality(name: str) -> IntegerQuality:
    if name not in QUALITIES:
        raise InvalidParameterValue(
            f'there is no quality "{name}"', hint=f"Known: {', '.join(QUALITIES)}."
        )
    return QUALITIES[name]


def _lines(matrix: CountMatrix, objective: Objective, document: dict[str, Any]) -> list[str]:
    head = f"{matrix.name} for counts from 0 to {matrix.n}, alpha {float(matrix.alpha):.6g},"
    lines = [f"{head} epsilon {up_text(matrix.epsilon)}"]
    if matrix.n <= _WIDEST:
        columns = ("output", *(f"truth {j}" if j == 0 else str(j) for j in range(matrix.n + 1)))
        cells = [[i, *(f"{p:.4f}" for p in row)] for i, row in enumerate(document["probabilities"])]
        lines += aligned(columns, cells)[:-1]
    else:
        size = matrix.n + 1
        lines.append(f"For the {size} by {size} probabilities, give --json.")
    held = (p for p in Property if str(p) in document["properties"])
    described = (f"{p} ({p.name.lower().replace('_', ' ')})" for p in held)
    lines.append("properties: " + (", ".join(described) or "-"))
    losses = (f"{name} {loss:.6f}" for name, loss in document["losses"].items())
    lines.append("expected loss over all truths: " + ", ".join(losses))
    if objective not in _LOSSES.values():
        lines.append(f"objective {objective}: {document['objective']['is']:.6f}")
    lines.append(f"derivable from GM: {'yes' if document['derivable_from_geometric'] else 'no'}")
    return [*lines, f"guarantee: {document['guarantee']}."]


def _document(matrix: CountMatrix, objective: Objective, guarantee: str) -> dict[str, Any]:
    """Return the JSON document. ``probabilities[i][j]`` is P[output i | truth j]."""
    held = properties_of(matrix)
    return {
        "mechanism": matrix.name,
        "n": matrix.n,
        "alpha": str(matrix.alpha),
        "epsilon": up(matrix.epsilon, 12),
        "properties": [str(p) for p in Property if p in held],
        "losses": {name: float(score(matrix, loss)) for name, loss in _LOSSES.items()},
        "objective": {"of": str(objective), "is": float(score(matrix, objective))},
        "derivable_from_geometric": derivable_from_geometric(matrix),
        "guarantee": guarantee,
        "probabilities": matrix.probabilities().tolist(),
    }


def _kind(family: Additive) -> str:
    pure = not family.needs_delta
    return f"{family.name} noise, " + (
        "for every budget" if pure else "for budgets in rho, or with a delta"
    )


def compare(ns: str, alphas: str, objective: str) -> Output:
    """Return the expected loss of each mechanism for every n and α.

    Raises InvalidParameterValue and StatementTooComplex.
    """
    sizes, levels, loss = ranges_of(ns), levels_of(alphas), objective_of(objective)
    if sizes[-1] > MAX_DESIGNED_RANGE:
        raise StatementTooComplex(
            f"counts up to {sizes[-1]} are too many to design mechanisms for",
            hint=f"Compare up to --n {MAX_DESIGNED_RANGE}.",
        )
    rows, cells = [], []
    for alpha, n in product(levels, sizes):
        losses = {name: float(score(NAMED[name].make(n, alpha), loss)) for name in NAMES}
        rows.append({"n": n, "alpha": str(alpha), "objective": str(loss), "loss": losses})
        cells.append([f"{float(alpha):g}", n, *(f"{one:.6f}" for one in losses.values())])
    over = "a flat prior over 0..n" if loss.aggregate == "sum" else "the truth with the largest"
    lines = [*aligned(("alpha", "n", *NAMES), cells)[:-1], f"Expected {loss} loss, for {over}."]
    return Output(rows, lines, each=True)
