"""Machine drift, by the reference cases of runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.results import CaseResult, Outcome
from compile_hud.db.records.summaries import Series
from compile_hud.runner.analysis.comparison.measurements import (
    Comparison,
    Judgement,
    compare_measurements,
)
from compile_hud.runner.analysis.comparison.noise_model import ComparisonNoise
from compile_hud.runner.analysis.judging.machine_state import (
    KINDS,
    MachineChange,
    MachineVerdict,
    compare_machine,
    drifted_references,
    explained,
    level_change,
    machine_history,
    machine_text,
)
from compile_hud.runner.analysis.stats.estimates import Spread
from compile_hud.runner.analysis.stats.launch_noise import PRIOR_DEGREES
from tests.support.builders import make_case, make_measurement, make_result
from tests.support.records.histories import joined, make_series

MOVED, STEADY, UNKNOWN = MachineVerdict.MOVED, MachineVerdict.STEADY, MachineVerdict.UNKNOWN


def noisy(num: int, level: float, *, cv: float = 0.005, seed: int = 0) -> list[float]:
    return [float(v) for v in level * (1 + cv * np.random.default_rng(seed).standard_normal(num))]


def change_of(
    before: Sequence[float], after: Sequence[float], *, device: str = "cpu"
) -> MachineChange:
    return level_change("ref_gemm", before, after, metric="latency_cpu_s", device=device)


def reference_series(
    values: Sequence[float],
    *,
    model: str = "ref_gemm",
    metric: str = "latency_cpu_s",
    machine: str = "box",
    toolchain: str = "stable",
    first_night: int = 0,
) -> Series:
    return make_series(
        values,
        case=make_case(model, family="reference", mode="eager"),
        metric=metric,
        machine=machine,
        toolchain=toolchain,
        first_night=first_night,
    )


def test_a_slower_machine_has_moved_with_its_interval() -> None:
    machine_change = change_of(noisy(14, 0.010), [0.0110])
    assert machine_change.verdict is MOVED
    assert machine_change.change == pytest.approx(0.10, abs=0.01)
    assert machine_change.low is not None
    assert machine_change.high is not None
    assert 0 < machine_change.low < 0.10 < machine_change.high
    assert machine_change.reason == "slower, beyond 5 %"
    assert machine_change.text.startswith("ref_gemm (compute) +")


def test_a_faster_machine_has_moved_too() -> None:
    machine_change = change_of(noisy(14, 0.010), [0.0088])
    assert machine_change.verdict is MOVED
    assert machine_change.reason == "faster, beyond 5 %"


def test_a_machine_that_stays_is_steady(words: SnapshotAssertion) -> None:
    machine_change = change_of(noisy(14, 0.010), [0.0101])
    assert machine_change.verdict is STEADY
    assert machine_change.reason == words


def test_a_small_move_is_none_however_sure() -> None:
    assert change_of(noisy(14, 0.010, cv=1e-6), [0.0103] * 40).verdict is STEADY


def test_too_few_runs_before_say_nothing(words: SnapshotAssertion) -> None:
    machine_change = change_of([0.010, 0.010], [0.020])
    assert machine_change.verdict is UNKNOWN
    assert machine_change.change is None
    assert machine_change.text == words


def test_no_run_after_says_nothing() -> None:
    assert change_of(noisy(14, 0.010), []).verdict is UNKNOWN


def test_a_noisy_history_leaves_it_open() -> None:
    machine_change = change_of(noisy(14, 0.010, cv=0.15), [0.0108])
    assert machine_change.verdict is UNKNOWN
    assert "fits" in machine_change.reason


def test_one_bad_night_before_does_not_hide_a_move() -> None:
    before = noisy(14, 0.010)
    before[5] = 0.030
    assert change_of(before, [0.0112]).verdict is MOVED


def test_a_new_level_stays_a_move_until_half_of_the_history_has_it() -> None:
    series = reference_series([*noisy(14, 0.010), *noisy(14, 0.012, seed=1)])
    changes = machine_history([series])
    verdicts = [changes[f"run-{number}"][0].verdict for number in range(28)]
    assert verdicts[14:21] == [MOVED] * 7
    assert MOVED not in verdicts[22:]


def test_the_largest_move_comes_first_and_the_others_are_left_out() -> None:
    up, down = change_of(noisy(14, 0.01), [0.012]), change_of(noisy(14, 0.01), [0.008])
    steady = change_of(noisy(14, 0.01), [0.01])
    # Down to 0.8 is the larger factor.
    assert drifted_references([steady, up, down]) == (down, up)


def test_each_run_is_compared_with_the_runs_before_it() -> None:
    series = reference_series([*noisy(10, 0.010), *noisy(3, 0.012, seed=1)])
    changes = machine_history([series])
    verdicts = [changes[f"run-{number}"][0].verdict for number in range(13)]
    assert verdicts[:3] == [UNKNOWN] * 3
    assert verdicts[10] is MOVED
    assert MOVED not in verdicts[:10]


def test_the_kinds_come_in_their_order() -> None:
    changes = machine_history(
        [reference_series([0.01] * 4, model=model) for model in reversed(KINDS)]
    )
    assert [change.kind for change in changes["run-3"]] == ["compute", "memory", "launch"]


def test_the_steadier_clock_is_taken() -> None:
    wall = reference_series([0.01] * 5, metric="latency_s")
    cpu = reference_series([0.01] * 4 + [0.02])
    for both in ([wall, cpu], [cpu, wall]):
        (machine_change,) = machine_history(both)["run-4"]
        assert (machine_change.metric, machine_change.verdict) == ("latency_cpu_s", MOVED)


def test_other_machines_and_toolchains_are_no_history() -> None:
    one = reference_series(noisy(10, 0.010))
    for other in (
        reference_series([0.020], machine="other", first_night=10),
        reference_series([0.020], toolchain="nightly", first_night=10),
    ):
        assert machine_history([joined(one, other)])["run-10"][0].verdict is UNKNOWN


def test_models_are_no_witnesses() -> None:
    assert machine_history([make_series([0.01] * 5, metric="latency_s")]) == {}


def result(
    latency_s: float, *, model: str = "ref_gemm", family: str = "reference", **metrics: float
) -> CaseResult:
    values = {"latency_s": latency_s, **metrics}
    return make_result(
        f"{model}-{latency_s}",
        case=make_case(model, family=family, mode="eager"),
        measurements=tuple(
            make_measurement(name, samples=noisy(15, value), launches=(5, 5, 5))
            for name, value in values.items()
        ),
    )


def test_two_runs_are_compared_by_their_reference_cases() -> None:
    before = [result(0.010), result(0.010, model="ref_copy"), result(0.01, model="m", family="f")]
    after = [result(0.014), result(0.0101, model="ref_copy"), result(0.01, model="m", family="f")]
    gemm, copied = compare_machine(before, candidate=after)
    assert (gemm.model, gemm.verdict) == ("ref_gemm", MOVED)
    assert gemm.change == pytest.approx(0.4, abs=0.01)
    assert (gemm.baseline, gemm.candidate) == (pytest.approx(0.01, rel=0.01), gemm.candidate)
    assert (copied.model, copied.verdict) == ("ref_copy", UNKNOWN)


def test_cpu_time_is_compared_where_both_have_it() -> None:
    one, other = result(0.010, latency_cpu_s=0.009), result(0.010, latency_cpu_s=0.009)
    (machine_change,) = compare_machine([one], candidate=[other])
    assert machine_change.metric == "latency_cpu_s"
    (machine_change,) = compare_machine([one], candidate=[result(0.010)])
    assert machine_change.metric == "latency_s"


def test_a_reference_case_of_one_side_alone_is_left_out() -> None:
    assert compare_machine([result(0.010)], candidate=[]) == ()
    failed = make_result("x", case=result(0.01).case, outcome=Outcome.FAILED)
    assert compare_machine([result(0.010)], candidate=[failed]) == ()


def test_a_time_of_zero_says_nothing() -> None:
    (machine_change,) = compare_machine(
        [result(0.010)],
        candidate=[
            make_result(
                "x", case=result(0.01).case, measurements=(make_measurement(samples=[0.0] * 3),)
            )
        ],
    )
    assert (machine_change.verdict, machine_change.change) == (UNKNOWN, None)


def comparison(ratio: float) -> Comparison:
    return compare_measurements(
        make_measurement(samples=noisy(15, 0.010), launches=(5, 5, 5)),
        candidate=make_measurement(samples=noisy(15, 0.010 * ratio), launches=(5, 5, 5)),
        judgement=Judgement(
            floor=0.05, noise=ComparisonNoise(launch=Spread(sd=0.01, degrees=PRIOR_DEGREES))
        ),
    )


def test_a_change_of_the_machines_size_is_explained() -> None:
    change = change_of(noisy(14, 0.010), [0.0112])
    assert explained(comparison(1.12), by=[change]) is change


def test_a_change_beyond_the_machines_is_not() -> None:
    assert explained(comparison(1.6), by=[change_of(noisy(14, 0.010), [0.0112])]) is None


def test_a_change_the_other_way_is_not() -> None:
    assert explained(comparison(0.8), by=[change_of(noisy(14, 0.010), [0.0112])]) is None


def test_a_steady_machine_explains_nothing() -> None:
    assert explained(comparison(1.12), by=[change_of(noisy(14, 0.010), [0.0101])]) is None


def test_a_comparison_without_a_ratio_is_not_explained() -> None:
    (machine_change,) = (
        Comparison(
            ratio=None,
            low=None,
            high=None,
            verdict=comparison(1.2).verdict,
            is_significant=False,
            is_relevant=False,
            reason="",
        ),
    )
    assert explained(machine_change, by=[change_of(noisy(14, 0.010), [0.0112])]) is None


def test_the_text_says_what_moved_else_what_is_not_known(words: SnapshotAssertion) -> None:
    up, steady = change_of(noisy(14, 0.01), [0.012]), change_of(noisy(14, 0.01), [0.01])
    unknown = change_of([], [0.01])
    assert machine_text([unknown, steady, up]) == f"moved: {up.text}"
    text = "not checked: ref_gemm, ref_gemm: no earlier runs to compare with; 3 are needed"
    assert machine_text([unknown, steady, unknown]) == text
    assert machine_text([steady]) == "steady"
    assert machine_text([]) == words


def test_a_change_is_json_in_percent() -> None:
    document = change_of(noisy(14, 0.010, cv=1e-9), [0.011]).to_json()
    assert document["change_pct"] == pytest.approx(10.0, abs=1e-3)
    assert document["interval_pct"][0] < 10.0 < document["interval_pct"][1]
    assert {document[key] for key in ("case", "kind", "metric", "verdict")} == {
        "ref_gemm",
        "compute",
        "latency_cpu_s",
        "moved",
    }
    nothing = change_of([], [0.011]).to_json()
    assert (nothing["change_pct"], nothing["interval_pct"]) == (None, None)
