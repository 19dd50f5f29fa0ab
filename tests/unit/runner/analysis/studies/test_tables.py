from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.results import Outcome, Run, RunState
from compile_hud.runner.analysis.stats.estimates import Estimate
from compile_hud.runner.analysis.studies.study import (
    BY_METRIC,
    Published,
    Study,
    StudyCases,
    StudyResult,
    StudyRun,
    TableSpec,
    runs_to_show,
)
from compile_hud.runner.analysis.studies.tables import (
    StudyTable,
    compare_published,
    gaps,
    geometric_mean_estimate,
    ratio_estimate,
    study_tables,
)
from tests.support.builders import make_case, make_run
from tests.support.records.studies import make_seen, make_study, speedup

FAMILIES = TableSpec(title="Speedup", rows="family", total="all")


def table(*seen: object, spec: TableSpec = FAMILIES) -> StudyTable:
    (study_table,) = study_tables(make_study(spec), seen)  # type: ignore[arg-type]
    return study_table


@given(st.lists(st.floats(min_value=0.5, max_value=4.0), min_size=1, max_size=6))
def test_mean_of_n_equal_intervals_is_narrower_by_the_root_of_n(values: list[float]) -> None:
    mean = geometric_mean_estimate([Estimate(item, item / 1.1, item * 1.1) for item in values])
    margin = math.log(1.1) / math.sqrt(len(values))
    assert math.log(mean.high / mean.value) == pytest.approx(margin)
    assert math.log(mean.value / mean.low) == pytest.approx(margin)


def test_mean_of_one_is_that_one_with_its_interval() -> None:
    mean = geometric_mean_estimate([Estimate(2.0, 1.5, 2.2)])
    assert (mean.value, mean.low, mean.high) == pytest.approx((2.0, 1.5, 2.2))


def test_ratio_inverts_the_interval_of_the_denominator() -> None:
    ratio = ratio_estimate(Estimate(8.0, 8.0, 8.0), denominator=Estimate(2.0, 1.0, 4.0))
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((4.0, 2.0, 8.0))


def test_a_family_is_the_geometric_mean_of_its_models() -> None:
    summary_table = table(
        speedup("bert", 2.0, family="encoder"),
        speedup("roberta", 8.0, family="encoder"),
        speedup("dcgan", 1.0, family="gan"),
    )
    (cell,) = summary_table.rows["encoder"]
    assert cell.estimate is not None
    assert cell.estimate.value == pytest.approx(4.0)
    assert (cell.least, cell.most, cell.num_common, cell.num_subjects) == (2.0, 8.0, 2, 2)
    assert [
        cell.estimate.value for cell in summary_table.rows["all"] if cell.estimate
    ] == pytest.approx([(2 * 8) ** (1 / 3)])


def test_one_family_has_no_total_row() -> None:
    assert list(table(speedup("bert", 2.0, family="encoder")).rows) == ["encoder"]


def test_eager_is_no_column_of_speedups() -> None:
    summary_table = table(make_seen(mode="eager", values={}), speedup("bert", 2.0))
    assert summary_table.columns == ("default",)


def test_what_fails_in_one_column_is_in_no_mean_of_its_row() -> None:
    summary_table = table(
        speedup("bert", 2.0),
        speedup("roberta", 8.0),
        speedup("bert", 3.0, mode="max-autotune"),
        make_seen("roberta", mode="max-autotune", outcome=Outcome.FAILED),
    )
    cells = next(iter(summary_table.rows.values()))
    assert [(cell.num_common, cell.num_subjects) for cell in cells] == [(1, 2), (1, 2)]
    assert [cell.estimate.value for cell in cells if cell.estimate] == pytest.approx([2.0, 3.0])


def test_a_column_without_a_number_takes_no_model_from_the_others(words: SnapshotAssertion) -> None:
    summary_table = table(
        speedup("bert", 2.0),
        speedup("roberta", 8.0),
        make_seen("bert", mode="tensorrt", outcome=Outcome.SKIPPED),
        make_seen("roberta", mode="tensorrt", outcome=Outcome.OUT_OF_MEMORY),
    )
    default, tensorrt = next(iter(summary_table.rows.values()))
    assert default.num_common == 2
    assert tensorrt.estimate is None
    assert tensorrt.why == words


def test_facts_of_all_columns_are_left_out(words: SnapshotAssertion) -> None:
    summary_table = table(speedup("bert", 2.0), speedup("roberta", 3.0, mode="max-autotune"))
    assert {cell.why for cell in next(iter(summary_table.rows.values()))} == words


def test_an_ok_result_without_the_metric_is_reported(words: SnapshotAssertion) -> None:
    (cell,) = next(iter(table(make_seen(values={})).rows.values()))
    assert cell.why == words


def test_a_row_without_a_case_in_a_column_is_not_measured() -> None:
    summary_table = table(
        speedup("bert", 2.0, family="encoder"),
        speedup("dcgan", 2.0, family="gan", mode="max-autotune"),
    )
    assert [cell.why for cell in summary_table.rows["gan"]] == ["not measured", ""]


def test_another_mode_than_the_one_named_is_counted() -> None:
    (cell,) = table(make_seen(mode="reduce-overhead", effective_mode="default")).rows["transformer"]
    assert cell.ran_as == (("default", 1),)


def test_what_ran_as_another_mode_is_counted_only_where_it_is_in_the_number() -> None:
    summary_table = table(
        make_seen("bert", mode="reduce-overhead", effective_mode="default"),
        make_seen("roberta", mode="reduce-overhead", effective_mode="default"),
        speedup("bert", 3.0),
        make_seen("roberta", outcome=Outcome.FAILED),
    )
    graphs, _ = next(iter(summary_table.rows.values()))
    assert (graphs.num_common, graphs.ran_as) == (1, (("default", 1),))


def test_a_split_gives_a_table_for_each_value() -> None:
    spec = TableSpec(title="Speedup", rows="shape", split=("dtype",))
    tables = study_tables(
        make_study(spec), [speedup("bert", 2.0), speedup("bert", 3.0, dtype="bf16")]
    )
    assert [item.value for item in tables] == ["fp32", "bf16"]


def test_a_split_by_two_dimensions_gives_a_table_for_each_combination_there_is() -> None:
    spec = TableSpec(title="Speedup", rows="model", split=("phase", "dtype"))
    results = [
        speedup("bert", 2.0, phase="training"),
        speedup("bert", 3.0, phase="training", dtype="bf16"),
        speedup("bert", 4.0),
    ]
    assert [item.title for item in study_tables(make_study(spec), results)] == [
        "Speedup: training, fp32",
        "Speedup: training, bf16",
        "Speedup: inference, fp32",
    ]


TIMES = TableSpec(title="Times", rows="dtype", baseline_dtype="fp32")


def times(*seen: object) -> dict[str, list[Estimate | None]]:
    """Return how many times faster than eager in fp32 each column is, row by row."""
    return {
        name: [cell.estimate for cell in cells]
        for name, cells in table(*seen, spec=TIMES).rows.items()
    }


def test_over_eager_in_another_dtype_is_the_speedup_times_what_the_dtype_gives() -> None:
    ratios = times(
        make_seen(mode="eager", values={"latency_s": (0.012, 0.012, 0.012)}),
        speedup("bert", 1.5),
        make_seen(mode="eager", dtype="bf16", values={"latency_s": (0.006, 0.005, 0.008)}),
        make_seen(dtype="bf16", values={"speedup": (2.0, 2.0, 2.0), "latency_s": (9.0, 9.0, 9.0)}),
    )
    itself, own = ratios["fp32"]
    assert itself == Estimate(1.0, 1.0, 1.0)
    assert own is not None
    assert (own.value, own.low, own.high) == pytest.approx((1.5, 1.5 / 1.01, 1.5 * 1.01))
    eager, default = ratios["bf16"]
    assert eager is not None
    assert default is not None
    assert (eager.value, eager.low, eager.high) == pytest.approx((2.0, 1.5, 2.4))
    assert (default.value, default.low, default.high) == pytest.approx((4.0, 3.0, 4.8))


def test_dtypes_are_compared_by_cpu_time_where_both_have_it() -> None:
    (eager,) = times(
        make_seen(mode="eager", values=BOTH_CLOCKS),
        make_seen(
            mode="eager",
            dtype="bf16",
            values={"latency_s": (1.0, 1.0, 1.0), "latency_cpu_s": (2.0, 2.0, 2.0)},
        ),
    )["bf16"]
    assert eager is not None
    assert eager.value == pytest.approx(2.0)


def test_without_eager_in_both_dtypes_nothing_is_compared() -> None:
    assert times(speedup("bert", 2.0, dtype="bf16")) == {"bf16": [None]}


LATENCY = TableSpec(title="Latency", rows="model", metrics=("latency_s",))
BOTH_CLOCKS = {"latency_s": (9.0, 9.0, 9.0), "latency_cpu_s": (4.0, 4.0, 4.0)}


def test_latency_is_cpu_time_where_all_that_is_ok_has_it() -> None:
    results = [make_seen("bert", values=BOTH_CLOCKS), make_seen("vit", outcome=Outcome.FAILED)]
    study_table = table(*results, spec=LATENCY)
    assert study_table.title == "Latency (CPU time)"
    assert [cell.estimate.value for cell in study_table.rows["bert"] if cell.estimate] == [4.0]
    wall = make_seen("gpt2", values={"latency_s": (8.0, 8.0, 8.0)})
    mixed = table(*results, wall, spec=LATENCY)
    assert mixed.title == "Latency"
    assert [cell.estimate.value for cell in mixed.rows["bert"] if cell.estimate] == [9.0]


def test_eager_has_no_column_of_what_it_does_not_have() -> None:
    spec = TableSpec(title="Cold compile", rows="model", metrics=("compile_cold_s",))
    results = [
        make_seen(mode="eager", values=BOTH_CLOCKS),
        make_seen(values={"compile_cold_s": (30.0, 30.0, 30.0)}),
    ]
    assert table(*results, spec=spec).columns == ("default",)
    assert table(*results, spec=LATENCY).columns == ("eager", "default")


RANKED = TableSpec(
    title="Ranked",
    rows="model",
    columns=BY_METRIC,
    metrics=("latency_s", "peak_bytes"),
    is_ranked=True,
)


def test_a_ranked_table_has_the_fastest_first_and_what_failed_last(
    words: SnapshotAssertion,
) -> None:
    study_table = table(
        make_seen("slow", values={"latency_s": (2.0, 2.0, 2.0), "peak_bytes": (1.0, 1.0, 1.0)}),
        make_seen("fails", outcome=Outcome.FAILED),
        make_seen("fast", values={"latency_s": (1.0, 1.0, 1.0)}),
        spec=RANKED,
    )
    assert list(study_table.rows) == ["fast", "slow", "fails"]
    assert study_table.columns == study_table.metrics == ("latency_s", "peak_bytes")
    assert [cell.why for cell in study_table.rows["fast"]] == words
    assert [cell.why for cell in study_table.rows["fails"]] == ["1 failed", "1 failed"]


FIGURE = Published(what="theirs", low=2.0, high=3.0, device="a GPU", source="them")


def ours_like(figure: Published, *seen: object) -> dict[str, float | None]:
    study = dataclasses.replace(make_study(), published=(figure,))
    (comparison,) = compare_published(study, seen)  # type: ignore[arg-type]
    return {
        name: None if cell.estimate is None else round(cell.estimate.value, 6)
        for name, cell in comparison.ours.items()
    }


def test_a_published_figure_is_matched_with_a_like_case() -> None:
    figure = dataclasses.replace(FIGURE, models=("bert",), dtypes=("bf16",))
    results = [
        make_seen(mode="eager", dtype="bf16", values={}),
        speedup("bert", 2.0, dtype="bf16"),
        speedup("bert", 9.0),
        speedup("vit", 9.0, dtype="bf16"),
        speedup("bert", 3.0, dtype="bf16", mode="max-autotune"),
    ]
    assert ours_like(figure, *results) == {"default": 2.0, "max-autotune": 3.0}


def test_a_published_figure_without_a_match_has_no_result() -> None:
    figure = dataclasses.replace(FIGURE, unlike="they trained it")
    assert ours_like(figure, speedup("bert", 2.0)) == {}


def asking(**options: tuple[str, ...]) -> Study:
    """Return a study that asks for what `speedup` makes of bert by default, and for `wanted`."""
    usual = StudyCases(models=("bert",), variants=("default",), shapes=("tiny",))
    return dataclasses.replace(make_study(), cases={"cpu": dataclasses.replace(usual, **options)})


def run_of(*seen: StudyResult) -> StudyRun:
    """Return a run that planned what it saw."""
    return StudyRun(run=make_run(plan=[item.case for item in seen]), results=seen)


def test_gaps_are_counted_by_variant_outcome_and_reason(words: SnapshotAssertion) -> None:
    results = [
        speedup("bert", 2.0),
        make_seen("bert", mode="tensorrt", outcome=Outcome.SKIPPED, reason="needs CUDA\nmore"),
        make_seen("vit", mode="tensorrt", outcome=Outcome.SKIPPED, reason="needs CUDA"),
    ]
    study = make_study(variants=("default", "tensorrt", "openvino"))
    skipped, absent = gaps(study, run_of(*results))
    assert (skipped.variant, skipped.outcome, skipped.reason) == (
        "tensorrt",
        "skipped",
        "needs CUDA",
    )
    assert (skipped.num_cases, skipped.models) == (2, ("bert", "vit"))
    assert (absent.variant, absent.outcome) == ("openvino", "absent")
    assert (absent.num_cases, absent.models) == (0, ())
    assert absent.reason == words


def test_models_that_a_run_left_out_are_a_gap() -> None:
    (gap,) = gaps(asking(models=("bert", "vit")), run_of(speedup("bert", 2.0)))
    assert (gap.variant, gap.outcome, gap.models) == ("", "absent", ("vit",))


@pytest.mark.parametrize(
    ("dimension", "names"),
    [
        ("phases", ("inference", "training")),
        ("dtypes", ("fp32", "fp8", "int8")),
        ("shapes", ("tiny", "full")),
    ],
    ids=["phases", "dtypes", "shapes"],
)
def test_what_the_plan_dropped_for_all_variants_is_a_gap(
    dimension: str, names: tuple[str, ...], words: SnapshotAssertion
) -> None:
    (gap,) = gaps(asking(**{dimension: names}), run_of(speedup("bert", 2.0)))
    assert (gap.variant, gap.outcome, gap.models) == ("", "absent", ())
    assert gap.reason == words


def test_a_case_that_an_interrupted_run_did_not_reach_was_in_its_plan(
    words: SnapshotAssertion,
) -> None:
    plan = [make_case("bert"), make_case("vit")]
    run = make_run(plan=plan, state=RunState.INTERRUPTED)
    results = (speedup("bert", 2.0),)
    (gap,) = gaps(asking(models=("bert", "vit")), StudyRun(run=run, results=results))
    assert gap.reason == words
    assert (gap.variant, gap.outcome, gap.num_cases, gap.models) == (
        "default",
        "absent",
        1,
        ("vit",),
    )


def test_nothing_seen_gives_no_table() -> None:
    assert study_tables(make_study(), []) == ()


MODES = ("eager", "default", "max-autotune")


def stored(
    name: str,
    *variants: str,
    device: str = "cpu",
    state: RunState = RunState.FINISHED,
    toolchain: str = "current",
) -> Run:
    """Return a run of a study that planned `variants` of one model, or all that are wanted."""
    return make_run(
        name,
        plan=[make_case(mode=variant, device=device) for variant in variants or MODES],
        environment={"device_name": f"Fake {device}"},
        state=state,
        toolchain=toolchain,
    )


def shown(*runs: Run) -> list[str]:
    """Return which of `runs`, newest first, are shown."""
    study = make_study(variants=MODES)
    study = dataclasses.replace(study, cases=dict.fromkeys(("cpu", "cuda"), study.cases["cpu"]))
    return [run.id for run in runs_to_show(study, runs)]


def test_the_newest_run_of_each_device_is_shown_and_none_that_still_goes() -> None:
    goes = stored("goes", state=RunState.RUNNING)
    assert shown(goes, stored("new"), stored("gpu", device="cuda"), stored("old")) == ["new", "gpu"]


def test_a_narrowed_run_hides_no_fuller_one() -> None:
    assert shown(stored("narrow", "eager"), stored("full"), stored("old")) == ["full"]
    assert shown(stored("narrow", "eager"), stored("old", "eager")) == ["narrow"]


def test_what_a_study_does_not_ask_for_makes_no_run_fuller() -> None:
    assert shown(stored("new"), stored("old", *MODES, "channels-last")) == ["new"]


def test_an_interrupted_run_is_shown_only_where_no_run_finished() -> None:
    broken = stored("broken", state=RunState.INTERRUPTED)
    assert shown(broken, stored("whole")) == ["whole"]
    assert shown(broken) == ["broken"]


def test_a_run_of_another_toolchain_hides_none() -> None:
    assert shown(stored("new", toolchain="nightly"), stored("old")) == ["new", "old"]


def test_a_run_of_reference_cases_alone_is_not_shown() -> None:
    assert shown(make_run(plan=[make_case("matmul", family="reference")])) == []
