"""What fails after data was touched is charged, for few rows and for many; and commits are few."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tallyveil
from tallyveil.cube import Cube
from tallyveil.mechanisms.losses import privacy_loss
from tallyveil.mechanisms.noise.laplace import DiscreteLaplace

Connect = Callable[..., tallyveil.Connection]

FEW = "SELECT count(*) FROM person WHERE age < {}"
MANY = "SELECT age, state, count(*) FROM person WHERE age < {} GROUP BY age, state"


def spent(connection: tallyveil.Connection) -> float:
    return float(connection.budget()[0]["spent"])


@pytest.mark.parametrize("asked", [FEW, MANY])
@pytest.mark.parametrize(("owner", "step"), [(Cube, "answer"), (DiscreteLaplace, "release")])
def test_failing_is_not_free(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, asked: str, owner: Any, step: str
) -> None:
    connection = connect(budget={"epsilon": 10.0})
    connection.execute("SET dp.source = fresh")
    connection.execute(asked.format(70))
    real = getattr(owner, step)

    def failing(self: Any, *arguments: Any) -> Any:
        real(self, *arguments)
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(owner, step, failing)
        with pytest.raises(MemoryError):
            connection.execute(asked.format(80))
    assert spent(connection) == 0.2
    connection.execute(asked.format(80))
    assert spent(connection) == pytest.approx(0.3)


@pytest.mark.parametrize(("asked", "commits"), [(FEW, 1), (MANY, 2)])
def test_a_statement_is_one_commit_where_little_is_drawn(
    connect: Connect, asked: str, commits: int
) -> None:
    """And a repeated one reads the ledger's version and no more."""
    connection = connect(budget={"epsilon": 10.0})
    connection.execute("SET dp.source = fresh")
    connection.execute(asked.format(70))
    seen: list[str] = []
    connection._gate._ledger._database._connection.set_trace_callback(seen.append)
    connection.execute(asked.format(80)).fetchall()
    assert seen.count("COMMIT") == commits
    assert sum(one.startswith("BEGIN") for one in seen) == commits
    connection.execute("SET dp.source = auto")
    connection.execute(asked.format(80)).fetchall()
    seen.clear()
    connection.execute(asked.format(80)).fetchall()
    assert set(seen) == {"PRAGMA data_version"}


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
