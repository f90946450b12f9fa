"""What commands refuse: they say what is wrong, with status 1, and neither charge nor write."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.cli.shell import shell, spent

WOMEN = "SELECT count(*) FROM person WHERE sex = 'F'"

SANITISE = [
    ("nobody --epsilon 1 --out c.parquet", "no protected table"),
    ("person --epsilon 0 --out c.parquet", "epsilon must be a positive"),
    ("person --epsilon nan --out c.parquet", "epsilon must be a positive"),
    ("person --epsilon 1 --delta 1 --out c.parquet", "between 0 and 1"),
    ("person --epsilon 1 --delta nan --out c.parquet", "delta must be a positive"),
    ("person --epsilon 4 --out c.parquet", "ERROR 53400"),
    ("person --epsilon 1 --out c.csv", "does not end in .parquet"),
    ("person --epsilon 1 --split sex --out c.parquet", "is not a share"),
]
HISTORY = [
    ("nobody", "no protected table"),
    ('--posterior "SELECT 1"', "asks about no protected table"),
    (f'--posterior "{WOMEN}; {WOMEN}"', "expected one SELECT"),
    ('--posterior "SET dp.source = auto"', "expected one SELECT"),
    ('--posterior "SELECT sum(DISTINCT age) FROM person"', "sum(DISTINCT …) is not answered"),
    (f'--posterior "{WOMEN}" --confidence 2', "dp.confidence"),
    (f'person --posterior "{WOMEN}"', "cannot be combined with TABLE"),
    ("--confidence 0.9", "--confidence needs --posterior"),
]
MECHANISM = [
    ("show EM --n 4", "--epsilon or --alpha"),
    ("show EM --n 4 --alpha 0.5 --epsilon 1", "--epsilon or --alpha"),
    ("show EM --alpha 0.5", "--n 8"),
    ("show nonsense --n 4 --alpha 0.5", "Known: "),
    ("show EM --n 4 --alpha nan", "alpha"),
    ("show EM --n 0 --alpha 0.5", "from 1 to"),
    ("show EM --n 4 --alpha 0.5 --properties CM", "best"),
    ("show best --n 4 --alpha 0.5 --properties XX", "RH, RM"),
    ("show best --n 4 --alpha 0.5 --objective L7", "L0, L0,1"),
    ("show auto --n 4 --alpha 0.5 --objective L1", "takes no --objective"),
    ("show EM --n 4 --alpha 0.5 --delta 1e-6", "--epsilon, --n."),
    ("show EXP --n 4 --alpha 0.5 --quality best", "distance, square"),
    ("show EXP --n 4 --alpha 0.5 --weights 1", "takes no --weights"),
    ("show best --n 4 --alpha 0.5 --weights 1,2", "5 possible counts"),
    ("show best --n 1 --alpha 0.5 --weights 1,x", "weight"),
    ("show gaussian --epsilon 1 --calibration classic", "zcdp, analytic"),
    ("show gaussian --epsilon 1 --delta 2", "delta"),
    ("show laplace --epsilon nan", "positive finite"),
    ("show laplace --n 4 --alpha 0.5", "any count"),
    ("show EM --n 4 --epsilon 41", "at most 40"),
    ("show fair(n=4) --alpha 0.9", "Give parameters as options"),
    ("compare --n 2,x", "--n 2,4,8"),
    ("compare --n 2,500", "Compare up to"),
    ("compare --alpha 1.5", "between 0 and 1"),
]
AUDIT = [
    ("nonsense", "Known: "),
    ("EM --epsilon 0", "epsilon must be a positive"),
    ("EM --draws 3", "the number of draws must be from"),
]
REFUSED = [
    *(("sanitise people.toml", *case) for case in SANITISE),
    *(("history people.toml", *case) for case in HISTORY),
    *(("mechanism", *case) for case in MECHANISM),
    *(("audit", *case) for case in AUDIT),
]


@pytest.mark.parametrize(("command", "options", "words"), REFUSED)
def test_what_is_refused_is_said_and_changes_nothing(
    policy: Path, monkeypatch: pytest.MonkeyPatch, command: str, options: str, words: str
) -> None:
    monkeypatch.chdir(policy.parent)
    policy.write_text(policy.read_text().replace('"add_remove"', '"replace"'))  # copies need it
    before = set(policy.parent.iterdir())
    found = shell(*shlex.split(f"{command} {options}"))
    assert found.exit_code == 1
    assert words in found.stderr
    assert "SET dp" not in found.stderr.replace("SET dp.source = auto", "")  # the shell has options
    assert set(policy.parent.iterdir()) - before <= {policy.with_suffix(".ledger.sqlite")}
    if command not in ("mechanism", "audit"):
        assert spent(policy) == 0
