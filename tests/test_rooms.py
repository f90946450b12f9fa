"""The rooms import what they may and nothing else, and the boundary is where it should be."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import tallyveil

PACKAGE = Path(tallyveil.__file__).parent

# Everybody may import what stands beside the rooms, and the value types of domains and limits.
VALUES = {"tallyveil.policy.domain", "tallyveil.policy.limits"}
BESIDE = {"cache", "deadline", "errors", "events", "interval", "locks", "solver_threads"}
MAY_IMPORT: dict[str, set[str]] = {
    "policy": set(),
    "workload": {"policy"},
    "rewriter": {"policy", "workload"},
    "cube": {"policy", "workload", "boundary"},
    "inference": set(),
    "mechanisms": {"boundary", "inference", "workload"},
    "accountant": {"boundary", "inference", "mechanisms", "workload"},
    "knowledge": {"accountant", "inference", "mechanisms", "workload"},
    "strategies": {"policy", "workload"},
    "sanitise": {"policy", "workload", "cube", "mechanisms", "accountant"},
    "gate": {
        "policy",
        "workload",
        "rewriter",
        "cube",
        "mechanisms",
        "inference",
        "accountant",
        "knowledge",
        "sanitise",
    },
    "audit": {"policy", "workload", "cube", "mechanisms", "inference", "accountant"},
    "proxy": {"gate", "policy"},
}


def imports(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    found = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    found |= {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    return {name for name in found if name.startswith("tallyveil.")}


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_imports_what_it_may(room: str) -> None:
    allowed = MAY_IMPORT[room] | {room} | BESIDE
    for path in (PACKAGE / room).rglob("*.py"):
        foreign = {name for name in imports(path) - VALUES if name.split(".")[1] not in allowed}
        assert not foreign, f"{path.relative_to(PACKAGE)} imports {foreign}"


def test_what_is_known_has_one_face() -> None:
    for path in PACKAGE.rglob("*.py"):
        if path.relative_to(PACKAGE).parts[0] != "knowledge":
            inside = {name for name in imports(path) if name.startswith("tallyveil.knowledge.")}
            assert not inside, f"{path.relative_to(PACKAGE)} imports {inside}"


def test_only_the_accountant_issues_receipts() -> None:
    assert _users("issue_receipt") == {"boundary.py", "accountant"}


def test_only_mechanisms_open_answers() -> None:
    assert _users("open_answer") == {"boundary.py", "mechanisms"}


def _users(name: str) -> set[str]:
    return {
        path.relative_to(PACKAGE).parts[0]
        for path in PACKAGE.rglob("*.py")
        if any(
            name in (getattr(n, "id", None), getattr(n, "attr", None), getattr(n, "name", None))
            for n in ast.walk(ast.parse(path.read_text()))
        )
    }


def test_the_public_names() -> None:
    assert tallyveil.__all__ == sorted(tallyveil.__all__)
    for name in tallyveil.__all__:
        assert hasattr(tallyveil, name)
