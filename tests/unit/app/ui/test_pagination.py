"""The rows of a long table that are shown."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.ui.pagination import NUM_FIRST, FirstRows, first_note
from compile_hud.app.ui.urls import ALL_ROWS


@pytest.mark.parametrize(
    ("num_rows", "query", "num_shown"),
    [(0, "", 0), (60, "", 60), (61, "", NUM_FIRST), (1600, "", NUM_FIRST), (1600, ALL_ROWS, 1600)],
)
def test_a_long_table_has_its_first_rows_until_all_are_requested(
    num_rows: int, query: str, num_shown: int
) -> None:
    assert FirstRows(num_rows=num_rows, requested=query).num_shown == num_shown


def test_the_note_counts_the_hidden_rows(
    words: SnapshotAssertion,
) -> None:
    note = first_note(FirstRows(num_rows=1600, requested=""), order="the worst come first")
    assert note == words


@pytest.mark.parametrize(("num_rows", "query"), [(60, ""), (1600, ALL_ROWS)])
def test_there_is_no_note_where_all_rows_are_shown(num_rows: int, query: str) -> None:
    assert not first_note(FirstRows(num_rows=num_rows, requested=query), order="by size")
