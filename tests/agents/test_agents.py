"""Agents in processes of their own release parts whose totals are exact, whoever dies meanwhile."""

from __future__ import annotations

import json
import random
import shutil
import signal
import sqlite3
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tallyveil.agents import ReleasePlan, load_plan
from tallyveil.errors import PolicyError
from tests.cli.shell import shell
from tests.programs import TALLYVEIL, run

AGENTS = ("north", "south", "harbour")
SEXES, BANDS = ("F", "M"), (0, 1, 2, 3)

POLICY = """
[source]
url = "rows.csv"
[tables.patient]
from = "rows"
neighbours = "replace"
budget = { epsilon = 2.0 }
[tables.patient.attributes]
sex = { values = ["F", "M"] }
band = { range = [0, 3] }
ward = { range = [0, 9] }
"""

PLAN = """
name = "admissions"
table = "patient"
count_by = ["band", "sex"]
totals = ["sex"]
epsilon = 0.5
agents = ["north", "south", "harbour"]
"""

DIES = """
import os, signal
from tallyveil.{module} import {kind}
{kind}.{method} = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
"""
BEFORE_THE_CHARGE = DIES.format(module="accountant", kind="Accountant", method="charge")
BEFORE_THE_RENAMING = """
import os, signal
os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
"""
AFTER_THE_CHARGE = DIES.format(module="agents", kind="Secret", method="keep")


@dataclass
class Agent:
    """In a folder of its own, with data, policy, ledger and its copy of the secret."""

    name: str
    folder: Path
    rows: list[tuple[str, int, int]]

    def write(self, policy: str = POLICY, plan: str = PLAN) -> None:
        lines = [f"{sex},{band},{ward}" for sex, band, ward in self.rows]
        (self.folder / "rows.csv").write_text("\n".join(["sex,band,ward", *lines]) + "\n")
        (self.folder / "policy.toml").write_text(policy)
        (self.folder / "plan.toml").write_text(plan)

    def arguments(self, number: int) -> list[str]:
        names = ("policy.toml", "plan.toml", "secret.json", "part.json")
        policy, plan, secret, part = (str(self.folder / name) for name in names)
        return [
            "agent", "release", policy, plan, "--agent", self.name, "--release", str(number),
            "--secret", secret, "--out", part,
        ]  # fmt: skip

    def process(self, number: int, before: str = "") -> subprocess.CompletedProcess[str]:
        return run(before + TALLYVEIL, *self.arguments(number), timeout=120)

    def check(self) -> str:
        names = ("policy.toml", "plan.toml", "--secret", "secret.json")
        found = shell("agent", "check", *(n if n[0] == "-" else self.folder / n for n in names))
        assert found.exit_code == 0, found.output
        return str(found.output)

    def release(self, number: int = 1) -> dict[str, object]:
        """In this process. Raises AssertionError with what was said."""
        found = shell(*self.arguments(number))
        assert found.exit_code == 0, found.output
        return self.part

    def refusal(self, number: int = 1) -> str:
        found = shell(*self.arguments(number))
        assert found.exit_code == 1, found.output
        return found.output

    @property
    def part(self) -> dict[str, object]:
        part: dict[str, object] = json.loads((self.folder / "part.json").read_text())
        return part

    @property
    def charges(self) -> int:
        with sqlite3.connect(self.folder / "policy.ledger.sqlite") as db:
            number: int = db.execute("SELECT count(*) FROM charge").fetchone()[0]
        db.close()
        return number


@pytest.fixture
def agents(tmp_path: Path) -> list[Agent]:
    secret = tmp_path / "secret.json"
    assert shell("agent", "secret", secret).exit_code == 0
    rolled = random.Random(7)  # of the data, which are no release
    found = []
    for name in AGENTS:
        folder = tmp_path / name
        folder.mkdir()
        shutil.copy(secret, folder)
        rows = [
            (rolled.choice(SEXES), rolled.choice(BANDS), rolled.randrange(10)) for _ in range(60)
        ]
        found.append(Agent(name, folder, rows))
        found[-1].write()
    return found


def combine(*agents: Agent) -> dict[str, object]:
    parts = [str(agent.folder / "part.json") for agent in agents]
    found = shell("agent", "combine", *parts, "--json")
    assert found.exit_code == 0, found.output
    combined: dict[str, object] = json.loads(found.output)
    return combined


def true_totals(agents: list[Agent]) -> list[list[object]]:
    counts = Counter(sex for agent in agents for sex, _, _ in agent.rows)
    return [[[sex], counts[sex]] for sex in SEXES]


def test_processes_of_which_two_die_and_come_back_release_exact_totals(
    agents: list[Agent],
) -> None:
    north, south, harbour = agents
    north.release()
    for agent, dies, charged in ((south, BEFORE_THE_CHARGE, 0), (harbour, AFTER_THE_CHARGE, 1)):
        assert agent.process(1, dies).returncode == -signal.SIGKILL
        assert not (agent.folder / "part.json").exists()
        assert agent.charges == charged
    assert combine(north)["missing"] == ["south", "harbour"]
    assert south.process(1).returncode == 0
    harbour.release()
    found = combine(*agents)
    assert found["missing"] == []
    assert found["totals"] == true_totals(agents)
    assert (south.charges, harbour.charges) == (1, 2)
    for agent in agents:  # the counts of each are noisy, and so are their sums
        own = Counter((sex, band) for sex, band, _ in agent.rows)
        assert agent.part["counts"] != [own[sex, band] for sex in SEXES for band in BANDS]


def test_the_same_release_again_is_the_same_and_free(agents: list[Agent]) -> None:
    first = agents[0].release()
    assert agents[0].release() == first
    assert agents[0].charges == 1
    second = agents[0].release(2)
    assert second["counts"] != first["counts"]
    assert agents[0].release(1) == first
    assert agents[0].charges == 2


def test_changed_data_under_a_used_number_are_refused(agents: list[Agent]) -> None:
    agent = agents[0]
    before = agent.release()
    agent.rows[0] = ("M" if agent.rows[0][0] == "F" else "F", *agent.rows[0][1:])
    agent.write()
    assert "other data" in agent.refusal()  # says the ledger
    (agent.folder / "policy.ledger.sqlite").unlink()
    assert "release 1 was begun with other data" in agent.refusal()
    assert agent.part == before
    assert agent.charges == 0


def test_data_that_change_after_a_crash_are_refused_and_the_next_number_goes_on(
    agents: list[Agent],
) -> None:
    agent = agents[0]
    assert agent.process(1, BEFORE_THE_CHARGE).returncode == -signal.SIGKILL
    row = agent.rows.pop()
    agent.write()
    (agent.folder / "policy.ledger.sqlite").unlink()
    assert "HINT: Make release 2" in agent.refusal()
    agent.release(2)
    agent.rows.append(row)
    agent.write()
    (agent.folder / "policy.ledger.sqlite").unlink()
    assert "release 1 was skipped, and its key is deleted" in agent.refusal(1)


def test_an_older_copy_of_the_secret_is_noticed(agents: list[Agent]) -> None:
    agent = agents[0]
    secret = agent.folder / "secret.json"
    older = secret.read_text()
    agent.release()
    assert older.split('"key": ')[1][:40] not in secret.read_text()
    secret.write_text(older)
    assert "but the secret does not have the release" in agent.refusal()


def test_the_copy_of_one_agent_is_not_another_s(agents: list[Agent]) -> None:
    """Not even with the same data, for which the part would be the first agent's."""
    agent = agents[0]
    agent.release()
    before = (agent.folder / "secret.json").read_text()
    agent.name = "south"
    for number in (1, 2):
        assert 'is the copy of agent "north", not of "south"' in agent.refusal(number)
    assert (agent.folder / "secret.json").read_text() == before
    assert agent.charges == 1


def test_nothing_keeps_the_key_of_a_release_that_is_made(agents: list[Agent]) -> None:
    """Neither the file behind a link nor the draft of a process that died."""
    agent = agents[0]
    secret, kept = agent.folder / "secret.json", agent.folder / "kept.json"
    secret.rename(kept)
    secret.symlink_to(kept)
    first = json.loads(kept.read_text())["key"]
    assert agent.process(1, BEFORE_THE_RENAMING).returncode == -signal.SIGKILL
    agent.release()
    for path in agent.folder.iterdir():
        assert first.encode() not in path.read_bytes(), path


def test_a_file_with_another_name_is_no_secret(agents: list[Agent]) -> None:
    """It is replaced when its key steps on, and the other name would keep the old one."""
    agent = agents[0]
    secret = agent.folder / "secret.json"
    (agent.folder / "kept.json").hardlink_to(secret)
    assert "has another hard link" in agent.refusal()
    assert agent.charges == 0
    (agent.folder / "kept.json").unlink()
    agent.release()


def test_numbers_are_used_in_their_order(agents: list[Agent]) -> None:
    assert "the next release of this agent is 1, not 2" in agents[0].refusal(2)
    assert agents[0].charges == 0


def test_parts_of_different_releases_are_not_combined(agents: list[Agent]) -> None:
    north, south, _ = agents
    north.release()
    south.release()
    south.release(2)
    parts = [str(agent.folder / "part.json") for agent in (north, south)]
    for paths, said in ((parts, "differ in their release"), (parts[:1] * 2, "is given twice")):
        found = shell("agent", "combine", *paths)
        assert found.exit_code == 1
        assert said in found.output


def test_what_is_no_part_is_not_combined(agents: list[Agent]) -> None:
    north, *_ = agents
    north.release()
    path, part = north.folder / "part.json", north.part
    for key, wrong in (("counts", [str(n) for n in part["keys"]]), ("totals", [[]]), ("more", 1)):
        path.write_text(json.dumps({**part, key: wrong}))
        found = shell("agent", "combine", path)
        assert (found.exit_code, "is not a part of a release" in found.output) == (1, True), key


def test_a_part_in_which_something_was_changed_is_not_combined(agents: list[Agent]) -> None:
    """All that agents agree on follows from its fingerprint, so even one part shows it."""
    north, *_ = agents
    north.release()
    path, part = north.folder / "part.json", north.part
    keys: Any = part["keys"]
    changes = {
        "plan": "discharges",
        "table": "person",
        "release": 2,
        "agents": ["north"],
        "count_by": ["band", "sex"],
        "totals": [],
        "scale": 1.0,
        "keys": [[key[0], key[1] + 1] for key in keys],
        "fingerprint": "0" * 64,
    }
    for key, value in changes.items():
        assert part[key] != value
        path.write_text(json.dumps({**part, key: value}))
        found = shell("agent", "combine", path)
        assert (found.exit_code, "was changed after it was released" in found.output) == (1, True)
    path.write_text(json.dumps({**part, "keys": keys[1::-1] + keys[2:]}))
    assert "is not a part of a release" in shell("agent", "combine", path).output
    path.write_text(json.dumps(part))
    assert shell("agent", "combine", path).exit_code == 0


def test_agents_that_agree_read_the_same_word(agents: list[Agent]) -> None:
    def word(agent: Agent) -> str:
        return agent.check().split()[-1]

    assert len({word(agent) for agent in agents}) == 1
    agents[0].write(POLICY.replace("[0, 3]", "[0, 4]"))
    agents[1].write(plan=PLAN.replace("0.5", "0.25"))
    assert len({word(agent) for agent in agents}) == 3
    assert agents[0].folder.joinpath("policy.ledger.sqlite").exists() is False


@pytest.mark.parametrize(
    ("declared", "cost"),
    [
        ("budget = { epsilon = 2.0 }", "epsilon 0.5"),
        ("budget = { rho = 1.0, delta = 1e-6 }", "rho 0.125"),
        (
            'budget = { epsilon = 2.0 }\nprivacy_unit = { column = "ward", max_rows = 3 }',
            "epsilon 1.5",
        ),
    ],
)
def test_a_check_says_what_a_part_costs_this_budget(
    agents: list[Agent], declared: str, cost: str
) -> None:
    agent = agents[0]
    agent.write(POLICY.replace("budget = { epsilon = 2.0 }", declared))
    assert f"which costs {cost} of patient's budget" in agent.check()
    agent.release()
    spent = shell("budget", agent.folder / "policy.toml", "--json")
    (table,) = json.loads(spent.output)
    assert f"{table['unit']} {table['spent']:g}" == cost


def test_a_part_is_charged_to_the_budget_and_refused_beyond_it(agents: list[Agent]) -> None:
    agent = agents[0]
    for number in range(1, 5):
        agent.release(number)
    assert "budget" in agent.refusal(5)
    assert agent.charges == 4
    agent.write(POLICY.replace("epsilon = 2.0", "epsilon = 2.5"))
    shown = shell("history", agent.folder / "policy.toml")
    assert "part north of release 4 of admissions" in shown.output


def test_queries_go_on_beside_the_parts(agents: list[Agent]) -> None:
    """They are no answers of the table: nothing is estimated from them."""
    agent = agents[0]
    agent.release()
    policy = agent.folder / "policy.toml"
    sql = "SELECT sex, count(*) FROM patient GROUP BY sex"
    found = shell("sql", policy, sql, "--epsilon", "1")
    assert found.exit_code == 0, found.output
    assert "0.5 of 2 remains" in found.output


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("epsilon = 0.5", "epsilon = 0", "epsilon = 0: expected a number ε"),
        ("epsilon = 0.5", 'epsilon = "much"', "expected a number"),
        ('"north", "south", "harbour"', '"north"', "agents"),
        ('"north", "south", "harbour"', '"north", "north"', "expected different names"),
        ('totals = ["sex"]', 'total = ["sex"]', "total"),
        ("name = ", "# ", "name"),
        ("name = ", "", "line 2"),
    ],
)
def test_a_wrong_plan_names_the_key_and_what_was_expected(
    tmp_path: Path, before: str, after: str, said: str
) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(PLAN.replace(before, after))
    with pytest.raises(PolicyError) as caught:
        load_plan(path)
    assert said in "\n".join(caught.value.mistakes)


@pytest.mark.parametrize(
    ("policy", "plan", "said"),
    [
        (POLICY.replace('"replace"', '"add_remove"'), PLAN, 'expected "replace"'),
        (POLICY, PLAN.replace('"band", "sex"', '"band", "age"'), 'no attribute "age"'),
        (POLICY, PLAN.replace('totals = ["sex"]', 'totals = ["ward"]'), "not in count_by"),
        (POLICY, PLAN.replace('table = "patient"', 'table = "person"'), "no protected table"),
        (POLICY, PLAN.replace("0.5", "0.00001"), "cannot be given noise"),
        (POLICY, PLAN.replace('"north"', '"west"'), 'the plan has no agent "north"'),
    ],
)
def test_a_policy_that_does_not_fit_is_refused_before_anything_is_begun(
    agents: list[Agent], policy: str, plan: str, said: str
) -> None:
    agent = agents[0]
    before = (agent.folder / "secret.json").read_text()
    agent.write(policy, plan)
    assert said in agent.refusal()
    assert (agent.folder / "secret.json").read_text() == before
    assert not (agent.folder / "policy.ledger.sqlite").exists()


def test_a_secret_is_for_its_owner_alone(agents: list[Agent]) -> None:
    secret = agents[0].folder / "secret.json"
    assert secret.stat().st_mode & 0o077 == 0
    secret.chmod(0o644)
    assert "chmod 600" in agents[0].refusal()
    secret.chmod(0o600)
    secret.write_text("{}")
    assert "is not a secret of agents" in agents[0].refusal()
    again = shell("agent", "secret", secret)
    assert again.exit_code == 1


@pytest.mark.parametrize(
    "name", ["secret.json", "plan.toml", "policy.toml", "policy.ledger.sqlite"]
)
def test_a_part_is_not_written_over_what_the_agent_needs(agents: list[Agent], name: str) -> None:
    agent = agents[0]
    agent.release()
    path = agent.folder / name
    before = path.read_bytes()
    said = shell(*agent.arguments(2)[:-1], path)
    assert said.exit_code == 1
    assert "would overwrite" in said.output
    assert path.read_bytes() == before
    assert agent.charges == 1


def test_totals_of_nothing_named_are_the_grand_total(agents: list[Agent]) -> None:
    for agent in agents:
        agent.write(plan=PLAN.replace('totals = ["sex"]', "totals = []"))
        agent.release()
    assert combine(*agents)["totals"] == [[[], 180]]
    assert (
        ReleasePlan.model_validate(
            {"name": "a", "table": "t", "count_by": ["s"], "epsilon": 1, "agents": ["x", "y"]}
        ).totals
        == []
    )
