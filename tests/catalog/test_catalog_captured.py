"""What real clients sent to PostgreSQL is answered, or refused for a reason that is listed.

`captured.tsv` has a line for each statement: the client, its number, and right or the refusal.
Written anew with --write-fixtures. The statements themselves are not here: see `captured.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.catalog.captured import captured, folder, replay

TABLE = Path(__file__).with_name("captured.tsv")
HEADER = "client\tnumber\tverdict\twhy\n"


def read() -> dict[tuple[str, int], str]:
    lines = TABLE.read_text().splitlines()[1:]
    rows = [line.split("\t") for line in lines]
    return {(client, int(number)): why for client, number, _, why in rows}


def test_most_of_what_clients_send_is_answered() -> None:
    """Without the statements themselves: the table says so."""
    refused = [why for why in read().values() if why]
    assert len(read()) - len(refused) >= 285
    assert not [why for why in refused if "catalog" in why]


@pytest.mark.skipif(folder() is None, reason="needs TALLYVEIL_CAPTURED, a folder of statements")
def test_each_captured_statement_gets_what_the_table_says(
    catalogued: Any, request: pytest.FixtureRequest
) -> None:
    found: dict[tuple[str, int], str] = {}
    for path in sorted((folder() or Path()).glob("*.sql")):
        with catalogued.connect() as connection:
            for one in captured(path):
                found[one.client, one.number] = replay(connection, one) or ""
    if request.config.getoption("--write-fixtures"):
        write(found)
    assert found == read()


def write(found: dict[tuple[str, int], str]) -> None:
    lines = (
        f"{client}\t{number}\t{'refused' if why else 'right'}\t{why}\n"
        for (client, number), why in found.items()
    )
    TABLE.write_text(HEADER + "".join(lines))
