"""CONTRIBUTING.md: what it names is there, and its recipe for a function of SQL is whole."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_rooms import PACKAGE

ROOT = PACKAGE.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_names_of_code_are_there() -> None:
    """``module.Name`` is in a file of that name, and a NAME in capitals in one that is named."""
    files = {path.stem: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    qualified = re.findall(r"`(\w+)\.([A-Z]\w+)`", TEXT)
    assert len(qualified) > 3
    for module, name in qualified:
        assert f"class {name}" in files[module], f"{module}.{name}"
    for name in re.findall(r"`([A-Z][A-Z_]{4,})`", TEXT):
        assert any(re.search(rf"^{name}\b.* = ", text, re.MULTILINE) for text in files.values())


def test_the_folders_of_the_recipes_files_are_there() -> None:
    recipes = re.findall(r"`((?:[a-z]\w*/)+)NAME\.py`", TEXT)
    assert len(recipes) > 3
    assert [folder for folder in recipes if not (ROOT / folder).is_dir()] == []


# The recipe's files, and what is written after which line of each.
_FUNCTIONS = {
    "sql/vocabulary.py": {
        "FUNCTIONS: Final[Mapping[type[exp.Expr], Function]] = {": """
    exp.Initcap: _function("this expression", "VARCHAR", "initcap/1"),""",
        "NAMED_FUNCTIONS: Final[Mapping[str, Function]] = {": """
    "gcd": _function("", "BIGINT", "gcd/2"),""",
    },
    "postgres/texts.py": {
        "RULES: Final[Rules] = {": """
    exp.Initcap: (_TEXT, lambda node, scope: call("__pg_initcap", node.this)),""",
        "MACROS: Final = (": """
    "__pg_initcap(t) AS array_to_string(list_transform(regexp_extract_all(lower(t), "
    "'[a-z0-9]+|[^a-z0-9]+'), lambda w: upper(w[1]) || substring(w, 2)), '')",""",
    },
}
_ASKED = """
import json
import tallyveil
from tests.rewriter.world import World

world = World([])
answers = [
    world.answer(f"SELECT {asked} AS s, count(*) FROM person GROUP BY 1")
    for asked in ("initcap(state)", "gcd(age, 2)")
]
first = [[columns[0][1], *(row[0] for row in rows)] for columns, rows in answers]
print(json.dumps([tallyveil.__file__, *first]))
"""


@pytest.mark.slow
def test_a_function_of_sql_takes_two_files(tmp_path: Path) -> None:
    """In a copy of the package: PostgreSQL's initcap, which DuckDB lacks, and gcd, for which the
    parser has no class."""
    copy = tmp_path / "tallyveil"
    shutil.copytree(PACKAGE, copy, copy_function=os.symlink)
    for name, additions in _FUNCTIONS.items():
        text = (copy / "rewriter" / name).read_text(encoding="utf-8")
        for line, added in additions.items():
            assert text.count(f"\n{line}\n") == 1
            text = text.replace(line, line + added)
        (copy / "rewriter" / name).unlink()
        (copy / "rewriter" / name).write_text(text, encoding="utf-8")
    variables = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    asked = [sys.executable, "-c", _ASKED]
    found = subprocess.run(asked, cwd=tmp_path, env=variables, capture_output=True, text=True)
    assert not found.returncode, found.stderr
    where, answered, divisors = json.loads(found.stdout)
    assert where.startswith(str(copy))
    assert answered == ["VARCHAR", "Al", "Ak", "Wy", "X_Y%", " Pad", "", None]
    assert divisors == ["BIGINT", 1, 2]
