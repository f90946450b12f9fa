"""The rooms import what they may and nothing else, and the boundary is where it should be."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import tallyveil

PACKAGE = Path(tallyveil.__file__).parent

# Everybody may import what stands beside the rooms, and the value types of domains and limits.
VALUES = ("tallyveil.policy.domain", "tallyveil.policy.limits")
BESIDE = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__", "boundary"}
ARCHITECTURE = Path(__file__).parents[1] / "docs" / "architecture.md"


@dataclass
class Source:
    """A file's modules and names ``from`` modules that it imports, and its text."""

    imported: set[str] = field(default_factory=set)
    taken: set[tuple[str, str]] = field(default_factory=set)
    text: str = ""


@cache
def source(path: Path) -> Source:
    found = Source(text=path.read_text(encoding="utf-8"))
    if "import" not in found.text:
        return found
    for node in ast.walk(ast.parse(found.text)):
        if isinstance(node, ast.Import):
            found.imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.taken |= {(node.module, alias.name) for alias in node.names}
    return found


def imports(path: Path) -> set[str]:
    """The modules of this package that a file imports."""
    found = source(path).imported | {module for module, _ in source(path).taken}
    found |= {f"{module}.{name}" for module, name in source(path).taken}
    return {name for name in found if name.startswith("tallyveil.")}


def rooms_imported(room: str) -> set[str]:
    """What a room imports of the others, and ``boundary``."""
    names = set().union(*(imports(path) for path in (PACKAGE / room).rglob("*.py")))
    found = {name.split(".")[1] for name in names if not name.startswith(VALUES)}
    return found & {*ROOMS, "boundary"} - {room}


ROOMS = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))


@cache
def imports_of_rooms() -> dict[str, set[str]]:
    return {room: rooms_imported(room) - {"boundary"} for room in ROOMS}


def test_a_room_imports_what_the_architecture_says() -> None:
    """All of what it says and nothing else."""
    text = ARCHITECTURE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|.*\| (.*) \|$", text, re.MULTILINE)
    said = {room: set(re.findall(r"\w+", listed)) for room, listed in rows}
    assert said == imports_of_rooms()


def test_the_boundary_is_between_three_rooms() -> None:
    users = {room for room in ROOMS if "boundary" in rooms_imported(room)}
    assert users == {"cube", "mechanisms", "accountant"}


def test_computed_properties_hold_no_lock() -> None:
    """`functools.cached_property` holds one in Python 3.11, in which a statement may wait."""
    for path in PACKAGE.rglob("*.py"):
        found = source(path)
        own = ("functools", "cached_property") in found.taken or "functools.cached" in found.text
        assert not own or path.name == "cache.py", path
    assert ("tallyveil.cache", "cached_property") in source(PACKAGE / "workload/workload.py").taken


def test_only_the_accountant_issues_receipts() -> None:
    assert _users("issue_receipt") == {"boundary.py", "accountant"}


def test_only_mechanisms_open_answers() -> None:
    assert _users("open_answer") == {"boundary.py", "mechanisms"}


def test_the_wire_knows_the_gate_by_what_it_offers() -> None:
    taken = set().union(*(source(path).taken for path in (PACKAGE / "proxy").rglob("*.py")))
    modules = {module for module, _ in taken if module.startswith("tallyveil.gate")}
    assert modules == {"tallyveil.gate", "tallyveil.gate.interface"}


def reached(arrows: dict[str, set[str]], start: str) -> set[str]:
    found, todo = set[str](), list(arrows.get(start, ()))
    while todo:
        room = todo.pop()
        if room not in found:
            found.add(room)
            todo += arrows.get(room, ())
    return found


def test_the_picture_of_the_rooms_has_the_arrows_there_are() -> None:
    text = ARCHITECTURE.read_text(encoding="utf-8")
    picture, _ = re.findall(r"```mermaid\n(.*?)```", text, re.DOTALL)
    drawn: dict[str, set[str]] = {}
    for start, end in re.findall(r"(\w+) --> (\w+)", picture):
        drawn.setdefault(start, set()).add(end)
    imported = imports_of_rooms()
    real = {
        room: own - set().union(*(reached(imported, other) for other in own))
        for room, own in imported.items()
        if own
    }
    assert drawn == real


def test_modules_that_are_named_are_there() -> None:
    """What is in backticks with dots, from a room or a module beside them on, in a docstring."""
    first = "|".join([*ROOMS, *BESIDE])
    pattern = re.compile(rf"`(?:tallyveil\.)?((?:{first})(?:\.\w+)+)(?:\(\))?`")
    named = {
        (path.name, name)
        for folder in (PACKAGE, Path(__file__).parent)
        for path in folder.rglob("*.py")
        for name in pattern.findall(path.read_text(encoding="utf-8"))
    }
    assert len(named) > 10
    assert sorted(each for each in named if not _there(each[1])) == []


def _there(name: str) -> bool:
    module, _, last = f"tallyveil.{name}".rpartition(".")
    while not _is_module(module):
        module, _, last = module.rpartition(".")
    return _is_module(f"{module}.{last}") or hasattr(import_module(module), last)


def _is_module(name: str) -> bool:
    """Also where a package offers a function of a module's name."""
    path = PACKAGE.parent.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def _users(name: str) -> set[str]:
    return {
        path.relative_to(PACKAGE).parts[0]
        for path in PACKAGE.rglob("*.py")
        if name in source(path).text and name in _names(path)
    }


def _names(path: Path) -> set[str | None]:
    """All names in a file, which are neither comments nor texts."""
    nodes = [*ast.walk(ast.parse(source(path).text))]
    return {getattr(node, kind, None) for node in nodes for kind in ("id", "attr", "name")}


def test_a_room_of_many_files_has_rooms_of_its_own() -> None:
    """A newcomer takes in twenty names at a glance."""
    files = {folder: len(list(folder.glob("*.py"))) for folder in PACKAGE.rglob("*/")}
    assert {folder: number for folder, number in files.items() if number > 20} == {}


def test_rooms_of_a_room_are_in_the_architecture() -> None:
    """With what their docstrings say of them."""
    text = ARCHITECTURE.read_text(encoding="utf-8")
    said = dict(re.findall(r"^\| `(\w+/\w+)` \| (.*) \|$", text, re.MULTILINE))
    found = {}
    for path in PACKAGE.glob("*/*/__init__.py"):
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        first = " ".join(docstring.split("\n\n")[0].split())
        found["/".join(path.relative_to(PACKAGE).parts[:2])] = first.removesuffix(".")
    assert said == found


def test_the_public_names() -> None:
    for name in tallyveil.__all__:
        assert hasattr(tallyveil, name)


def test_modules_import_what_others_offer() -> None:
    """A name of another module is in its ``__all__``, if it is no module itself."""
    taken = set().union(*(source(path).taken for path in PACKAGE.rglob("*.py")))
    for module, name in sorted(each for each in taken if each[0].startswith("tallyveil.")):
        offered = import_module(module)
        inside = hasattr(offered, "__path__") and find_spec(f"{module}.{name}")
        assert inside or name in offered.__all__, f"{module} does not offer {name}"
