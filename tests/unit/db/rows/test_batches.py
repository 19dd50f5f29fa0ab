"""Ids for statements that may name only so many."""

from __future__ import annotations

from compile_hud.db.rows.batches import IDS_PER_READ, batches


def test_each_id_comes_once_and_no_batch_has_too_many() -> None:
    ids = [str(number) for number in range(2 * IDS_PER_READ + 1)]
    parts = list(batches([*ids, *ids]))
    assert [len(batch) for batch in parts] == [IDS_PER_READ, IDS_PER_READ, 1]
    assert [name for batch in parts for name in batch] == ids


def test_no_ids_are_no_batch() -> None:
    assert list(batches([])) == []
