"""Statements as dashboard tools write them are answered, or refused for reasons that remain."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench import dashboards
from bench.cliffs import Taken
from bench.dashboards import OWN, asked, workbooks

_REASONS = {"min of several values is decided by single records"}
# Far beyond what is meant, 2 s: the machine may be busy with other things, and slower.
_BOUND = 9.0


@pytest.mark.parametrize("step", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_dashboards_are_answered(step: int) -> None:
    (book,) = workbooks(OWN)
    book = replace(book, statements=book.statements[step - 1 :: step])  # and one that is refused
    found = dict(asked(book))
    assert {one.refusal for one in found.values()} - {None} <= _REASONS
    assert sum(one.rows is not None for one in found.values()) == len(found) - len(_REASONS)
    assert max(one.seconds for one in found.values()) < _BOUND


def test_a_corpus_is_read(tmp_path: Path) -> None:
    """With names that a policy does not take, and statements by the line."""
    book = tmp_path / "Flights"
    for name, text in {
        "tables/Flights_1.table.sql": 'CREATE TABLE "Flights_1"("2 way" boolean, "From, to" '
        'varchar(9) NOT NULL, "from_ to" double, "Año" timestamp);\n',
        "queries/1.sql": 'SELECT "Flights_1"."From, to" AS "From, to", SUM(1) AS "n:ok" '
        'FROM "Flights_1" WHERE ("Flights_1"."From, to" IN (\'A;B\', \'C\')) GROUP BY 1;\n',
        "queries/2.sql": 'SELECT "2 way", AVG("from_ to") FROM "Flights_1" GROUP BY 1 ;\n',
        "queries-original/queries.sql": 'SELECT SUM(1) AS "número" FROM "Flights_1"\n'
        'SELECT "2 way", SUM(1) FROM "Flights_1" GROUP BY 1\n',
    }.items():
        (book / name).parent.mkdir(parents=True, exist_ok=True)
        (book / name).write_text(text)
    (read,) = workbooks(tmp_path)
    assert [len(columns) for columns in read.tables.values()] == [4]
    assert [found.rows for _, found in asked(read)] == [2, 3, 1, 3]


def test_it_says_why_there_is_no_corpus(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(dashboards, "CORPUS", tmp_path / "absent")
    monkeypatch.setattr(dashboards, "asked", lambda book: [("", Taken(0.1, 1, None, None, {}))])
    dashboards.main()
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert first["skipped"] == "there is no such folder"
