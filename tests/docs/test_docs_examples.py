"""Every example of the README and of docs/ runs, and prints what it says, numbers aside."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import psycopg
import pytest
from typer.testing import CliRunner

from bench.postgres import program
from tallyveil.cli.app import app
from tallyveil.cli.demo import asked
from tallyveil.cli.demo_data import EXAMPLE_POLICY, copy_example, write_people
from tallyveil.gate import Gate
from tallyveil.policy import load_policy
from tallyveil.proxy import Server, ServerThread
from tests.docs.examples import Example, examples, same_shape

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
NOTEBOOK = ROOT / "docs" / "drawings.ipynb"
POLICY = Path("demo") / EXAMPLE_POLICY.name


@pytest.fixture(scope="session")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("people") / "people.parquet"
    write_people(path)
    return path


@dataclass
class Reader:
    """Someone who has run `make demo`, stands beside the folder demo and types examples. The demo
    ends with ``running``; some documents do not need it."""

    running: contextlib.ExitStack

    @functools.cached_property
    def port(self) -> int:
        gate = self.running.enter_context(contextlib.closing(Gate(load_policy(POLICY))))
        return self.running.enter_context(ServerThread(Server(gate.session, port=0))).port

    @functools.cached_property
    def connection(self) -> psycopg.Connection[tuple[object, ...]]:
        return self.running.enter_context(
            psycopg.connect(host="127.0.0.1", port=self.port, user="alice", autocommit=True)
        )

    def run(self, example: Example) -> str:
        match example.language:
            case "sql":
                return self._sql(example.code)
            case "python":
                return self._python(example.code)
            case "shell" if example.output is not None:
                return self._shell(example.code)
            case "toml":
                self._toml(example.code)
        return ""

    def _toml(self, code: str) -> None:
        """A policy, or what its first line names."""
        named = re.match(r"# ([\w-]+\.toml)\n", code)
        path = Path(named[1] if named else "policy.toml")
        if named or "[tables." in code:
            path.write_text(code, encoding="utf-8")
        if "[tables." in code:
            load_policy(path)

    def _sql(self, code: str) -> str:
        return "\n".join(line for _, line in asked(self.connection, code.strip()))

    def _python(self, code: str) -> str:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(self._ported(code), "example", "exec"), {"__name__": "__main__"})
        return out.getvalue()

    def _shell(self, code: str) -> str:
        """One command after the other; each is as long as its quotes are open."""
        printed, command = "", ""
        for line in self._ported(code).splitlines(keepends=True):
            command += line
            try:
                words = shlex.split(command)
            except ValueError:
                continue
            printed += self._command(command, words)
            command = ""
        return printed

    def _command(self, command: str, words: list[str]) -> str:
        if words[0] == "tallyveil":  # in this process: a new one takes a second to begin
            return CliRunner().invoke(app, words[1:]).output
        scripts, psql = (str(Path(path).parent) for path in (sys.executable, program("psql")))
        paths = os.pathsep.join((scripts, os.environ["PATH"], psql))
        return subprocess.run(
            command,
            shell=True,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PATH": paths},
        ).stdout

    def _ported(self, code: str) -> str:
        return code.replace("5432", str(self.port)) if "5432" in code else code


@pytest.fixture
def reader(people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    monkeypatch.chdir(tmp_path)
    POLICY.parent.mkdir()
    copy_example(POLICY.parent)
    (POLICY.parent / people.name).symlink_to(people)
    with contextlib.ExitStack() as running:
        yield Reader(running)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_examples_of(document: Path, reader: Reader) -> None:
    for example in examples(document):
        printed = reader.run(example)
        failed = example.language == "sql" and printed.startswith("ERROR")
        if example.output is None:
            assert not failed, f"{example.place}\n{printed}"
        else:
            assert same_shape(example.output, printed), f"{example.place} printed\n{printed}"


def test_the_pyramid(reader: Reader) -> None:
    script = ROOT / "examples" / "pyramid.py"
    address = f"postgresql://alice@127.0.0.1:{reader.port}/people"
    found = subprocess.run(
        [sys.executable, script, address], capture_output=True, text=True, check=True
    )
    notice, *decades, legend = found.stdout.splitlines()
    assert notice.startswith("cost epsilon 0.05; ")
    assert [int(line.replace("█", "")) for line in decades] == list(range(110, -1, -10))
    assert legend.split() == ["women", "men"]


@pytest.fixture
def drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The names of the notebook, after all of its cells ran in its folder. It starts the program
    in this process, where it need not be imported again."""

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert command[:3] == [sys.executable, "-m", "tallyveil"]
        found = CliRunner().invoke(app, command[3:])
        assert found.exit_code == 0, found.output
        return subprocess.CompletedProcess(command, 0, found.stdout)

    for folder in ("demo", "docs"):
        (tmp_path / folder).mkdir()
    copy_example(tmp_path / "demo")
    write_people(tmp_path / "demo" / "people.parquet", 2_000)
    monkeypatch.chdir(tmp_path / "docs")
    monkeypatch.setattr(subprocess, "run", run)
    plt.switch_backend("agg")
    names: dict[str, Any] = {}
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), NOTEBOOK.name, "exec"), names)
    yield names
    plt.close("all")


def test_the_notebook_draws_what_the_commands_print(drawn: dict[str, Any]) -> None:
    figures = [plt.figure(number) for number in plt.get_fignums()]
    for figure in figures:
        figure.canvas.draw()
    spending, boxes, matrix, compared = (figure.axes for figure in figures)
    steps, budget = spending[0].lines
    assert steps.get_ydata() == pytest.approx([0.05, 0.1, 0.15])
    assert list(budget.get_ydata()) == [3, 3]
    assert [label.get_text() for label in boxes[0].get_xticklabels()] == [
        *("none", "primary", "secondary", "bachelor", "master", "doctorate", "other", "None")
    ]
    low, high = boxes[0].get_ylim()
    assert all(low <= row["low"] < row["answer"] < row["high"] <= high for row in drawn["rows"])
    assert np.asarray(matrix[0].images[0].get_array()).sum(axis=0) == pytest.approx([1] * 9)
    assert [panel.get_title() for panel in compared] == ["α = 2/3", "α = 10/11"]
    for panel, first in zip(compared, (0, 4), strict=True):
        for line in panel.lines:
            losses = [row["loss"][line.get_label()] for row in drawn["compared"]]
            assert list(line.get_ydata()) == losses[first : first + 4]


def test_links_lead_somewhere() -> None:
    for document in (*DOCUMENTS, NOTEBOOK):
        for link in re.findall(r"\]\(([^)#]+)", document.read_text(encoding="utf-8")):
            if "://" not in link:
                assert (document.parent / link).exists(), f"{document.name}: {link}"


def test_shapes() -> None:
    assert same_shape(" n\n ---\n 15\n", "  n\n ----\n -1215")
    assert same_shape("a\n…\nz", "a\nb\nc\nz")
    assert same_shape("a\n…\nz", "a\nz")
    assert not same_shape("a | n\n", "b | n\n")
    assert not same_shape("1\n2\n", "1\n")
