"""What a state knows of noises, drawn together or not."""

from __future__ import annotations

from tallyveil.knowledge.state import State


def test_no_columns_have_no_noises() -> None:
    """As where nothing recorded bears on a question, and nothing is exact."""
    assert len(State().all_noises(())) == 0
