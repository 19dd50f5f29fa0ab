from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.metrics import METRICS, Direction, Metric
from compile_hud.db.records.results import Verdict
from compile_hud.db.records.summaries import Series
from compile_hud.runner.analysis.detection.series_changes import Change
from compile_hud.runner.analysis.judging import judge as judging
from compile_hud.runner.analysis.judging.cost_step import Track
from compile_hud.runner.analysis.judging.judge import NEEDED_METRICS, alert_id
from tests.support.builders import make_case
from tests.support.records.histories import joined, make_series, night
from tests.support.records.judging import judge, judge_case, noisy


def judge_histories(histories: Sequence[Series], **others: Sequence[Series]) -> list[Alert]:
    """Return the alerts of what is found in several cases."""
    return [candidate.alert for candidate in judging.judge_histories(histories, **others)]


def test_lasting_step_is_one_open_alert_with_all_its_facts() -> None:
    (alert,) = judge(noisy([(20, 0.010), (30, 0.0108)]))
    assert (alert.kind, alert.state, alert.verdict) == (
        "step",
        AlertState.OPEN,
        Verdict.REGRESSION,
    )
    assert (alert.metric, alert.unit, alert.machine) == ("latency_cpu_s", "s", "box")
    assert (alert.first_bad.run_id, alert.first_bad.revision) == ("run-20", "2.14.0.dev20")
    assert alert.last_good is not None
    assert (alert.last_good.run_id, alert.last_good.at) == ("run-19", night(19))
    assert alert.last_seen == night(49)
    assert alert.baseline == pytest.approx(0.010, rel=0.005)
    assert alert.candidate == pytest.approx(0.0108, rel=0.005)
    assert alert.change_pct == pytest.approx(8.0, abs=0.5)
    assert alert.interval_pct is not None
    assert alert.interval_pct[0] < 8.0 < alert.interval_pct[1]
    assert alert.is_significant
    assert alert.is_relevant
    assert alert.is_confirmed is None


def test_identity_of_an_alert_does_not_change_as_nights_arrive() -> None:
    values = noisy([(20, 0.010), (30, 0.0108)])
    ids = {alert.id for stop in range(23, 51) for alert in judge(values[:stop])}
    assert len(ids) == 1


def test_identity_depends_on_series_kind_and_run() -> None:
    ids = {
        alert_id(key, kind=kind, first_bad_run_id=run)
        for key in ("a", "b")
        for kind in ("step", "outcome")
        for run in ("r1", "r2")
    }
    assert len(ids) == 8


def test_lower_speedup_is_a_regression_in_its_own_numbers() -> None:
    (alert,) = judge(noisy([(20, 2.0), (10, 1.8)]), metric="speedup")
    assert alert.verdict is Verdict.REGRESSION
    assert alert.baseline == pytest.approx(2.0, rel=0.01)
    assert alert.candidate == pytest.approx(1.8, rel=0.01)
    assert alert.change_pct == pytest.approx(-10.0, abs=0.6)
    assert alert.change_pct is not None
    assert alert.interval_pct is not None
    assert alert.interval_pct[0] < alert.change_pct < alert.interval_pct[1]


def test_improvement_is_reported_too() -> None:
    (alert,) = judge(noisy([(20, 2.0), (10, 2.4)]), metric="speedup")
    assert (alert.verdict, alert.state) == (Verdict.IMPROVEMENT, AlertState.OPEN)


def test_alert_is_fixed_when_the_level_is_back_and_the_way_back_is_not_notified() -> None:
    (alert,) = judge(noisy([(20, 0.010), (10, 0.0115), (10, 0.0101)]))
    assert (alert.verdict, alert.state) == (Verdict.REGRESSION, AlertState.FIXED)
    assert alert.last_seen == night(29)


def test_two_good_nights_do_not_fix_an_alert() -> None:
    (alert,) = judge(noisy([(20, 0.010), (10, 0.0115), (2, 0.010), (5, 0.0115)]))
    assert alert.state is AlertState.OPEN


def test_half_a_way_back_leaves_the_alert_open_and_is_an_improvement() -> None:
    alerts = judge(noisy([(20, 0.010), (15, 0.0130), (15, 0.0115)]))
    assert [(alert.verdict, alert.state) for alert in alerts] == [
        (Verdict.REGRESSION, AlertState.OPEN),
        (Verdict.IMPROVEMENT, AlertState.OPEN),
    ]


def test_way_back_that_goes_further_is_an_improvement_of_its_own() -> None:
    alerts = judge(noisy([(20, 0.010), (15, 0.0115), (15, 0.0085)]))
    assert [(alert.verdict, alert.state) for alert in alerts] == [
        (Verdict.REGRESSION, AlertState.FIXED),
        (Verdict.IMPROVEMENT, AlertState.OPEN),
    ]


def test_improvement_after_a_fixed_regression_is_notified() -> None:
    values = noisy([(20, 0.010), (15, 0.0115), (15, 0.010), (15, 0.009)])
    assert [alert.verdict for alert in judge(values)] == [
        Verdict.REGRESSION,
        Verdict.IMPROVEMENT,
    ]


def test_gain_right_after_a_return_is_an_improvement_of_its_own() -> None:
    values = noisy([(20, 0.010), (15, 0.012), (20, 0.0103), (15, 0.0096)])
    assert [(alert.verdict, alert.state) for alert in judge(values)] == [
        (Verdict.REGRESSION, AlertState.FIXED),
        (Verdict.IMPROVEMENT, AlertState.OPEN),
    ]


def test_relapse_after_an_improvement_is_a_regression() -> None:
    alerts = judge(noisy([(20, 0.010), (15, 0.009), (15, 0.010)]))
    assert [(alert.verdict, alert.state) for alert in alerts] == [
        (Verdict.IMPROVEMENT, AlertState.FIXED),
        (Verdict.REGRESSION, AlertState.OPEN),
    ]


def test_step_short_of_the_floor_is_not_relevant() -> None:
    swing = [0.01, -0.01] * 15
    values = [1 + item for item in swing] + [1.048 + item for item in swing]
    (alert,) = judge(values)
    assert not alert.is_relevant
    assert alert.is_significant


def test_floor_of_the_metric_counts() -> None:
    values = noisy([(20, 10.0), (20, 11.0)])
    assert judge(values, metric="compile_cold_s") == []
    assert len(judge(values, metric="latency_cpu_s")) == 1


def test_other_environment_is_never_compared() -> None:
    before = make_series(noisy([(20, 0.010)]), metric="latency_cpu_s")
    after = make_series(
        noisy([(20, 0.020)]), metric="latency_cpu_s", fingerprint="0" * 64, first_night=20
    )
    assert judge_case([before, after]) == []


def test_machines_of_one_kind_are_judged_apart() -> None:
    slow = make_series(noisy([(20, 0.012)]), metric="latency_cpu_s", machine="slow")
    fast = make_series(noisy([(20, 0.010)]), metric="latency_cpu_s", first_night=20)
    assert judge_case([joined(slow, fast)]) == []


def test_step_on_one_of_two_machines_names_it() -> None:
    calm = make_series(noisy([(40, 0.012)]), metric="latency_cpu_s", machine="calm")
    hit = make_series(noisy([(20, 0.010), (20, 0.012)]), metric="latency_cpu_s", machine="hit")
    (alert,) = judge_case([joined(calm, hit)])
    assert alert.machine == "hit"


def test_step_in_one_of_two_toolchains_names_it() -> None:
    calm = make_series(noisy([(40, 0.012)]), metric="latency_cpu_s", toolchain="stable")
    hit = make_series(
        noisy([(20, 0.010), (20, 0.012)]), metric="latency_cpu_s", toolchain="nightly"
    )
    (alert,) = judge_case([joined(calm, hit)])
    assert alert.toolchain == "nightly"


def test_toolchains_in_turn_on_one_machine_are_judged_apart() -> None:
    stable = make_series(noisy([(40, 0.012)]), metric="latency_cpu_s", toolchain="stable")
    nightly = make_series(noisy([(40, 0.010)]), metric="latency_cpu_s", toolchain="nightly")
    assert judge_case([joined(stable, nightly)]) == []


@pytest.mark.parametrize("metric", ["eager_latency_s", "throughput_samples_per_s", "flux"])
def test_metrics_that_are_not_judged_raise_no_alert(metric: str) -> None:
    assert judge(noisy([(20, 1.0), (20, 2.0)]), metric=metric) == []


def test_metric_without_a_better_direction_raises_no_alert(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = Metric(name="flux", unit="1", direction=Direction.NEITHER, description="")
    monkeypatch.setitem(METRICS, "flux", row)
    assert judge(noisy([(20, 1.0), (20, 2.0)]), metric="flux") == []


def test_numbers_of_zero_or_below_are_left_out() -> None:
    values = noisy([(20, 1.0), (20, 1.5)])
    values[5], values[10] = 0.0, -1.0
    (alert,) = judge(values, metric="compile_warm_s")
    assert alert.first_bad.run_id == "run-20"


@pytest.mark.parametrize(
    ("before", "after", "verdict", "change_pct"),
    [
        (1.0, 2.0, Verdict.REGRESSION, 100.0),
        (0.0, 1.0, Verdict.REGRESSION, None),
        (4.0, 3.0, Verdict.IMPROVEMENT, -25.0),
    ],
)
def test_count_that_moves_is_notified_at_once(
    before: float, after: float, verdict: Verdict, change_pct: float | None
) -> None:
    (alert,) = judge([before, before, after], metric="graph_breaks")
    assert (alert.verdict, alert.change_pct) == (verdict, change_pct)
    assert (alert.baseline, alert.candidate) == (before, after)
    assert alert.interval_pct == (None if change_pct is None else (change_pct, change_pct))
    assert (alert.state, alert.first_bad.run_id) == (AlertState.OPEN, "run-2")
    assert alert.is_significant
    assert alert.is_relevant


def test_count_that_goes_to_and_fro_is_notified_once() -> None:
    (alert,) = judge([1.0, 2.0] * 10, metric="recompiles")
    assert alert.state is AlertState.FIXED


def test_count_that_is_back_is_fixed_at_once() -> None:
    (alert,) = judge([1.0, 1.0, 2.0, 2.0, 1.0], metric="graphs")
    assert (alert.state, alert.last_seen) == (AlertState.FIXED, night(3))


def test_lower_count_of_a_higher_is_better_metric_is_a_regression(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = Metric(
        name="flux",
        unit="1",
        direction=Direction.HIGHER_IS_BETTER,
        description="",
        is_exact=True,
    )
    monkeypatch.setitem(METRICS, "flux", row)
    (alert,) = judge([3.0, 3.0, 2.0], metric="flux")
    assert (alert.verdict, alert.baseline, alert.candidate) == (Verdict.REGRESSION, 3.0, 2.0)


def test_wall_clock_of_a_cpu_alone_raises_no_alert() -> None:
    wall = make_series(noisy([(20, 0.010), (20, 0.012)]), metric="latency_s")
    cpu = make_series(noisy([(40, 0.010)], seed=1), metric="latency_cpu_s")
    assert judge_case([wall, cpu]) == []
    assert len(judge_case([wall])) == 1


def test_wall_clock_and_cpu_time_that_move_together_are_an_alert_each() -> None:
    wall = make_series(noisy([(20, 0.010), (20, 0.012)]), metric="latency_s")
    cpu = make_series(noisy([(20, 0.010), (20, 0.012)], seed=1), metric="latency_cpu_s")
    assert [alert.metric for alert in judge_case([wall, cpu])] == ["latency_s", "latency_cpu_s"]


def test_only_the_latency_needs_cpu_time_to_agree() -> None:
    cold = make_series(noisy([(20, 10.0), (20, 14.0)]), metric="compile_cold_s")
    cpu = make_series(noisy([(40, 0.010)], seed=1), metric="latency_cpu_s")
    assert [alert.metric for alert in judge_case([cold, cpu])] == ["compile_cold_s"]


def test_wall_clock_of_a_gpu_stands_alone() -> None:
    case = make_case(device="cuda")
    wall = make_series(noisy([(20, 0.010), (20, 0.012)]), metric="latency_s", case=case)
    cpu = make_series(noisy([(40, 0.010)], seed=1), metric="latency_cpu_s", case=case)
    assert len(judge_case([wall, cpu])) == 1


@pytest.mark.parametrize(
    ("eager", "kind"),
    [
        (0.0200, "compiler"),
        (0.019999, "compiler"),
        (0.0240, "eager_or_machine"),
        (0.0215, "unknown"),
    ],
)
def test_interleaved_eager_tells_whose_fault_a_step_is(
    eager: float, kind: str, words: SnapshotAssertion
) -> None:
    cpu = make_series(noisy([(20, 0.010), (20, 0.012)]), metric="latency_cpu_s")
    witness = make_series([0.020] * 20 + [eager] * 20, metric="eager_latency_cpu_s")
    (alert,) = judge_case([cpu, witness])
    assert alert.cause_kind == kind
    assert alert.cause_text == words


def test_wall_clock_of_eager_is_the_witness_where_there_is_no_cpu_time() -> None:
    case = make_case(device="cuda")
    wall = make_series(noisy([(20, 0.010), (20, 0.012)]), metric="latency_s", case=case)
    witness = make_series([0.020] * 40, metric="eager_latency_s", case=case)
    (alert,) = judge_case([wall, witness])
    assert alert.cause_kind == "compiler"


@pytest.mark.parametrize(
    ("eager", "kind"), [(0.0200, "compiler"), (0.0170, "eager_or_machine"), (0.024, "unknown")]
)
def test_faster_eager_explains_a_lower_speedup(eager: float, kind: str) -> None:
    speedup = make_series(noisy([(20, 2.0), (20, 1.7)]), metric="speedup")
    witness = make_series([0.020] * 20 + [eager] * 20, metric="eager_latency_s")
    (alert,) = judge_case([speedup, witness])
    assert alert.cause_kind == kind


def test_a_graph_of_eager_kernels_is_no_eager_case() -> None:
    case = make_case(mode="eager", variant="cuda-graph", backend="cuda_graph")
    (alert,) = judge_histories(
        [
            make_series(noisy([(20, 0.010), (30, 0.0108)]), case=case, metric="latency_cpu_s"),
            make_series(noisy([(50, 0.020)]), case=case, metric="eager_latency_cpu_s"),
        ]
    )
    assert alert.cause_kind == "compiler"


def test_eager_case_is_never_the_compilers_fault() -> None:
    series = make_series(
        noisy([(20, 0.010), (20, 0.012)]), metric="latency_cpu_s", case=make_case(mode="eager")
    )
    (alert,) = judge_case([series])
    assert alert.cause_kind == "eager_or_machine"


@pytest.mark.parametrize(
    ("metric", "witness"),
    [
        ("latency_cpu_s", None),
        ("latency_cpu_s", make_series([0.02] * 22, metric="eager_latency_s")),
        ("latency_cpu_s", make_series([0.0] * 40, metric="eager_latency_s")),
        ("peak_bytes", make_series([0.02] * 40, metric="eager_latency_s")),
    ],
)
def test_cause_is_unknown_without_a_witness(metric: str, witness: object) -> None:
    series = [make_series(noisy([(20, 0.010), (20, 0.012)]), metric=metric)]
    (alert,) = judge_case([*series, *([witness] if witness else [])])  # type: ignore[list-item]
    assert (alert.cause_kind, alert.cause_text) == ("unknown", "")


def test_witness_of_another_machine_does_not_count() -> None:
    cpu = make_series(noisy([(20, 0.010), (20, 0.012)]), metric="latency_cpu_s")
    witness = make_series([0.020] * 40, metric="eager_latency_s", machine="other")
    (alert,) = judge_case([cpu, witness])
    assert alert.cause_kind == "unknown"


def test_cases_are_judged_one_by_one() -> None:
    steps = noisy([(20, 0.010), (20, 0.012)])
    cases = [make_case(model) for model in ("bert", "vit")]
    series = [make_series(steps, metric="latency_cpu_s", case=case) for case in cases]
    assert [alert.case.model for alert in judge_histories(series)] == ["bert", "vit"]


def test_everything_judged_is_read_and_so_are_the_witnesses() -> None:
    judged = {name for name, metric in METRICS.items() if metric.is_judged}
    assert set(NEEDED_METRICS) == judged | {"eager_latency_s", "eager_latency_cpu_s", "pace_s"}


@given(st.integers(min_value=0, max_value=10_000))
def test_history_with_no_change_has_no_alert(seed: int) -> None:
    alerts = judge(noisy([(60, 2.0)], cv=0.01, seed=seed), metric="speedup")
    # By chance the noise seems to grow in 5 of the 10,001 histories.
    assert [alert for alert in alerts if alert.kind != "variance"] == []


@given(st.floats(min_value=1e-6, max_value=1e6))
def test_alerts_do_not_depend_on_the_unit(factor: float) -> None:
    values = noisy([(20, 1.0), (10, 1.1)])
    plain, scaled = judge(values), judge([factor * value for value in values])
    assert [alert.id for alert in plain] == [alert.id for alert in scaled]
    assert scaled[0].change_pct == pytest.approx(plain[0].change_pct)


def reference(values: Sequence[float], *, model: str = "ref_gemm", **scope: str) -> Series:
    case = make_case(model, family="reference", mode="eager")
    return make_series(values, case=case, metric="latency_cpu_s", **scope)


STEADY_MACHINE = noisy([(50, 0.009)], seed=7)
SLOWER_MACHINE = noisy([(20, 0.009), (30, 0.00972)], seed=7)


def cause(
    values: Sequence[float],
    *,
    references: Sequence[Series],
    eager: Sequence[float] = (),
    mode: str = "default",
    metric: str = "latency_cpu_s",
) -> tuple[str, str]:
    case = make_case(mode=mode)
    series = [make_series(values, case=case, metric=metric)]
    if eager:
        series.append(make_series(eager, case=case, metric="eager_latency_cpu_s"))
    (alert,) = judge_histories(series, references=references)
    return alert.cause_kind, alert.cause_text


def test_a_step_that_the_reference_cases_made_too_is_the_machines(words: SnapshotAssertion) -> None:
    kind, text = cause(
        noisy([(20, 0.010), (30, 0.0108)]),
        mode="eager",
        references=[reference(STEADY_MACHINE, model="ref_copy"), reference(SLOWER_MACHINE)],
    )
    assert kind == "machine"
    assert text == words


def test_a_step_of_an_eager_case_on_a_steady_machine_is_attributed_to_eager(
    words: SnapshotAssertion,
) -> None:
    kind, text = cause(
        noisy([(20, 0.010), (30, 0.0108)]), mode="eager", references=[reference(STEADY_MACHINE)]
    )
    assert kind == "eager"
    assert text == words


@pytest.mark.parametrize(
    "series",
    [
        reference(SLOWER_MACHINE, machine="other"),
        reference(SLOWER_MACHINE, toolchain="nightly"),
        reference(SLOWER_MACHINE, fingerprint="0" * 64),
        reference(SLOWER_MACHINE[:22]),
        # Half a step in the noise is no evidence for either.
        reference(noisy([(20, 0.009), (30, 0.0093)], seed=7)),
    ],
    ids=["machine", "toolchain", "fingerprint", "too short", "too little"],
)
def test_without_a_witness_it_stays_open_whether_eager_or_machine(series: Series) -> None:
    values = noisy([(20, 0.010), (30, 0.0108)])
    assert cause(values, mode="eager", references=[series])[0] == "eager_or_machine"


def test_a_machine_that_got_faster_does_not_explain_a_slowdown() -> None:
    faster = reference(noisy([(20, 0.009), (30, 0.0082)], seed=7))
    values = noisy([(20, 0.010), (30, 0.0108)])
    assert cause(values, mode="eager", references=[faster])[0] == "eager_or_machine"


def test_a_machine_that_moved_a_week_earlier_does_not_explain_the_step() -> None:
    early = reference(noisy([(12, 0.009), (38, 0.00972)], seed=7))
    values = noisy([(20, 0.010), (30, 0.0108)])
    assert cause(values, mode="eager", references=[early])[0] == "eager"


def test_steady_eager_iterations_acquit_a_machine_that_moved() -> None:
    kind, _ = cause(
        noisy([(20, 0.010), (30, 0.0108)]),
        eager=noisy([(50, 0.020)], seed=3),
        references=[reference(SLOWER_MACHINE)],
    )
    assert kind == "compiler"


@pytest.mark.parametrize(
    ("machine", "kind"), [(STEADY_MACHINE, "eager"), (SLOWER_MACHINE, "eager_or_machine")]
)
def test_a_machine_never_explains_a_speedup(machine: Sequence[float], kind: str) -> None:
    speedup, eager = noisy([(20, 2.0), (30, 1.7)]), [0.020] * 20 + [0.017] * 30
    attribution = cause(speedup, references=[reference(machine)], eager=eager, metric="speedup")
    assert attribution[0] == kind


def test_eager_iterations_that_moved_with_the_machine_are_its_doing(
    words: SnapshotAssertion,
) -> None:
    kind, text = cause(
        noisy([(20, 0.010), (30, 0.0108)]),
        eager=noisy([(20, 0.020), (30, 0.0216)], seed=3),
        references=[reference(SLOWER_MACHINE)],
    )
    assert kind == "machine"
    assert text == words


def test_the_machine_is_not_blamed_for_a_ratio() -> None:
    kind, _ = cause(
        noisy([(20, 2.0), (30, 1.8)]),
        eager=noisy([(20, 0.020), (30, 0.0180)], seed=3),
        metric="speedup",
        references=[reference(noisy([(20, 0.009), (30, 0.0081)], seed=7))],
    )
    assert kind == "eager_or_machine"


def test_a_machine_that_moved_is_one_alert_of_its_reference_case(words: SnapshotAssertion) -> None:
    wall = make_series(
        SLOWER_MACHINE,
        case=make_case("ref_gemm", family="reference", mode="eager"),
        metric="latency_s",
    )
    (alert,) = judge_histories([wall, reference(SLOWER_MACHINE)])
    assert (alert.metric, alert.cause_kind) == ("latency_cpu_s", "machine")
    assert alert.cause_text == words


def test_the_memory_of_a_reference_case_is_not_notified() -> None:
    case = make_case("ref_gemm", family="reference", mode="eager")
    memory = make_series(noisy([(20, 1e6), (30, 2e6)]), case=case, metric="peak_bytes")
    assert list(judge_histories([memory])) == []


def test_values_that_no_measurement_can_have_are_left_out_and_reported() -> None:
    values = [2.0] * 12 + [1.7] * 6
    series = make_series([*values[:5], 8e-317, *values[5:15], 4e140, *values[15:]])
    unjudged: list[judging.UnjudgedNumbers] = []
    (candidate,) = judging.judge_case([series], on_unjudged=unjudged.append)
    assert candidate.alert.change_pct == pytest.approx(-15)
    (item,) = unjudged
    assert item.series_key == series.header.key
    assert item.case_key == series.header.case.key
    assert "2 values left out" in item.reason
    assert "8e-317 in run run-5 of " in item.reason


@pytest.mark.parametrize("seed", range(20))
def test_series_of_huge_and_tiny_numbers_stop_no_other(seed: int) -> None:
    generator = np.random.default_rng(seed)
    exponents = generator.uniform(-400, 400, size=40).clip(-330, 308)
    signs = generator.choice([1.0, 1.0, 1.0, -1.0, 0.0], size=40)
    wild = [
        make_series(
            (signs * 10.0**exponents).tolist(), case=make_case(f"wild {metric}"), metric=metric
        )
        for metric in ("latency_s", "speedup", "graph_breaks", "cosine", "peak_bytes", "other")
    ]
    steps = make_series([2.0] * 12 + [1.7] * 4, case=make_case("calm"))
    batch = judging.judge_batch([*wild, steps], references=wild, rules=judging.NO_RULES)
    cases = [item.alert.case for item in batch.candidates]
    assert steps.header.case in cases
    assert {item.series_key for item in batch.unjudged} == {item.header.key for item in wild}


def test_an_error_of_the_statistics_is_reported_with_its_series(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    find_changes = judging.find_changes

    def failing(track: Track, metric: Metric, *, floor: float) -> list[Change]:
        if track.header.case.model == "odd":
            raise FloatingPointError("overflow encountered in square")
        return find_changes(track, metric, floor=floor)

    monkeypatch.setattr(judging, "find_changes", failing)
    odd, steps = (
        make_series([2.0] * 12 + [1.7] * 4, case=make_case(name)) for name in ("odd", "plain")
    )
    batch = judging.judge_batch([odd, steps], references=[], rules=judging.NO_RULES)
    assert [item.alert.case.model for item in batch.candidates] == ["plain"]
    assert [(item.series_key, item.case_key) for item in batch.unjudged] == [
        (odd.header.key, odd.header.case.key)
    ]
    assert "overflow encountered" in batch.unjudged[0].text
