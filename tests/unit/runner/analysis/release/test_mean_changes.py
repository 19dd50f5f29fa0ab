"""The change of a metric over all cases of a mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from compile_hud.db.records.results import Phase
from compile_hud.runner.analysis.comparison.paired import PairStandard
from compile_hud.runner.analysis.release.mean_changes import (
    MeanChange,
    by_clearness,
    mean_changes,
)
from compile_hud.runner.analysis.release.sign_off import judge_together
from compile_hud.runner.analysis.stats.rounds import Pair
from tests.support.builders import make_case, make_measurement, make_result

NUM_PAIRS = 8


def pair(
    number: int,
    ratios: Mapping[str, float],
    *,
    mode: str = "default",
    phase: Phase = Phase.INFERENCE,
    sd: float = 0.05,
    num_pairs: int = NUM_PAIRS,
    later: float = 1.0,
) -> Pair:
    """Return a case of which each metric of `ratios` changes by its ratio.

    From the fifth launch on it changes by `later` as well.
    """
    generator = np.random.default_rng(number)
    sides = []
    for is_after in (False, True):
        measured = []
        for metric, ratio in ratios.items():
            level = 2.0 * (ratio if is_after else 1.0)
            samples = level * np.exp(generator.normal(0, sd, num_pairs))
            if is_after:
                samples[4:] *= later
            launches = (1,) * num_pairs
            measured.append(make_measurement(metric, samples=samples.tolist(), launches=launches))
        case = make_case(f"model{number}", mode=mode, phase=phase, device="cuda")
        sides.append(make_result(case=case, measurements=tuple(measured)))
    return Pair(*sides)


def is_within(ratio: float, mean: MeanChange) -> bool:
    low, high = mean.change.interval()
    return low <= ratio <= high


def means(pairs: Sequence[Pair]) -> list[MeanChange]:
    standard = PairStandard(num_looks=5, num_cases=len(pairs))
    return list(mean_changes(judge_together(pairs, standard=standard)))


def test_a_change_that_no_case_shows_by_itself_shows_over_all_cases() -> None:
    cases = [pair(100 + number, {"latency_s": 1.06}) for number in range(20)]
    (mean,) = means(cases)
    assert (mean.variant, mean.metric, mean.num_cases) == ("default", "latency_s", 20)
    assert mean.num_worse < 5
    low, high = mean.change.interval()
    assert 1 < low < 1.06 < high
    assert high / low < 1.06


def test_the_interval_has_the_true_mean_in_19_of_20_releases() -> None:
    num_inside = 0
    for release in range(200):
        cases = [pair(1000 * release + number, {"latency_s": 1.02}) for number in range(6)]
        (mean,) = means(cases)
        num_inside += is_within(1.02, mean)
    assert 180 <= num_inside <= 199


def test_a_case_that_stops_early_counts_as_much_as_one_that_goes_on() -> None:
    short = pair(1, {"latency_s": 1.0}, num_pairs=4, sd=0.001)
    # Its later launches would tell which cases stopped.
    long = pair(2, {"latency_s": 1.0}, sd=0.001, later=2.0)
    (mean,) = means([short, long])
    assert mean.change.ratio == pytest.approx(1.0, abs=0.01)


def test_modes_and_phases_are_apart_and_a_metric_of_one_case_has_no_mean() -> None:
    cases = [pair(number, {"latency_s": 1.5}, mode="eager", sd=0.001) for number in range(3)]
    cases += [pair(10 + number, {"latency_s": 0.5}, sd=0.001) for number in range(2)]
    cases.append(pair(20, {"latency_s": 0.5, "speedup": 2.0}, sd=0.001))
    cases += [pair(30 + n, {"latency_s": 1.0}, phase=Phase.TRAINING) for n in range(2)]
    rows = [(mean.variant, mean.phase, mean.metric, mean.num_cases) for mean in means(cases)]
    assert rows == [
        ("eager", Phase.INFERENCE, "latency_s", 3),
        ("default", Phase.INFERENCE, "latency_s", 3),
        ("default", Phase.TRAINING, "latency_s", 2),
    ]
    eager, default, _ = means(cases)
    assert (eager.num_worse, eager.num_better) == (3, 0)
    assert (default.num_worse, default.num_better) == (0, 3)


def test_the_cpu_time_counts_where_several_cases_have_it() -> None:
    both = {"latency_s": 1.0, "latency_cpu_s": 1.0}
    cases = [pair(10 + number, {"latency_s": 1.0}) for number in range(3)]
    assert [mean.metric for mean in means(cases)] == ["latency_s"]
    cases += [pair(number, both) for number in range(2)]
    assert [(mean.metric, mean.num_cases) for mean in means(cases)] == [("latency_cpu_s", 2)]


def test_of_many_means_those_without_a_clear_change_are_apart() -> None:
    few = means([pair(number, {"latency_s": 1.0}) for number in range(3)])
    assert by_clearness(few) == (few, ())
    modes = ("eager", "default", "reduce-overhead", "max-autotune")
    ratios = {"latency_s": 1.0, "speedup": 1.3, "eager_latency_s": 1.0, "compile_warm_s": 1.0}
    many = means([pair(10 + n, ratios, mode=mode) for mode in modes for n in range(6)])
    clear, others = by_clearness(many)
    assert len(clear) + len(others) == 16
    assert {mean.metric for mean in clear} >= {"speedup"}
    assert all(is_within(1.0, mean) for mean in others)


def test_eager_code_is_shown_although_it_is_not_judged() -> None:
    ratios = {"latency_s": 1.0, "eager_latency_s": 0.9, "speedup": 0.9}
    rows = {mean.metric: mean for mean in means([pair(n, ratios, sd=0.01) for n in range(4)])}
    assert list(rows) == ["latency_s", "eager_latency_s", "speedup"]
    assert rows["eager_latency_s"].change.interval()[1] < 0.95
    assert rows["speedup"].num_worse == 4


def test_a_size_without_noise_has_no_interval() -> None:
    size = make_measurement("peak_bytes", samples=[2.0])
    cases = [make_case(f"model{number}") for number in range(2)]
    sides = [make_result(case=case, measurements=(size,)) for case in cases]
    (mean,) = means([Pair(side, side) for side in sides])
    assert (mean.change.ratio, *mean.change.interval()) == (1.0, 1.0, 1.0)
