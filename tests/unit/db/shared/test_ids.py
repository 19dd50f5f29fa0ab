"""Ids of results."""

from __future__ import annotations

from datetime import timedelta

from compile_hud.db.shared.ids import timed_id
from tests.support.builders import START


def test_ids_sort_by_time() -> None:
    ids = [timed_id(START + timedelta(milliseconds=number)) for number in range(300)]
    assert sorted(ids) == ids


def test_ids_of_one_moment_differ() -> None:
    ids = {timed_id(START) for _ in range(100)}
    assert len(ids) == 100
    assert {len(id) for id in ids} == {32}
