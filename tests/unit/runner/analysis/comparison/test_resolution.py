"""Tests of the resolution of inconclusive comparisons."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.metrics import Direction
from compile_hud.runner.analysis.comparison.log_change import (
    MIN_SETTLING_LAUNCHES,
    LogChange,
    num_launches_to_settle,
)
from compile_hud.runner.analysis.comparison.measurements import Judgement, decide_change
from compile_hud.runner.analysis.comparison.noise_model import ComparisonNoise, NoiseSource
from compile_hud.runner.analysis.comparison.resolution import (
    has_inconclusive,
    launches_to_settle,
    noise_sources,
    resolution_text,
    resolutions,
)
from compile_hud.runner.analysis.comparison.runs import CaseComparison
from compile_hud.runner.analysis.stats.estimates import Spread
from tests.support.builders import make_case


def row(error: float, *, launch_sd: float = 0.02, metric: str = "latency_s") -> CaseComparison:
    """Return a comparison of equal levels with this standard error."""
    floor = 0.15 if metric.startswith("compile") else 0.05
    comparison = decide_change(
        LogChange(log=0.0, error=error, degrees=math.inf, launch_sd=launch_sd),
        direction=Direction.LOWER_IS_BETTER,
        judgement=Judgement(floor=floor, noise=ComparisonNoise(launch=Spread(0.02, 8.0))),
    )
    return CaseComparison(
        case=make_case(),
        metric=metric,
        unit="s",
        baseline=1.0,
        candidate=1.0,
        comparison=comparison,
    )


def test_pairs_of_launches_count_and_launches_of_two_runs_do_not() -> None:
    fresh = row(0.04, launch_sd=0.05)
    assert fresh.comparison.change is not None
    needed = launches_to_settle(fresh, fail_above=0.05)
    assert needed == num_launches_to_settle(0.05, floor=0.05)
    for num_pairs, more in ((5, needed - 5), (2 * needed, 1)):
        change = replace(fresh.comparison.change, num_pairs=num_pairs)
        paired = replace(fresh, comparison=replace(fresh.comparison, change=change))
        assert launches_to_settle(paired, fail_above=0.05) == more
        (resolution,) = resolutions([paired], fail_above=0.05)
        assert resolution.num_launches == more


def test_decided_rows_need_no_resolution() -> None:
    assert resolutions([row(0.001)], fail_above=0.05) == ()
    assert not has_inconclusive([row(0.001)])
    assert launches_to_settle(row(0.001), fail_above=0.05) is None


def test_the_resolution_is_the_median_of_what_could_not_tell_by_floor() -> None:
    rows = [row(0.001), row(0.03), row(0.04), row(0.2), row(0.1, metric="compile_cold_s")]
    times, compilations = resolutions(rows, fail_above=0.05)
    assert (times.num_inconclusive, times.num_compared) == (3, 4)
    assert times.floor == pytest.approx(0.05)
    assert times.seen == pytest.approx(math.expm1(1.96 * 0.04), rel=1e-3)
    assert times.largest == pytest.approx(math.expm1(1.96 * 0.2), rel=1e-3)
    assert (compilations.num_inconclusive, compilations.floor) == (1, pytest.approx(0.15))
    assert has_inconclusive(rows)


def test_the_sentence_has_plain_numbers_and_no_second_one_that_says_the_same(
    words: SnapshotAssertion,
) -> None:
    groups = {
        "one": [row(0.001), row(0.04)],
        "equal": [row(0.04)] * 3,
        "wide": [row(0.03), row(0.04), row(1.2)],
        "huge": [row(1.2)] * 2,
    }
    texts = {
        name: [item.text for item in resolutions(rows, fail_above=0.05)]
        for name, rows in groups.items()
    }
    assert texts == words


def test_one_text_is_about_all_floors() -> None:
    compilation = row(0.1, metric="compile_cold_s")
    both = resolutions([row(0.001), row(0.04), compilation], fail_above=0.05)
    text = resolution_text(both)
    most = max(item.num_launches for item in both)
    assert text.startswith("2 comparisons are ")
    assert " 5 % and 15 %: " in text
    assert " 8.2 to 22 % " in text
    assert f" {most} more launches " in text
    assert text.endswith(" settle them")
    wide = resolutions([row(0.04), row(1.2), compilation], fail_above=0.05)
    assert resolution_text(wide).endswith(" half of them")
    assert resolution_text(both[:1]) == both[0].text
    assert resolution_text(()) == ""


def test_a_larger_floor_takes_fewer_launches() -> None:
    numbers = [num_launches_to_settle(0.05, floor=floor) for floor in (0.02, 0.05, 0.15)]
    assert numbers == sorted(numbers, reverse=True)
    assert num_launches_to_settle(1e-4, floor=0.05) == MIN_SETTLING_LAUNCHES


def test_so_many_launches_settle_equal_sides_in_nine_of_ten_cases() -> None:
    generator = np.random.default_rng(0)
    number = num_launches_to_settle(0.05, floor=0.05)
    error = 0.05 * math.sqrt(2 / number)
    changes = [
        LogChange(log=log, error=error, degrees=math.inf)
        for log in error * generator.standard_normal(4000)
    ]
    # Both sides of the floor count, so that nine of ten become eight of ten for equal sides.
    share = np.mean([change.equivalence_p_value(0.05) <= 0.05 for change in changes])
    assert 0.77 < share < 0.95


def test_the_sources_of_the_noise_are_counted() -> None:
    assert noise_sources([row(0.1), row(0.001)]) == {NoiseSource.TABLE: 2}
