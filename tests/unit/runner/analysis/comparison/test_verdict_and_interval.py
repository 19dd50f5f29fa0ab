"""A verdict agrees with the interval in the same row."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compile_hud.db.records.metrics import METRICS, Direction
from compile_hud.db.records.results import CaseResult, Verdict
from compile_hud.runner.analysis.comparison.measurements import CHANGED
from compile_hud.runner.analysis.comparison.paired import PairStandard, compare_pair
from compile_hud.runner.analysis.comparison.runs import CaseComparison, compare_results, floor_of
from tests.support.builders import make_case, make_measurement, make_result

_LEVELS = {
    "latency_s": 0.02,
    "latency_cpu_s": 0.04,
    "eager_latency_s": 0.03,
    "eager_latency_cpu_s": 0.05,
    "speedup": 1.5,
    "compile_cold_s": 40.0,
    "peak_bytes": 3e9,
}
_NUM_SAMPLES = 7


def _result(
    model: str, device: str, *, draw: random.Random, factors: dict[str, float], sd: float
) -> CaseResult:
    """Return a result whose launches differ by `sd`, more on the wall clock."""
    num_launches = 3
    return make_result(
        case=make_case(model, device=device),
        measurements=[
            make_measurement(
                metric,
                samples=[
                    level * factors[metric] * launch * draw.lognormvariate(0, 0.004)
                    for launch in (
                        draw.lognormvariate(0, sd * (3 if "cpu" not in metric else 1))
                        for _ in range(num_launches)
                    )
                    for _ in range(_NUM_SAMPLES)
                ],
                launches=(_NUM_SAMPLES,) * num_launches,
            )
            for metric, level in _LEVELS.items()
        ],
    )


def _check(row: CaseComparison) -> None:
    comparison = row.comparison
    if comparison.low is None or comparison.high is None or comparison.change is None:
        return
    low, high = comparison.low, comparison.high
    if comparison.verdict in CHANGED:
        assert not low <= 1 <= high
        is_worse = (low > 1) == (METRICS[row.metric].direction is Direction.LOWER_IS_BETTER)
        assert is_worse == (comparison.verdict is Verdict.REGRESSION)
    if comparison.verdict is Verdict.UNCHANGED:
        most = 1 + floor_of(row.metric, 0.05)
        least, largest = comparison.change.interval(0.1)
        assert max(largest, 1 / least) <= most + 1e-9
        # An interval that is wider than the floor has the deciding one in its reason.
        assert max(high, 1 / low) <= most + 1e-9 or "% interval is" in comparison.reason


@given(
    st.integers(0, 2**32),
    st.sampled_from([0.002, 0.01, 0.03, 0.08]),
    st.sampled_from([1.0, 1.03, 1.12, 0.85]),
    st.sampled_from([1.0, 1.12, 1.6]),
    st.sampled_from(["cpu", "cuda"]),
)
def test_row_of_a_change_has_no_interval_around_no_change(
    seed: int, sd: float, code: float, machine: float, device: str
) -> None:
    draw = random.Random(seed)
    same = dict.fromkeys(_LEVELS, 1.0)
    times = {name: machine for name in _LEVELS if name.endswith("_s")}
    moved = {
        **same,
        **times,
        "latency_s": machine * code * draw.choice([1.0, 1.3]),
        "latency_cpu_s": machine * code,
        "speedup": 1 / code,
        "peak_bytes": draw.choice([1.0, 1.2]),
    }
    sides = [
        [_result(f"m{number}", device, draw=draw, factors=factors, sd=sd) for number in range(3)]
        for factors in (same, moved)
    ]
    rows = compare_results(sides[0], sides[1])
    paired = compare_pair(sides[0][0], candidate=sides[1][0], standard=PairStandard())
    for row in (*rows, *paired):
        _check(row)
    # A row that another one decides names a row of its case.
    known = {(row.case.key, row.metric) for row in rows}
    for row in rows:
        decider = row.comparison.decided_by
        assert not decider or (row.case.key, decider) in known


@pytest.mark.parametrize("sd", [0.05, 0.08])
def test_noisy_wall_clock_is_among_the_rows_that_are_checked(sd: float) -> None:
    draw = random.Random(7)
    same, slow = dict.fromkeys(_LEVELS, 1.0), dict.fromkeys(_LEVELS, 1.0)
    slow |= {"latency_s": 1.35, "latency_cpu_s": 1.35, "speedup": 1 / 1.35}
    decided = 0
    for _ in range(20):
        sides = [
            [_result("m", "cpu", draw=draw, factors=factors, sd=sd)] for factors in (same, slow)
        ]
        rows = compare_results(*sides)
        decided += sum(bool(row.comparison.decided_by) for row in rows)
    assert decided
