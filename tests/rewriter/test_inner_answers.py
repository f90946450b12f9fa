"""The query in a condition is found where it is written, unless the statement is stopped."""

from __future__ import annotations

from typing import Any

import pytest

from tallyveil.deadline import Deadline, canceled
from tallyveil.errors import QueryCanceled
from tallyveil.rewriter import inner_answer, inner_answers, query_of

SQL = "SELECT count(*) FROM person WHERE age > (SELECT avg(age) FROM person)"


def test_a_cancel_is_not_taken_for_another_query(monkeypatch: pytest.MonkeyPatch) -> None:
    query, place = query_of(SQL, "duckdb"), SQL.index("avg") + 1
    found = inner_answer(query, place)
    assert found is not None
    assert SQL[found.start : found.end] == "(SELECT avg(age) FROM person)"
    parse = inner_answers.parse_query
    deadline = Deadline()

    def stopped(sql: str, *others: Any) -> Any:
        if sql != SQL:
            deadline.cancel()
            raise canceled()
        return parse(sql, *others)

    monkeypatch.setattr(inner_answers, "parse_query", stopped)
    with deadline.entered(), pytest.raises(QueryCanceled):
        inner_answer(query, place)
