"""The look-ups of a result in the compile caches, launch by launch."""

from __future__ import annotations

from typing import Any

from syrupy.assertion import SnapshotAssertion

from compile_hud.db.shared.compile_caches import cache_lookups

BYPASS = {
    "cache": "aotautograd",
    "event": "bypass",
    "reason": "Unsupported node op",
    "is_permanent": True,
    "remedy": "register it",
}


def launch(state: str, *reasons: dict[str, Any], **counts: int) -> dict[str, Any]:
    return {"state": state, "cache": counts, "cache_reasons": list(reasons)}


def test_each_launch_has_a_row_for_each_cache_with_its_own_reasons(
    words: SnapshotAssertion,
) -> None:
    details = {
        "compile": [
            launch("cold", BYPASS, fxgraph_misses=4, aotautograd_bypasses=2),
            launch("warm", BYPASS, fxgraph_hits=3, fxgraph_misses=1, aotautograd_bypasses=2),
        ]
    }
    rows = cache_lookups(details)
    assert [
        (row.launch, row.state, row.cache, row.num_hits, row.num_misses, row.num_bypasses)
        for row in rows
    ] == [
        (1, "cold", "fxgraph", 0, 4, 0),
        (1, "cold", "aotautograd", 0, 0, 2),
        (2, "warm", "fxgraph", 3, 1, 0),
        (2, "warm", "aotautograd", 0, 0, 2),
    ]
    assert [row.reasons_text for row in rows] == words


def test_a_cache_that_no_launch_used_has_no_rows() -> None:
    details = {"compile": [launch("cold", fxgraph_misses=1), launch("warm", fxgraph_hits=1)]}
    assert {row.cache for row in cache_lookups(details)} == {"fxgraph"}


def test_results_without_such_details_have_no_rows() -> None:
    old = {"state": "cold", "cache": {"fxgraph_misses": 2}}
    for details in ({}, {"compile": None}, {"compile": [None, {"state": "warm"}]}):
        assert cache_lookups(details) == []
    assert [row.num_misses for row in cache_lookups({"compile": [old, None]})] == [2]
