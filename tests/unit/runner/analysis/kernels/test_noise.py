"""Changes of a kernel's time, as opposed to those of a machine with other work."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.kernels import Kernel, Profile
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.runner.analysis.kernels.cause_text import cause_text
from compile_hud.runner.analysis.kernels.change_classes import ChangeKind
from compile_hud.runner.analysis.kernels.diff import KernelDiff, diff_kernels, top_rows
from compile_hud.runner.analysis.kernels.grouping import KernelSide
from compile_hud.runner.analysis.kernels.noise import deviation_of, result_noise
from tests.support.builders import make_kernel
from tests.support.records.kernel_diffs import US, cublas, only_row, side_with, taking, triton

KERNEL = triton(source_hash="a" * 64)
NEIGHBOUR = RunWarning(code="noisy-neighbour", text="other processes took the core away")


def _side(mean_us: float, *, latency_us: float, deviation: float = 0.0) -> KernelSide:
    """Return a side whose only kernel is called 12 times."""
    side = side_with(taking(KERNEL, mean_us), latency_s=latency_us * US)
    return replace(side, deviation=deviation)


def _diff(*, latencies_us: tuple[float, float], means_us: tuple[float, float]) -> KernelDiff:
    before, after = (
        _side(mean_us, latency_us=latency_us)
        for mean_us, latency_us in zip(means_us, latencies_us, strict=True)
    )
    return diff_kernels(before, after)


def test_the_same_code_within_what_samples_vary_by_is_unchanged(words: SnapshotAssertion) -> None:
    quiet, noisy = (_side(10, latency_us=1000, deviation=sd) for sd in (0.01, 0.3))
    slower = _side(15, latency_us=1060)
    (row,) = diff_kernels(quiet, slower).rows
    assert row.kind is ChangeKind.SLOWER
    (row,) = diff_kernels(noisy, slower).rows
    assert row.kind is ChangeKind.UNCHANGED
    assert row.text == (words)


def test_other_code_whose_time_did_not_move_is_not_called_slower_or_faster(
    words: SnapshotAssertion,
) -> None:
    before, after = (replace(KERNEL, source_hash=letter * 64) for letter in "ab")
    sources = {"a" * 64: "slow()", "b" * 64: "fast()"}

    def beyond(mean_us: float, count: float = 12.0) -> tuple[ChangeKind, bool, str]:
        moved = taking(after, mean_us, count=count)
        row = only_row(side_with(before, sources=sources), side_with(moved, sources=sources))
        return row.kind, row.is_beyond_noise, row.text

    kind, is_beyond_noise, text = beyond(9.99)
    assert (kind, is_beyond_noise) == (ChangeKind.OTHER_CODE, False)
    assert text == words
    assert beyond(15)[:2] == (ChangeKind.OTHER_CODE, True)
    # More calls are no noise; less time than they add is.
    assert beyond(9.99, count=24.0)[1]
    assert not beyond(9.6, count=12.3)[1]


def test_other_code_within_noise_is_behind_no_alert() -> None:
    before, after = (replace(KERNEL, source_hash=letter * 64) for letter in "ab")
    sources = {"a" * 64: "slow()", "b" * 64: "fast()"}

    def behind(mean_us: float) -> int:
        moved = side_with(taking(after, mean_us), sources=sources)
        diff = diff_kernels(side_with(before, sources=sources), moved)
        assert diff.rows[0].contribution_s > 0
        return len(top_rows(diff, is_slower=True))

    assert behind(KERNEL.mean_s * 1e6 * 1.001) == 0
    assert behind(KERNEL.mean_s * 1e6 * 1.5) == 1


def test_the_deviation_of_samples_is_relative_and_a_few_disturbed_ones_decide_nothing() -> None:
    samples = [math.exp(0.1 * index) for index in (-1, 0, 1)] * 20
    assert deviation_of(samples) == pytest.approx(0.1, rel=0.01)
    assert deviation_of([1000 * sample for sample in samples]) == pytest.approx(0.1, rel=0.01)
    assert deviation_of([*samples, 50.0, 60.0]) == pytest.approx(0.1, rel=0.01)
    assert deviation_of([1.0]) == deviation_of([]) == deviation_of([0.0, 1.0]) == 0.0


def test_kernels_that_moved_without_the_latency_were_disturbed(words: SnapshotAssertion) -> None:
    diff = _diff(latencies_us=(1000, 990), means_us=(10, 35))
    (row,) = diff.rows
    assert row.kind is ChangeKind.UNCHANGED
    assert row.text == words
    assert diff.unexplained_text == words
    assert diff.noise_text == (words)
    assert top_rows(diff, is_slower=True) == ()
    mirrored = _diff(latencies_us=(990, 1000), means_us=(35, 10))
    assert [item.kind for item in mirrored.rows] == [ChangeKind.UNCHANGED]


def test_a_kernel_that_moved_against_the_disturbance_did_move() -> None:
    before = side_with(taking(KERNEL, 10), taking(cublas(), 50, count=2), latency_s=1e-3)
    after = side_with(taking(KERNEL, 35), taking(cublas(), 20, count=2), latency_s=0.94e-3)
    kinds = {row.label: row.kind for row in diff_kernels(before, after).rows}
    assert kinds[cublas().label] is ChangeKind.FASTER
    assert kinds[KERNEL.label] is ChangeKind.UNCHANGED


def test_a_latency_that_moved_without_kernels_is_more_than_profiling_costs(
    words: SnapshotAssertion,
) -> None:
    diff = _diff(latencies_us=(1000, 1400), means_us=(10, 12))
    assert diff.unexplained_text == words
    # Nothing says that it was the side that was profiled.
    assert [row.kind for row in diff.rows] == [ChangeKind.SLOWER]


def test_calls_that_are_recorded_may_cost_something_each(words: SnapshotAssertion) -> None:
    # 88 calls more, each 10 us longer under the profiler than without it.
    before = side_with(taking(KERNEL, 10), latency_s=1e-3)
    after = side_with(taking(KERNEL, 20, count=100.0), latency_s=2e-3)
    diff = diff_kernels(before, after)
    assert diff.unexplained_s == pytest.approx(-880 * US)
    assert (diff.noise_text, diff.unexplained_text) == words


def test_warnings_of_either_side_are_reported_in_a_line_and_whole_in_json(
    words: SnapshotAssertion,
) -> None:
    few = RunWarning(code="few-samples", text="not of noise")
    quiet = _side(10, latency_us=1000)
    noisy = replace(quiet, warnings=(NEIGHBOUR, NEIGHBOUR, few))
    diff = diff_kernels(quiet, noisy)
    assert diff.noise_text == words
    assert diff.to_json()["warnings"] == {
        "baseline": [],
        "candidate": [NEIGHBOUR.to_json(), NEIGHBOUR.to_json()],
    }
    both = diff_kernels(noisy, noisy).noise_text
    assert both == words
    assert diff_kernels(quiet, quiet).noise_text == ""


def test_one_result_says_what_makes_its_times_uncertain(words: SnapshotAssertion) -> None:
    def profile(profiled_us: float) -> Profile:
        iteration_s = profiled_us * US
        return Profile(
            num_iterations=10,
            iteration_s=iteration_s,
            latency_s=1000 * US,
            components={"fused": iteration_s},
        )

    kernels = [KERNEL]
    assert result_noise([], profile=None, kernels=kernels) == ""
    assert result_noise([], profile=profile(1200), kernels=kernels) == ""
    noise = result_noise([NEIGHBOUR], profile=profile(1500), kernels=kernels)
    assert noise == (words)


def collective(mean_us: float, *, fastest_us: float, count: float = 6.0) -> Kernel:
    """Return a collective that waits for other ranks in most calls."""
    name = "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL"
    kernel = make_kernel(name, label=name, kind="communication", library="nccl", operators=())
    return replace(taking(kernel, mean_us, count=count), min_s=fastest_us * US)


@pytest.mark.parametrize(("before_us", "after_us"), [(700, 1900), (1900, 700)])
def test_communication_with_the_same_fastest_call_waited(
    before_us: float, after_us: float, words: SnapshotAssertion
) -> None:
    sides = [
        side_with(collective(before_us, fastest_us=210)),
        side_with(collective(after_us, fastest_us=214)),
    ]
    row = only_row(*sides)
    assert row.kind is ChangeKind.WAITED
    assert row.contribution_s == pytest.approx(6 * (after_us - before_us) * US)
    assert row.text == words


@pytest.mark.parametrize(
    ("after", "kind"),
    [
        pytest.param(collective(730, fastest_us=212), ChangeKind.UNCHANGED, id="within 5 %"),
        pytest.param(collective(1500, fastest_us=240), ChangeKind.WAITED, id="little of a call"),
        pytest.param(collective(1400, fastest_us=640), ChangeKind.SLOWER, id="all calls"),
        pytest.param(
            collective(760, fastest_us=210, count=24.0), ChangeKind.MORE_OFTEN, id="calls"
        ),
    ],
)
def test_the_fastest_call_and_the_calls_decide_about_a_wait(
    after: Kernel, kind: ChangeKind
) -> None:
    before = side_with(collective(700, fastest_us=210), parts={})
    assert only_row(before, side_with(after, parts={})).kind is kind


def test_a_wait_is_behind_an_alert_if_it_is_more_than_calls_vary(words: SnapshotAssertion) -> None:
    kernels = [collective(mean_us, fastest_us=210) for mean_us in (700, 1900)]
    few = diff_kernels(*map(side_with, kernels))
    assert top_rows(few, is_slower=True) == ()
    many = diff_kernels(*(side_with(kernel, parts={}) for kernel in kernels))
    assert [row.kind for row in top_rows(many, is_slower=True)] == [ChangeKind.WAITED]
    assert cause_text(many, is_slower=True) == words


def test_only_communication_waits() -> None:
    before, after = (replace(taking(cublas(), mean), min_s=20 * US) for mean in (70, 190))
    assert only_row(side_with(before), side_with(after)).kind is not ChangeKind.WAITED
