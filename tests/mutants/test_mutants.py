"""The faults can be put into the package as it is, and the runner finds what the tests find."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from tests.mutants.mutation import ROOT, Mutation, chosen_faults, room_of
from tests.mutants.operators import faults_in, sampled_faults
from tests.mutants.suite import tried

ROOMS = {path.parent.name for path in (ROOT / "tallyveil").glob("*/__init__.py")}


def test_each_chosen_fault_stands_in_the_package_once() -> None:
    """Who moves code states its faults anew."""
    for fault in chosen_faults():
        text = (ROOT / fault.path).read_text(encoding="utf-8")
        assert text.count(fault.old) == 1, fault.name
        ast.parse(fault.applied(text))


def test_at_least_two_faults_are_chosen_in_each_room() -> None:
    chosen = Counter(room_of(fault.path) for fault in chosen_faults())
    assert chosen.total() >= 50
    assert {room for room in ROOMS if chosen[room] < 2} <= {"examples"}
    assert len({fault.name for fault in chosen_faults()}) == chosen.total()


def _project(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_a_seed_samples_the_same_faults_of_every_room(tmp_path: Path) -> None:
    """Of the whole package a run takes 300; here are two rooms of two lengths."""
    lines = "".join(f"a{n} = b < {n}\n" for n in range(40))
    root = _project(tmp_path, {"tallyveil/one/a.py": lines, "tallyveil/other/b.py": lines * 4})
    sampled = sampled_faults(30, 7, root)
    assert sampled == sampled_faults(30, 7, root)
    assert sampled != sampled_faults(30, 8, root)
    assert Counter(room_of(fault.path) for fault in sampled) == {"one": 6, "other": 24}


def test_a_fault_by_rule_changes_what_is_executed() -> None:
    for path in ("tallyveil/accountant/accountant.py", "tallyveil/policy/policy.py"):
        text = (ROOT / path).read_text(encoding="utf-8")
        before, faults = ast.dump(ast.parse(text)), faults_in(path, text)
        assert len(faults) > 20
        for fault in faults[::10]:
            assert ast.dump(ast.parse(fault.applied(text))) != before, fault.name


def test_faults_by_rule_replace_one_place() -> None:
    text = "def f(a: int = 1) -> bool:\n    if not a < 2 and a:\n        raise ValueError(a - 1)\n"
    replaced = {fault.effect for fault in faults_in("tallyveil/x.py", text)}
    assert replaced == {
        "1 → (2)",
        "2 → (3)",
        "a < 2 → (a <= 2)",
        "not a < 2 → (a < 2)",
        "not a < 2 and a → (not a < 2 or a)",
        "a - 1 → (a + 1)",
        "raise ValueError(a - 1) → pass",
    }


def test_a_fault_is_found_where_a_test_fails_and_reported_as_missed_where_none_does(
    tmp_path: Path,
) -> None:
    path = "tallyveil/half.py"
    files = {
        path: "def half(n):\n    return n // 2\n",
        "tests/test_half.py": "from tallyveil.half import half\ndef test(): assert half(1) == 0\n",
        "pyproject.toml": "[tool.pytest.ini_options]\npythonpath = ['.']\n",
    }
    project = _project(tmp_path / "project", files)
    rounded = Mutation("rounded up", "", path, "n // 2", "(n + 1) // 2")
    doubled = Mutation("a larger divisor", "", path, "// 2", "// 3")
    copy, tests = tmp_path / "copy", ["tests/test_half.py"]
    found = tried(rounded, tests, copy, project).found
    assert found == "FAILED tests/test_half.py::test - AssertionError"
    assert tried(doubled, tests, copy, project).found is None
    assert (copy / path).read_text(encoding="utf-8") == files[path]
