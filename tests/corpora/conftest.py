"""The house that generated statements are planned in."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from tests.corpora.house import House, create, draw_rows, fill, policy, silent


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with silent(), duckdb.connect() as source:
        fill(source, create(draw_rows(1, 20), edges=False, division="//"))
        made = House(policy(tmp_path_factory.mktemp("house")), source)
        yield made
        made.close()
