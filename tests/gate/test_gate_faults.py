"""What fails after data was touched is charged, for few rows and for many; and commits are few."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tallyveil.accountant.store.ledger_records import (
    AnswerRecord,
    ChargeRecord,
    DerivationRecord,
    Record,
)
from tallyveil.cube import Cube
from tallyveil.errors import LedgerError, QueryCanceled
from tallyveil.gate import Gate, GateSession
from tallyveil.mechanisms.losses import privacy_loss
from tallyveil.mechanisms.noise.laplace import DiscreteLaplace
from tests.accountant.ledgers import cannot_append
from tests.gate.asking import Connect, ask, spent

FEW = "SELECT count(*) FROM person WHERE age < {}"
MANY = "SELECT age, state, count(*) FROM person WHERE age < {} GROUP BY age, state"


Asking = tuple[Gate, GateSession]


@pytest.fixture
def asking(connect: Connect) -> Iterator[Asking]:
    gate = connect()._gate
    with closing(gate.session("ann")) as session:
        yield gate, session


@pytest.mark.parametrize("asked", [FEW, MANY])
@pytest.mark.parametrize(("owner", "step"), [(Cube, "answer"), (DiscreteLaplace, "release")])
def test_failing_is_not_free(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, asked: str, owner: Any, step: str
) -> None:
    connection = connect(budget={"epsilon": 10.0})
    ask(connection, asked.format(70), source="fresh")
    real = getattr(owner, step)

    def failing(self: Any, *arguments: Any, **named: Any) -> Any:
        real(self, *arguments, **named)
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(owner, step, failing)
        with pytest.raises(MemoryError):
            connection.execute(asked.format(80))
    assert spent(connection) == 0.2
    connection.execute(asked.format(80))
    assert spent(connection) == pytest.approx(0.3)


@pytest.mark.parametrize("asked", [FEW, MANY])
@pytest.mark.parametrize("step", [AnswerRecord, ChargeRecord])
def test_a_ledger_that_cannot_be_written_says_whether_the_statement_was_charged(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, asked: str, step: type[Record]
) -> None:
    connection = connect(budget={"epsilon": 10.0})
    with monkeypatch.context() as patch:
        cannot_append(patch, step, sqlite3.OperationalError("database or disk is full"))
        with pytest.raises(LedgerError) as caught:
            ask(connection, asked.format(80), epsilon=0.1)
    charged = "The charge is kept (cost epsilon 0.1), but its noisy answers were not recorded."
    assert caught.value.detail == "database or disk is full. " + (
        f"{charged} To ask again costs again." if step is AnswerRecord else "Nothing was charged."
    )
    before = spent(connection)
    assert before == (0.1 if step is AnswerRecord else 0)
    ask(connection, asked.format(80), epsilon=0.1)
    assert spent(connection) == pytest.approx(before + 0.1)


def test_on_a_full_disk_an_error_says_whether_it_was_charged(connect: Connect) -> None:
    connection = connect(budget={"epsilon": 100.0})
    ledger = connection._gate._ledger._connection
    (pages,) = ledger.execute("PRAGMA page_count").fetchone()
    ledger.execute(f"PRAGMA max_page_count = {pages}")
    said = set[bool]()
    for age in range(1, 30):
        before = spent(connection)
        detail = None
        try:
            ask(connection, MANY.format(age), epsilon=0.1, source="fresh")
        except LedgerError as error:
            detail = str(error.detail)
        if detail is not None:
            kept = "The charge is kept" in detail
            assert kept != ("Nothing was charged." in detail)
            assert spent(connection) == pytest.approx(before + 0.1 * kept)
            said.add(kept)
    assert False in said


@pytest.mark.parametrize(("asked", "commits"), [(FEW, 1), (MANY, 2)])
def test_a_statement_is_one_commit_where_little_is_drawn(
    connect: Connect, asked: str, commits: int
) -> None:
    """And a repeated one asks SQLite for nothing: the ledger's header says that it stands still."""
    connection = connect(budget={"epsilon": 10.0})
    ask(connection, asked.format(70), source="fresh")
    seen: list[str] = []
    connection._gate._ledger._connection.set_trace_callback(seen.append)
    connection.execute(asked.format(80)).fetchall()
    assert seen.count("COMMIT") == commits
    assert sum(one.startswith("BEGIN") for one in seen) == commits
    ask(connection, asked.format(80), source="auto")
    seen.clear()
    connection.execute(asked.format(80)).fetchall()
    assert not seen


def test_the_loss_of_a_statement_is_worked_out_once(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the scales, the quote and the charge."""
    connection = connect()
    cell_losses, calls = privacy_loss.cell_losses, []

    def counted(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        return cell_losses(*arguments, **options)

    monkeypatch.setattr(privacy_loss, "cell_losses", counted)
    connection.execute(FEW.format(70))
    assert len(calls) == 1


def test_a_cancel_after_the_charge_says_so(asking: Asking) -> None:
    gate, session = asking
    (statement,) = session.parse("SELECT age, count(*), dp_stddev(count(*)) FROM person GROUP BY 1")
    before = gate.accountant.position()
    charged = session.limited(lambda: gate.accountant.position() != before)
    with pytest.raises(QueryCanceled) as caught, charged:
        session.execute(statement)
    assert "charged before" in str(caught.value.detail)


def test_a_cancel_while_an_answer_is_combined_with_others_says_what_was_charged(
    connect: Connect,
) -> None:
    connection = connect(budget={"epsilon": 10.0})
    connection.execute("SELECT age, count(*) FROM person GROUP BY age")
    session = connection._gate.session("ann", dialect="duckdb")
    (statement,) = session.parse("SELECT age < 40, count(*) FROM person WHERE age < 80 GROUP BY 1")
    session.set("dp.epsilon", "0.2")
    accountant = connection._gate.accountant
    before = accountant.position()
    charged = session.limited(lambda: accountant.position() != before)
    with pytest.raises(QueryCanceled) as caught, charged:
        session.execute(statement)
    assert "charged before (cost epsilon 0.2), and are kept" in str(caught.value.detail)
    session.close()


FAILURES = [
    sqlite3.OperationalError("disk I/O error"),
    OSError(5, "Input/output error", "/srv/tables/person.sqlite"),
]


@pytest.mark.parametrize("step", [ChargeRecord, AnswerRecord, DerivationRecord])
@pytest.mark.parametrize("failure", FAILURES, ids=["sqlite", "system"])
def test_an_error_of_the_ledger_names_no_directory_and_is_made_of_sentences(
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    step: type[Record],
    failure: Exception,
) -> None:
    connection = connect(budget={"epsilon": 10.0})
    # The cells help to estimate the groups, which is recorded.
    ask(connection, MANY.format(9), epsilon=0.05)
    connection.execute("SET dp.epsilon = 0.1")

    cannot_append(monkeypatch, step, failure)
    with pytest.raises(LedgerError) as caught:
        connection.execute("SELECT state, count(*) FROM person WHERE age < 9 GROUP BY state")
    error = caught.value
    name = connection._gate._ledger.path.name
    assert error.message == f"the ledger {name} cannot be written"
    assert str(tmp_path) not in str(error)
    assert "/srv" not in str(error)
    assert error.detail.split(". ")[0] in ("disk I/O error", "Input/output error")
    charged = {
        ChargeRecord: "Nothing was charged.",
        AnswerRecord: "The charge is kept (",
        DerivationRecord: "The noisy answers were charged before (",
    }
    assert f"error. {charged[step]}" in error.detail


def test_a_ledger_that_was_removed_is_reported_without_its_directory(
    connect: Connect, tmp_path: Path
) -> None:
    connection = connect(budget={"epsilon": 10.0})
    connection._gate._ledger.path.unlink()
    with pytest.raises(LedgerError, match="was removed while in use") as caught:
        connection.execute(FEW.format(70))
    assert str(tmp_path) not in str(caught.value)
