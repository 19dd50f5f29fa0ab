"""Each class of a change of kernels, on records in the form that traces give them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.errors import RecordError
from compile_hud.db.records.kernels import Profile
from compile_hud.runner.analysis.kernels import matching as kernel_match
from compile_hud.runner.analysis.kernels.change_classes import ChangeKind
from compile_hud.runner.analysis.kernels.diff import (
    KernelDiff,
    diff_kernels,
    share_text,
    top_kernels,
    top_rows,
)
from compile_hud.runner.analysis.kernels.grouping import Group, MatchedBy
from tests.support.records.kernel_codes import pointwise, template
from tests.support.records.kernel_diffs import US, cublas, only_row, side_with, taking, triton

HASH, OTHER_HASH = "a" * 64, "b" * 64


def test_the_same_code_is_slower(words: SnapshotAssertion) -> None:
    kernel = triton(source_hash=HASH)
    row = only_row(side_with(kernel), side_with(taking(kernel, 12)))
    assert (row.kind, row.matched_by) == (ChangeKind.SLOWER, MatchedBy.CODE_AND_SHAPES)
    assert row.text == words
    assert row.contribution_s == pytest.approx(24 * US)
    assert (row.count_s, row.time_s) == (0.0, row.contribution_s)


def test_the_same_code_compiled_to_more_registers_says_so(words: SnapshotAssertion) -> None:
    kernel = triton(source_hash=HASH, launch={"registers": 32})
    row = only_row(
        side_with(kernel), side_with(replace(taking(kernel, 8), launch={"registers": 40}))
    )
    assert row.kind is ChangeKind.FASTER
    assert row.text == words


def test_what_disturbs_some_calls_is_no_change_of_the_kernel(words: SnapshotAssertion) -> None:
    kernel = triton(source_hash=HASH)
    disturbed = replace(taking(kernel, 12), min_s=10 * US)
    row = only_row(side_with(kernel), side_with(disturbed, parts={}))
    assert row.kind is ChangeKind.UNCHANGED
    assert row.text == words


def test_few_calls_that_vary_much_are_noise() -> None:
    kernel = replace(taking(triton(source_hash=HASH), 20, count=1.0), min_s=10 * US)
    longer = replace(taking(kernel, 25), min_s=12 * US)
    assert only_row(side_with(kernel), side_with(longer)).kind is ChangeKind.UNCHANGED
    # Over 300 iterations the same two means are certain.
    profiled = Profile(num_iterations=300, iteration_s=0.001, latency_s=None, components={})
    sides = [replace(side_with(item), profile=profiled) for item in (kernel, longer)]
    assert only_row(*sides).kind is ChangeKind.SLOWER


def test_the_number_in_a_name_means_nothing() -> None:
    sources = {
        HASH: pointwise("triton_poi_fused_add_gelu_0"),
        OTHER_HASH: pointwise("triton_poi_fused_add_gelu_7"),
    }
    before = triton(source_hash=HASH)
    after = triton("triton_poi_fused_add_gelu_7", source_hash=OTHER_HASH)
    row = only_row(side_with(before, sources=sources), side_with(after, sources=sources))
    assert (row.kind, row.contribution_s) == (ChangeKind.UNCHANGED, 0)


def test_a_number_more_of_warps_is_another_configuration(words: SnapshotAssertion) -> None:
    before = triton(source_hash=HASH, config={"num_warps": 4, "XBLOCK": 256, "num_stages": 1})
    after = replace(taking(before, 13), config={"num_warps": 8, "XBLOCK": 256})
    row = only_row(side_with(before), side_with(after))
    assert row.kind is ChangeKind.OTHER_CONFIG
    assert row.text == (words)


def test_other_block_sizes_in_the_code_of_a_template_are_another_configuration() -> None:
    sources = {HASH: template(block_m=64, num_warps=4), OTHER_HASH: template(128, num_warps=8)}
    before = triton("triton_tem_fused_addmm_0", source_hash=HASH, operators=("aten.addmm",))
    after = replace(before, source_hash=OTHER_HASH)
    row = only_row(side_with(before, sources=sources), side_with(after, sources=sources))
    assert row.kind is ChangeKind.OTHER_CONFIG
    assert "BLOCK_M 64 -> 128, num_warps 4 -> 8" in row.text


def test_another_grid_for_the_same_shapes_is_another_configuration(
    words: SnapshotAssertion,
) -> None:
    before = cublas(launch={"grid": [8, 1, 1], "block": [128, 1, 1]})
    after = replace(before, launch={"grid": [8, 1, 4], "block": [128, 1, 1]})
    row = only_row(side_with(before), side_with(after))
    assert row.kind is ChangeKind.OTHER_CONFIG
    assert row.text == words


def test_other_code_says_how_alike_it_is(words: SnapshotAssertion) -> None:
    sources = {HASH: pointwise(), OTHER_HASH: pointwise(line="tmp2 = tmp0 * tmp1")}
    before = triton(source_hash=HASH)
    after = taking(replace(before, source_hash=OTHER_HASH), 15)
    row = only_row(side_with(before, sources=sources), side_with(after, sources=sources))
    assert (row.kind, row.matched_by) == (ChangeKind.OTHER_CODE, MatchedBy.NAME_AND_SHAPES)
    assert row.text == words


def test_unrecorded_code_is_not_the_same_code(words: SnapshotAssertion) -> None:
    row = only_row(side_with(triton()), side_with(taking(triton(), 15)))
    assert row.kind is ChangeKind.SLOWER
    assert row.text == words


def test_the_hash_of_inductor_tells_the_same_code_and_never_another(
    words: SnapshotAssertion,
) -> None:
    before = triton(launch={"kernel_hash": "c1"})
    same = only_row(side_with(before), side_with(taking(before, 15)))
    assert same.text.startswith("Same code;")
    other = only_row(side_with(before), side_with(replace(before, launch={"kernel_hash": "c2"})))
    assert other.kind is ChangeKind.UNCHANGED
    assert other.text == words


def test_another_operator_in_alike_code_is_other_code(words: SnapshotAssertion) -> None:
    sources = {HASH: pointwise(), OTHER_HASH: pointwise("triton_poi_fused_relu_0", line="relu")}
    before = triton("triton_poi_fused_gelu_0", source_hash=HASH, operators=("aten.gelu",))
    after = triton("triton_poi_fused_relu_0", source_hash=OTHER_HASH, operators=("aten.relu",))
    row = only_row(side_with(before, sources=sources), side_with(after, sources=sources))
    assert (row.kind, row.matched_by) == (ChangeKind.OTHER_CODE, MatchedBy.LIKENESS)
    assert row.label == words


def test_kernels_that_have_nothing_in_common_are_new_and_vanished(words: SnapshotAssertion) -> None:
    before = triton("triton_poi_fused_gelu_0", operators=("aten.gelu",))
    after = triton("triton_per_fused_softmax_0", operators=("aten._softmax",))
    rows = {row.kind: row for row in diff_kernels(side_with(before), side_with(after)).rows}
    assert rows.keys() == {ChangeKind.NEW, ChangeKind.VANISHED}
    assert rows[ChangeKind.NEW].contribution_s == pytest.approx(120 * US)
    assert rows[ChangeKind.NEW].text == (words)


@pytest.mark.parametrize(
    ("count", "kind"), [(24.0, ChangeKind.MORE_OFTEN), (6.0, ChangeKind.LESS_OFTEN)]
)
def test_a_kernel_is_called_another_number_of_times(count: float, kind: ChangeKind) -> None:
    kernel = triton(source_hash=HASH)
    row = only_row(side_with(kernel), side_with(taking(kernel, 10, count=count)))
    assert row.kind is kind
    assert row.count_s == pytest.approx((count - 12) * 10 * US)
    assert row.time_s == pytest.approx(0)


def test_calls_and_time_are_distinguished_where_both_changed(words: SnapshotAssertion) -> None:
    kernel = triton(source_hash=HASH)
    row = only_row(side_with(kernel), side_with(taking(kernel, 11, count=24.0)))
    assert row.kind is ChangeKind.MORE_OFTEN
    assert row.text == (words)
    slower = only_row(side_with(kernel), side_with(taking(kernel, 30, count=13.0)))
    assert slower.kind is ChangeKind.SLOWER


def test_equal_kernels_at_several_places_are_one_row_whichever_is_gone() -> None:
    kernels = [triton(f"triton_poi_fused_add_gelu_{index}", source_hash=HASH) for index in "012"]
    row = only_row(side_with(*kernels), side_with(kernels[2], kernels[0]))
    assert row.kind is ChangeKind.LESS_OFTEN
    assert (len(row.baseline), len(row.candidate)) == (3, 2)


def test_the_library_chose_another_algorithm(words: SnapshotAssertion) -> None:
    after = taking(cublas("ampere_sgemm_64x32_sliced1x4_tn"), 14)
    row = only_row(side_with(cublas()), side_with(after))
    assert (row.kind, row.matched_by) == (
        ChangeKind.OTHER_ALGORITHM,
        MatchedBy.OPERATORS_AND_SHAPES,
    )
    assert row.text == (words)


def test_another_library_does_it_now(words: SnapshotAssertion) -> None:
    before = replace(cublas("mkldnn_linear"), library="onednn", operators=("aten::addmm",))
    after = replace(cublas("aten::addmm"), library="mkl", operators=("aten.addmm.default",))
    row = only_row(side_with(before), side_with(after))
    assert row.kind is ChangeKind.OTHER_ALGORITHM
    assert row.text == words


def test_names_of_templates_are_readable(words: SnapshotAssertion) -> None:
    name = f"void at::native::vectorized_elementwise_kernel<4, Gelu>({'char, ' * 400}int)"
    loop = replace(triton(name, operators=("aten.gelu",)), library="aten", label="loop<Gelu>")
    fused = triton("triton_poi_fused_gelu_7", source_hash=HASH, operators=("aten.gelu",))
    fused = replace(fused, label="triton_poi_fused_gelu")
    row = only_row(side_with(loop), side_with(fused))
    assert row.text == words
    # Where the labels are the same the names tell the two apart, as much of them as one reads.
    other = replace(loop, name=name.replace("<4,", "<8,"))
    text = only_row(side_with(loop), side_with(other)).text
    assert "kernel<4, Gelu>(char" in text
    assert "kernel<8, Gelu>(char" in text
    assert len(text) < 400


def test_gemms_of_a_trace_without_operators_are_paired_by_their_calls() -> None:
    before = [replace(taking(cublas("ampere_sgemm_128x64_tn"), 10, count=12.0), operators=())]
    before.append(replace(taking(cublas("ampere_sgemm_32x32_nn"), 90, count=1.0), operators=()))
    after = [
        replace(kernel, name=f"cutlass_{kernel.name}", label=f"cutlass_{kernel.name}")
        for kernel in before
    ]
    rows = diff_kernels(side_with(*before), side_with(*reversed(after))).rows
    assert [row.kind for row in rows] == [ChangeKind.OTHER_ALGORITHM] * 2
    assert all(row.candidate[0].name.endswith(row.baseline[0].name) for row in rows)


def test_work_of_several_streams_at_a_time_is_counted_once() -> None:
    kernels = [taking(cublas(name), 100, count=1.0) for name in ("one", "other")]
    sides = [
        replace(
            side_with(*kernels, latency_s=latency_s, parts={}),
            profile=Profile(
                num_iterations=1,
                iteration_s=latency_s,
                latency_s=None,
                components={},
                overlap_s=overlap_s,
            ),
        )
        for latency_s, overlap_s in ((100 * US, 100 * US), (200 * US, 0.0))
    ]
    diff = diff_kernels(*sides)
    assert diff.rows[0].label == "overlap"
    assert diff.rows[0].contribution_s == pytest.approx(100 * US)
    assert diff.unexplained_s == pytest.approx(0)


def test_a_convolution_of_another_library_is_known_by_its_inputs() -> None:
    before = replace(
        cublas("aten::mkldnn_convolution"),
        kind="convolution",
        library="onednn",
        operators=("aten::mkldnn_convolution",),
        shapes="float32 1x3x8x8, float32 4x3x3x3",
    )
    after = replace(
        before,
        name="aten::_slow_conv2d_forward",
        label="aten::_slow_conv2d_forward",
        library="aten",
        operators=("aten::_slow_conv2d_forward",),
        shapes="float32 4x3x3x3, float32 1x3x8x8; [1, 1]",
    )
    row = only_row(side_with(before), side_with(after))
    assert (row.kind, row.matched_by) == (ChangeKind.OTHER_ALGORITHM, MatchedBy.OTHER_LIBRARY)
    elsewhere = replace(after, shapes="float32 1x3x8x8, float32 8x3x3x3")
    assert len(diff_kernels(side_with(before), side_with(elsewhere)).rows) == 2


def _with_idle(*, latencies_us: tuple[float, float] = (160, 240)) -> KernelDiff:
    kernel = triton(source_hash=HASH)
    parts = {"fused": 120 * US, "idle": 30 * US}
    more_idle = {"fused": 144 * US, "idle": 80 * US}
    return diff_kernels(
        side_with(kernel, latency_s=latencies_us[0] * US, parts=parts),
        side_with(taking(kernel, 12), latency_s=latencies_us[1] * US, parts=more_idle),
    )


def test_what_no_kernel_accounts_for_is_a_row_and_the_rest_is_shown(
    words: SnapshotAssertion,
) -> None:
    diff = _with_idle()
    assert [(row.kind, row.label) for row in diff.rows] == [
        (ChangeKind.PART, "idle"),
        (ChangeKind.SLOWER, "triton_poi_fused_add_gelu"),
    ]
    assert diff.rows[0].text == words
    assert diff.change_s == pytest.approx(80 * US)
    assert diff.explained_s == pytest.approx(74 * US)
    assert diff.unexplained_s == pytest.approx(6 * US)


@pytest.mark.parametrize(
    ("latencies_us", "idle_us", "unexplained_us"),
    [
        ((150, 224), (30, 80), 0),
        # Recording made the host slower, and the device waited for it.
        ((130, 224), (10, 80), 0),
        ((130, 150), (10, 6), 0),
        # More than all gaps: the kernels themselves took longer than in the samples.
        ((110, 140), (0, 0), 6),
    ],
)
def test_gaps_are_those_that_the_latency_leaves(
    latencies_us: tuple[float, float], idle_us: tuple[float, float], unexplained_us: float
) -> None:
    diff = _with_idle(latencies_us=latencies_us)
    (idle,) = [part for part in diff.parts if part.name == "idle"]
    assert (idle.baseline_s, idle.candidate_s) == pytest.approx([at * US for at in idle_us])
    assert diff.unexplained_s == pytest.approx(unexplained_us * US, abs=1e-12)


@pytest.mark.parametrize(
    ("latency_s", "parts", "basis"),
    [(0.1, {}, "latency"), (None, {}, "profiled iteration"), (None, None, "sum of kernels")],
)
def test_both_sides_are_measured_by_what_both_have(
    latency_s: float | None, parts: dict[str, float] | None, basis: str
) -> None:
    profile = side_with(triton(), latency_s=0.2, parts={})
    assert (
        diff_kernels(side_with(triton(), latency_s=latency_s, parts=parts), profile).basis == basis
    )


@pytest.mark.parametrize(
    "change", [{"total_s": 1e300}, {"count": 1e-300}, {"count": 1e300}, {"min_s": 1e300}]
)
def test_a_number_that_no_profiler_gives_is_one_clear_error(
    change: dict[str, float], words: SnapshotAssertion
) -> None:
    with pytest.raises(RecordError) as caught:
        side_with(replace(triton(), **change))
    assert caught.value.parameters["problem"] == "times"
    assert str(caught.value) == words


@pytest.mark.parametrize("fields", [{"latency_s": 1e300}, {"parts": {"idle": float("nan")}}])
def test_an_impossible_latency_is_one_clear_error(
    fields: dict[str, Any], words: SnapshotAssertion
) -> None:
    with pytest.raises(RecordError) as caught:
        side_with(triton(), **fields)
    assert "times_s" in caught.value.parameters
    assert str(caught.value) == words


def test_json_is_in_microseconds_that_add_up() -> None:
    document = _with_idle().to_json()
    contributions_us = [row["contribution_us"] for row in document["rows"]]
    assert sum(contributions_us) + document["unexplained_us"] == pytest.approx(
        document["change_us"]
    )
    assert document["change_us"] == pytest.approx(80)
    assert document["parts"][1] == {
        "name": "idle",
        "baseline_us": pytest.approx(30),
        "candidate_us": pytest.approx(80),
        "change_us": pytest.approx(50),
    }
    kernel = document["rows"][1]["candidate"][0]
    assert (kernel["mean_us"], kernel["total_us"]) == (pytest.approx(12), pytest.approx(144))


def test_top_kernels_are_those_that_made_it_slower(words: SnapshotAssertion) -> None:
    faster = cublas()
    steady = triton("triton_poi_fused_mul_0", operators=("aten.mul",), source_hash=OTHER_HASH)
    slower = triton(source_hash=HASH)
    diff = diff_kernels(
        side_with(faster, steady, slower), side_with(taking(faster, 1), steady, taking(slower, 20))
    )
    assert top_kernels(diff) == [
        {
            "label": "triton_poi_fused_add_gelu",
            "class": "same_code_slower",
            "contribution_us": pytest.approx(120),
            "text": words,
        }
    ]
    assert len(top_rows(_with_idle(), num_rows=1)) == 1


@pytest.mark.parametrize(("idle_us", "is_listed"), [(33, False), (36, True)])
def test_a_part_is_behind_a_change_only_where_it_is_much_of_it(
    idle_us: float, is_listed: bool
) -> None:
    kernel = triton(source_hash=HASH)
    parts = {"fused": 120 * US, "idle": 30 * US}
    slower = {"fused": 216 * US, "idle": idle_us * US}
    diff = diff_kernels(
        side_with(kernel, latency_s=150 * US, parts=parts),
        side_with(taking(kernel, 18), latency_s=254 * US, parts=slower),
    )
    names = ["triton_poi_fused_add_gelu", *(["idle"] if is_listed else [])]
    assert [row.label for row in top_rows(diff)] == names
    assert {row.label for row in diff.rows} == {"triton_poi_fused_add_gelu", "idle"}


def test_of_too_many_kernels_those_that_take_longest_are_looked_at_and_the_others_go_by_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at = []

    def nearness(one: Group, other: Group) -> float:
        looked_at.append((one.first.name, other.first.name))
        return 1 + (one.first.mean_s == other.first.mean_s)

    monkeypatch.setattr(kernel_match, "MAX_COMPARED", 2)
    monkeypatch.setattr(kernel_match, "_nearness", nearness)
    sides = [
        side_with(
            *(
                taking(triton(f"{side}_{number}", source_hash=f"{side}{number}"), number)
                for number in range(1, 6)
            )
        )
        for side in ("before", "after")
    ]
    rows = diff_kernels(*sides).rows
    matched = sorted(row.baseline[0].name for row in rows if row.baseline and row.candidate)
    assert matched == [f"before_{number}" for number in range(1, 6)]
    assert sorted({name for pair in looked_at for name in pair}) == [
        "after_4",
        "after_5",
        "before_4",
        "before_5",
    ]
    # However many labels share it, a rule looks at so many pairs and no more.
    looked_at.clear()
    monkeypatch.setattr(kernel_match, "MAX_PAIRS", 3)
    assert len(diff_kernels(*sides).rows) == 5
    assert looked_at == []
    assert {row.contribution_s for row in rows if row.baseline and row.candidate} == {0}


@pytest.mark.parametrize(
    ("explained_us", "change_us", "rest"),
    [
        (30, 40, None),
        (40, 40, None),
        (52, 40, "-12.0 us elsewhere"),
        (-8, -5, "+3.0 us elsewhere"),
        (6, -4, "-10.0 us elsewhere"),
    ],
)
def test_rows_that_explain_more_than_the_change_name_the_rest(
    explained_us: float, change_us: float, rest: str | None
) -> None:
    text = share_text(explained_us * US, change_s=change_us * US, basis="latency")
    assert (rest is None) == (" us of the " in text)
    assert rest is None or rest in text
