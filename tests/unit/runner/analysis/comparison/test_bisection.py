"""Searching a history by noisy answers: what each answer is, and how often the search is right."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.results import CaseResult, Outcome, Verdict
from compile_hud.runner.analysis.comparison.bisection import (
    BoundsVerdict,
    Mark,
    Reading,
    Suspects,
    answer,
    find_suspects,
    judge_bounds,
    log_position,
    next_index,
    num_answers,
    read_pair,
    verdict_of,
)
from compile_hud.runner.analysis.comparison.paired import PairStandard, compare_pair, looks
from tests.support.builders import make_case, make_measurement, make_result
from tests.support.nightly import daily_first

FLOOR = 0.05
CPU = "latency_cpu_s"


def reading(
    ratio: float | None = 1.0,
    low: float | None = None,
    high: float | None = None,
    *,
    metric: str = CPU,
    levels: tuple[float | None, float | None] | None = None,
    outcomes: tuple[Outcome, Outcome] = (Outcome.OK, Outcome.OK),
) -> Reading:
    """Return a reading whose interval is 1 % around `ratio`, both sides ok."""
    if levels is None:
        levels = (None, None) if ratio is None else (1.0, ratio)
    return Reading(
        metric=metric,
        unit="s",
        baseline=levels[0],
        candidate=levels[1],
        ratio=ratio,
        low=low or (None if ratio is None else ratio * 0.99),
        high=high or (None if ratio is None else ratio * 1.01),
        baseline_outcome=outcomes[0],
        candidate_outcome=outcomes[1],
    )


def counts(before: float, after: float) -> Reading:
    """Return a reading of graph breaks."""
    return reading(1.0, metric="graph_breaks", levels=(before, after))


def outcomes(before: Outcome, after: Outcome) -> Reading:
    """Return a reading of outcomes."""
    return reading(None, metric="outcome", outcomes=(before, after))


@pytest.mark.parametrize(
    ("ends", "verdict"),
    [
        (reading(1.20, 1.15, 1.25), BoundsVerdict.DIFFER),
        (reading(0.80, 0.75, 0.85), BoundsVerdict.DIFFER),
        # Its lower bound is less than half of the change: the half-way level may be beyond the end.
        (reading(1.20, 1.05, 1.37), BoundsVerdict.UNCLEAR),
        (reading(0.997, 0.99, 1.01), BoundsVerdict.SAME),
        # Outside noise, and all of it too small to be looked for.
        (reading(1.03, 1.025, 1.035), BoundsVerdict.SAME),
        (reading(1.01, 0.90, 1.13), BoundsVerdict.UNCLEAR),
        (reading(None), BoundsVerdict.UNCLEAR),
        (counts(0, 2), BoundsVerdict.DIFFER),
        (counts(2, 2), BoundsVerdict.SAME),
        (outcomes(Outcome.OK, Outcome.FAILED), BoundsVerdict.DIFFER),
        (outcomes(Outcome.OK, Outcome.OK), BoundsVerdict.SAME),
    ],
)
def test_ends_differ_only_when_half_of_the_change_is_sure(
    ends: Reading, verdict: BoundsVerdict
) -> None:
    assert judge_bounds(ends, floor=FLOOR) is verdict


@pytest.mark.parametrize(
    ("step_reading", "mark"),
    [
        (reading(1.01, 0.98, 1.04), Mark.GOOD),
        (reading(1.20, 1.16, 1.24), Mark.BAD),
        (reading(1.10, 1.05, 1.15), None),
        # More than the whole change, or the other way: still on one side of its half.
        (reading(1.60, 1.50, 1.70), Mark.BAD),
        (reading(0.80, 0.75, 0.85), Mark.GOOD),
        (reading(None), Mark.SKIPPED),
    ],
)
def test_an_answer_is_compared_with_half_of_the_change(
    step_reading: Reading, mark: Mark | None
) -> None:
    assert answer(step_reading, bounds=reading(1.20, 1.15, 1.25)) is mark


def test_an_improvement_is_searched_the_same_way() -> None:
    ends = reading(0.80, 0.78, 0.82)
    assert answer(reading(0.99, 0.97, 1.01), bounds=ends) is Mark.GOOD
    assert answer(reading(0.81, 0.79, 0.83), bounds=ends) is Mark.BAD
    assert verdict_of(ends) is Verdict.IMPROVEMENT


def test_of_a_metric_of_which_more_is_better_a_fall_is_a_regression() -> None:
    assert METRICS["speedup"].direction == "higher_is_better"
    assert verdict_of(reading(0.8, metric="speedup")) is Verdict.REGRESSION
    assert verdict_of(reading(1.2, metric="speedup")) is Verdict.IMPROVEMENT


def test_counts_are_compared_with_half_of_the_way_even_from_0() -> None:
    ends = counts(0, 4)
    assert answer(counts(0, 1), bounds=ends) is Mark.GOOD
    assert answer(counts(0, 2), bounds=ends) is Mark.BAD
    assert answer(reading(None, metric="graph_breaks"), bounds=ends) is Mark.SKIPPED


def test_a_bisection_of_outcomes_skips_what_ended_in_a_third_way() -> None:
    ends = outcomes(Outcome.OK, Outcome.INACCURATE)
    assert answer(outcomes(Outcome.OK, Outcome.OK), bounds=ends) is Mark.GOOD
    assert answer(outcomes(Outcome.OK, Outcome.INACCURATE), bounds=ends) is Mark.BAD
    assert answer(outcomes(Outcome.OK, Outcome.FAILED), bounds=ends) is Mark.SKIPPED
    assert verdict_of(ends) is Verdict.REGRESSION
    assert verdict_of(outcomes(Outcome.FAILED, Outcome.OK)) is Verdict.IMPROVEMENT


def test_a_share_needs_a_change_to_be_a_share_of() -> None:
    assert log_position(reading(1.1), bounds=reading(1.0, 0.9, 1.1)) is None


def test_the_time_that_decides_is_read_unless_another_metric_is_named() -> None:
    sides = [
        make_result(
            measurements=[
                make_measurement(CPU, samples=[level] * 6, launches=(1,) * 6),
                make_measurement("peak_bytes", samples=[level] * 6, launches=(1,) * 6),
            ]
        )
        for level in (1.0, 2.0)
    ]
    rows = compare_pair(sides[0], candidate=sides[1], standard=PairStandard())
    reading = read_pair(*sides, rows=rows)
    assert (reading.metric, reading.baseline, reading.candidate) == (CPU, 1.0, 2.0)
    assert read_pair(*sides, rows=rows, metric="peak_bytes").unit == "B"
    absent = read_pair(*sides, rows=rows, metric="compile_cold_s")
    assert (absent.ratio, absent.unit) == (None, "")


def test_a_history_of_one_step_takes_as_many_answers_as_it_can_be_halved() -> None:
    assert [num_answers(num) for num in (2, 3, 5, 9, 10, 129)] == [2, 3, 4, 5, 6, 9]


def test_the_middle_is_measured_first() -> None:
    assert next_index(find_suspects(11, {})) == 5


def test_neighbours_are_left_when_one_is_skipped() -> None:
    marks: dict[int, Mark] = {}
    indexes = []
    for _ in range(4):
        index = next_index(find_suspects(33, marks))
        assert index is not None
        indexes.append(index)
        marks[index] = Mark.SKIPPED
    assert indexes == [16, 8, 24, 4]


@pytest.mark.parametrize("num_revisions", [2, 3, 8, 31])
def test_sure_answers_find_each_step_in_the_fewest_questions(num_revisions: int) -> None:
    for first_bad in range(1, num_revisions):
        marks: dict[int, Mark] = {}
        while (index := next_index(find_suspects(num_revisions, marks))) is not None:
            marks[index] = Mark.BAD if index >= first_bad else Mark.GOOD
        suspects = find_suspects(num_revisions, marks)
        assert (suspects.last_good, suspects.first_bad) == (first_bad - 1, first_bad)
        assert len(marks) + 2 <= num_answers(num_revisions)


def test_skipped_revisions_next_to_the_step_leave_a_range() -> None:
    marks: dict[int, Mark] = {}
    while (index := next_index(find_suspects(20, marks))) is not None:
        broken = 9 <= index <= 12
        marks[index] = Mark.SKIPPED if broken else Mark.BAD if index >= 11 else Mark.GOOD
    suspects = find_suspects(20, marks)
    assert suspects == Suspects(last_good=8, first_bad=13, skipped=(9, 10, 11, 12))
    assert suspects.num_left == 5


# Standard deviations between launches of one build that were measured on CPUs:
# docs/explanation/measurement-data.md.
Noise = Callable[[np.random.Generator, int], np.ndarray]


def steady(sd: float) -> Noise:
    """Return noise without neighbours."""
    return lambda generator, num: sd * generator.standard_normal((2, num))


def disturbed(generator: np.random.Generator, num: int) -> np.ndarray:
    """Return noise where a neighbour hits 15 % of the launches by 10 %."""
    hits = generator.random((2, num)) < 0.15
    return 0.013 * generator.standard_normal((2, num)) + 0.10 * hits


def drifting(generator: np.random.Generator, num: int) -> np.ndarray:
    """Return noise where both sides share a machine that changes its speed."""
    drift = np.cumsum(0.03 * generator.standard_normal(num))
    return drift + 0.015 * generator.standard_normal((2, num))


NOISES = {"calm": steady(0.015), "noisy": steady(0.025), "disturbed": disturbed, "drift": drifting}
SCHEDULE = looks(4, 80)


class Oracle:
    """A history of revisions, measured pair by pair with noise."""

    def __init__(
        self, levels: list[float], *, noise: Noise, generator: np.random.Generator
    ) -> None:
        self._levels = levels
        self._noise = noise
        self._generator = generator
        self.num_pairs = 0
        self.standard = PairStandard(num_looks=len(SCHEDULE), num_cases=num_answers(len(levels)))

    def measure(self, before: int, after: int, *, is_enough: Callable[[Reading], bool]) -> Reading:
        """Return what pairs of launches show until it is enough or there are no more."""
        logs = self._noise(self._generator, SCHEDULE[-1])
        samples = [
            self._levels[index] * np.exp(side)
            for index, side in zip((before, after), logs, strict=True)
        ]
        for num in SCHEDULE:
            sides = [_timed(side[:num]) for side in samples]
            rows = compare_pair(sides[0], candidate=sides[1], standard=self.standard)
            reading = read_pair(*sides, rows=rows)
            if is_enough(reading):
                break
        self.num_pairs += num
        return reading


def _timed(levels: np.ndarray) -> CaseResult:
    measurement = make_measurement(CPU, samples=list(levels), launches=(1,) * len(levels))
    return make_result(case=make_case(device="cpu"), measurements=[measurement])


def search(oracle: Oracle, *, num_revisions: int) -> Suspects | BoundsVerdict:
    """Return what a whole search finds, or why there was none."""

    def are_judged(reading: Reading) -> bool:
        return judge_bounds(reading, floor=FLOOR) is not BoundsVerdict.UNCLEAR

    last = num_revisions - 1
    ends = oracle.measure(0, last, is_enough=are_judged)
    verdict = judge_bounds(ends, floor=FLOOR)
    if verdict is not BoundsVerdict.DIFFER:
        return verdict
    marks: dict[int, Mark] = {}
    while (index := next_index(find_suspects(num_revisions, marks))) is not None:
        reading = oracle.measure(
            0, index, is_enough=lambda reading: answer(reading, bounds=ends) is not None
        )
        marks[index] = answer(reading, bounds=ends) or Mark.SKIPPED
    return find_suspects(num_revisions, marks)


def trials(noise: Noise, *, change: float, num_trials: int) -> tuple[int, int, float]:
    """Return how many searches name the right revision and how many a wrong one, and their pairs.

    The step is anywhere among 24 revisions.
    """
    generator = np.random.default_rng(11)
    num_right = num_wrong = num_pairs = 0
    for _ in range(num_trials):
        first_bad = int(generator.integers(1, 24))
        levels = [1.0 + change * (index >= first_bad) for index in range(24)]
        oracle = Oracle(levels, noise=noise, generator=generator)
        bisection = search(oracle, num_revisions=24)
        num_pairs += oracle.num_pairs
        if isinstance(bisection, Suspects):
            is_inside = bisection.last_good < first_bad <= bisection.first_bad
            num_right += is_inside and bisection.num_left == 1
            num_wrong += not is_inside
    return num_right, num_wrong, num_pairs / num_trials


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize("change", [0.15, -0.15])
def test_the_step_is_detected(name: str, change: float) -> None:
    num_right, num_wrong, _ = trials(NOISES[name], change=change, num_trials=5)
    assert (num_right, num_wrong) == (5, 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize("change", daily_first([0.30, -0.10, 0.07], num_daily=1))
def test_the_right_revision_is_detected_in_95_of_a_hundred(name: str, change: float) -> None:
    num_right, num_wrong, num_pairs = trials(NOISES[name], change=change, num_trials=100)
    text = f"{num_right} right, {num_wrong} wrong of 100, {num_pairs:.0f} pairs a search"
    assert num_right >= 95, text
    assert num_wrong <= 1, text


def refusals(noise: Noise, *, num_trials: int) -> tuple[int, int]:
    """Return how many searches between equal ends are refused, and how many go ahead."""
    generator = np.random.default_rng(5)
    searches = [
        search(Oracle([1.0] * 24, noise=noise, generator=generator), num_revisions=24)
        for _ in range(num_trials)
    ]
    return searches.count(BoundsVerdict.SAME), sum(isinstance(item, Suspects) for item in searches)


@pytest.mark.parametrize("name", NOISES)
def test_equal_ends_are_refused(name: str) -> None:
    assert refusals(NOISES[name], num_trials=5) == (5, 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", NOISES)
def test_equal_ends_are_refused_in_95_of_a_hundred(name: str) -> None:
    num_refused, num_searched = refusals(NOISES[name], num_trials=100)
    text = f"{num_refused} refused, {num_searched} searched of 100"
    assert num_refused >= 95, text
    assert num_searched <= 1, text
