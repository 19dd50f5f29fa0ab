"""The traces that are removed, and those that stay."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from compile_hud.runner.persistence.trace_retention import StoredTrace, TraceRules, traces_to_remove
from tests.support.builders import START

RULES = TraceRules(num_nights=2, max_bytes=100)


def trace(night: int, *, size_bytes: int = 10, is_watched: bool = False) -> StoredTrace:
    return StoredTrace(
        path=Path(f"{night}.json.gz"),
        size_bytes=size_bytes,
        at=START + timedelta(days=night),
        is_watched=is_watched,
    )


def removed(*traces: StoredTrace) -> list[int]:
    return [int(item.path.name.partition(".")[0]) for item in traces_to_remove(traces, rules=RULES)]


def test_the_newest_nights_stay() -> None:
    assert removed(trace(3), trace(0), trace(9), trace(9)) == [0]


def test_days_without_a_run_are_no_nights() -> None:
    assert removed(trace(0), trace(300)) == []


def test_what_an_alert_points_at_stays_however_old() -> None:
    assert removed(trace(0, is_watched=True), trace(1), trace(2), trace(3)) == [1]


def test_the_oldest_go_until_the_rest_fits() -> None:
    assert removed(trace(3, size_bytes=60), trace(2, size_bytes=60)) == [2]
    assert removed(trace(3, size_bytes=60), trace(2, size_bytes=40)) == []


def test_what_an_alert_points_at_goes_last() -> None:
    watched = trace(0, size_bytes=60, is_watched=True)
    assert removed(watched, trace(2, size_bytes=60)) == [2]
    assert removed(watched, trace(1, size_bytes=60, is_watched=True)) == [0]


def test_nothing_is_removed_of_nothing() -> None:
    assert removed() == []
