"""The better direction of imported metrics, by unit and name."""

from __future__ import annotations

import pytest

from compile_hud.db.records.metrics import METRICS, Direction, metric_of


@pytest.mark.parametrize(
    ("name", "unit", "direction"),
    [
        ("ttft", "ms", "lower_is_better"),
        ("queue", "seconds", "lower_is_better"),
        ("activation_mem", "GiB", "lower_is_better"),
        ("output_tokens_per_s", "1", "higher_is_better"),
        ("requests", "req/s", "higher_is_better"),
        ("geomean_speedup", "1", "higher_is_better"),
        ("tps", "1", "higher_is_better"),
    ],
)
def test_unit_and_name_say_which_way_is_better(name: str, unit: str, direction: str) -> None:
    metric = metric_of(name, unit=unit)
    assert metric is not None
    assert (metric.name, metric.unit, metric.direction) == (name, unit, Direction(direction))
    assert metric.is_judged


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("queue_depth", "requests"),
        ("accuracy", "1"),
        # What contradicts itself says nothing.
        ("throughput", "ms"),
        ("free_memory", "GB"),
        ("time_saved", "s"),
        ("steps", "1"),
        ("https", "1"),
    ],
)
def test_nothing_is_judged_that_may_be_better_either_way(name: str, unit: str) -> None:
    assert metric_of(name, unit=unit) is None


def test_our_own_metrics_are_those_of_the_table() -> None:
    for name, row in METRICS.items():
        assert metric_of(name, unit="odd", stated=Direction.NEITHER) is row


@pytest.mark.parametrize("name", ["queue_depth", "ttft_s", "throughput"])
def test_what_records_state_counts_before_name_and_unit(name: str) -> None:
    for direction in (Direction.LOWER_IS_BETTER, Direction.HIGHER_IS_BETTER):
        metric = metric_of(name, unit="s", stated=direction)
        assert metric is not None
        assert metric.direction is direction
    assert metric_of(name, unit="s", stated=Direction.NEITHER) is None
