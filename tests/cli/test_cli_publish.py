"""`tallyveil publish` beside a server: what its clients see, also after it was killed."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import numpy as np
import psycopg
from typer.testing import CliRunner

from tallyveil.cli.app import app
from tests.cli.test_cli_serve import serving
from tests.gate.growing_visits import Visits, day, random_rows

BY_DAY = "SELECT day, count(*) FROM visits GROUP BY day ORDER BY day"


def test_connections_stay_and_see_the_next_version(tmp_path: Path) -> None:
    visits = Visits(tmp_path)
    visits.declare(budget="epsilon = 3")
    visits.fill(random_rows(np.random.default_rng(1), 300))
    visits.publish(2)
    policy, told = tmp_path / "policy.toml", list[str]()
    with (
        serving(policy) as (server, address),
        psycopg.connect(address, autocommit=True) as one,
        psycopg.connect(address, autocommit=True) as other,
    ):
        one.add_notice_handler(lambda notice: told.append(notice.message_primary or ""))
        first = one.execute(BY_DAY).fetchall()
        assert one.execute(BY_DAY).fetchall() == other.execute(BY_DAY).fetchall() == first
        assert [d for d, _ in first] == [day(n) for n in range(3)]
        published = CliRunner().invoke(
            app, ["publish", str(policy), "--through", str(day(4)), "--report", "--json"]
        )
        assert published.exit_code == 0, published.output
        found = json.loads(published.output)
        assert (found["version"], found["through"], found["new"]) == (2, str(day(4)), True)
        assert found["records"] > 0
        then = one.execute(BY_DAY).fetchall()
        assert then[:3] == first
        assert [d for d, _ in then] == [day(n) for n in range(5)]
        assert other.execute(BY_DAY).fetchall() == then
        assert [text.partition(": ")[2].split(" are")[0] for text in told if "version" in text] == [
            f"days through {day(2)}",
            f"days through {day(4)}",
        ]
        server.kill()
    with serving(policy) as (_, address), psycopg.connect(address) as again:
        assert again.execute(BY_DAY).fetchall() == then


def test_what_cannot_be_published_is_said(tmp_path: Path) -> None:
    visits = Visits(tmp_path)
    visits.fill(random_rows(np.random.default_rng(2), 20))
    policy = str(tmp_path / "policy.toml")
    soon = dt.datetime.now(dt.UTC).date()
    for arguments, message in (
        ((policy, "--through", str(soon)), "is not over for table visits"),
        ((policy, "--through", "yesterday"), "expected a day, such as 2026-11-20"),
    ):
        result = CliRunner().invoke(app, ["publish", *arguments])
        assert result.exit_code == 1
        assert message in result.stderr
    with visits.open() as connection:  # which publishes the first version itself
        assert connection.sql("SELECT count(*) FROM dp.versions").fetchall() == [(1,)]
