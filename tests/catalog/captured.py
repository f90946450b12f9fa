"""Statements that real clients sent to PostgreSQL, as captured in a folder of files, a client each.

The statements themselves are kept elsewhere; TALLYVEIL_CAPTURED names the folder.
"""

from __future__ import annotations

import os
import re
import select
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import pq

_HEADER = re.compile(r"^-- \[(\d+)\] (simple|extended|ERROR)\b.*?(?:parameters: (.*))?$")
_PARAMETER = re.compile(r"\$\d+ = (NULL|'(?:[^']|'')*')")

GOOD = (
    pq.ExecStatus.TUPLES_OK,
    pq.ExecStatus.COMMAND_OK,
    pq.ExecStatus.EMPTY_QUERY,
    pq.ExecStatus.COPY_OUT,
)


@dataclass(frozen=True)
class Captured:
    """``parameters`` are None for the simple protocol."""

    client: str
    number: int
    sql: str
    parameters: tuple[bytes | None, ...] | None


def folder() -> Path | None:
    named = os.environ.get("TALLYVEIL_CAPTURED")
    return Path(named) if named and Path(named).is_dir() else None


def captured(path: Path) -> Iterator[Captured]:
    """Those of one client, in the order they were sent."""
    header: re.Match[str] | None = None
    lines: list[str] = []
    for line in [*path.read_text().splitlines(), "-- [0] simple"]:
        found = _HEADER.match(line)
        if found is None:
            lines.append(line)
            continue
        sql = "\n".join(lines).strip()
        if header is not None and sql and header[2] != "ERROR":
            yield Captured(path.stem, int(header[1]), sql, _parameters(header))
        header, lines = found, []


def _parameters(header: re.Match[str]) -> tuple[bytes | None, ...] | None:
    if header[2] == "simple":
        return None
    values = _PARAMETER.findall(header[3] or "")
    return tuple(None if v == "NULL" else v[1:-1].replace("''", "'").encode() for v in values)


def replay(connection: psycopg.Connection[Any], one: Captured) -> str | None:
    """Send it as it was sent; what is wrong, or None. A block that failed is ended."""
    raw, sql = connection.pgconn, one.sql.encode()
    alone = raw.transaction_status == pq.TransactionStatus.IDLE
    if alone and one.sql.startswith("DECLARE"):  # which is sent in a block
        raw.send_query(b"BEGIN")
        list(_results(raw))
    if one.parameters is None:
        raw.send_query(sql)
    else:
        raw.send_query_params(sql.rstrip(b"; \n"), one.parameters)
    wrong = [text for text in map(_mistake, _results(raw)) if text is not None]
    if raw.transaction_status == pq.TransactionStatus.INERROR:
        connection.rollback()
    return wrong[0] if wrong else None


def _results(raw: pq.abc.PGconn) -> Iterator[pq.abc.PGresult]:
    """All results, rows of COPY left out. libpq's own waiting would keep the server waiting."""
    while raw.flush():
        select.select([], [raw.socket], [])
    while True:
        while raw.is_busy():
            select.select([raw.socket], [], [])
            raw.consume_input()
        result = raw.get_result()
        if result is None:
            return
        if result.status == pq.ExecStatus.COPY_OUT:
            while (size := raw.get_copy_data(1)[0]) >= 0:
                if not size:
                    select.select([raw.socket], [], [])
                    raw.consume_input()
        yield result


def _mistake(result: pq.abc.PGresult) -> str | None:
    if result.status in GOOD:
        return None
    state = result.error_field(pq.DiagnosticField.SQLSTATE) or b""
    said = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b""
    return f"{state.decode()} {said.decode()}"
