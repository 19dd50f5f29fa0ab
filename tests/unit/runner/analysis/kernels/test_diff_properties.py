"""Properties of every kernel diff, whatever its kernels."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from compile_hud.db.records.kernels import Kernel
from compile_hud.runner.analysis.kernels.change_classes import ChangeKind, KernelChange
from compile_hud.runner.analysis.kernels.diff import KernelDiff, diff_kernels
from compile_hud.runner.analysis.kernels.grouping import KernelSide
from tests.support.examples import examples
from tests.support.strategies import KERNEL_SIDES, kernel_side

MANY = settings(max_examples=examples(60))
MIRRORED = {
    ChangeKind.SLOWER: ChangeKind.FASTER,
    ChangeKind.NEW: ChangeKind.VANISHED,
    ChangeKind.MORE_OFTEN: ChangeKind.LESS_OFTEN,
    ChangeKind.SPLIT: ChangeKind.MERGED,
}
MIRROR = {kind: kind for kind in ChangeKind} | MIRRORED
MIRROR |= {second: first for first, second in MIRRORED.items()}


def _calls(kernels: Iterable[Kernel]) -> dict[str, float]:
    """Return the calls of each kernel, however many rows they are shared out to."""
    calls: dict[str, float] = defaultdict(float)
    for kernel in kernels:
        calls[repr(replace(kernel, count=0.0, total_s=0.0, share=0.0))] += kernel.count
    return {name: count for name, count in calls.items() if count}


def _facts(row: KernelChange) -> tuple[Any, ...]:
    return row.kind, row.matched_by, row.contribution_s, row.count_s, row.time_s, row.part


def _mirrored(diff: KernelDiff) -> list[Any]:
    return [
        (MIRROR[row.kind], row.matched_by, -row.contribution_s, row.candidate, row.baseline)
        for row in diff.rows
    ]


def _slower(side: KernelSide, factor: float) -> KernelSide:
    profile = side.profile and replace(
        side.profile,
        iteration_s=factor * side.profile.iteration_s,
        components={name: factor * part_s for name, part_s in side.profile.components.items()},
    )
    kernels = (
        replace(
            kernel,
            total_s=factor * kernel.total_s,
            mean_s=factor * kernel.mean_s,
            min_s=factor * kernel.min_s,
        )
        for kernel in side.kernels
    )
    latency_s = None if side.latency_s is None else factor * side.latency_s
    return replace(side, kernels=tuple(kernels), profile=profile, latency_s=latency_s)


@MANY
@given(baseline=KERNEL_SIDES, candidate=KERNEL_SIDES)
# Two kernels of the candidate do what the calls of one group of the baseline did.
@example(baseline=kernel_side([170, 295, 347], None), candidate=kernel_side([262, 278, 321], None))
def test_each_call_is_in_one_row(baseline: KernelSide, candidate: KernelSide) -> None:
    rows = diff_kernels(baseline, candidate).rows
    calls = _calls(item for row in rows for item in row.baseline)
    assert calls == pytest.approx(_calls(baseline.kernels))
    calls = _calls(item for row in rows for item in row.candidate)
    assert calls == pytest.approx(_calls(candidate.kernels))


@MANY
@given(baseline=KERNEL_SIDES, candidate=KERNEL_SIDES)
def test_contributions_and_the_unexplained_add_up_to_the_change(
    baseline: KernelSide, candidate: KernelSide
) -> None:
    diff = diff_kernels(baseline, candidate)
    contributions_s = [row.contribution_s for row in diff.rows]
    change_s = diff.candidate_s - diff.baseline_s
    assert math.fsum([*contributions_s, diff.unexplained_s]) == pytest.approx(change_s, abs=1e-15)
    kernels_s = math.fsum(item.total_s for item in candidate.kernels) - math.fsum(
        item.total_s for item in baseline.kernels
    )
    of_kernels = [row.contribution_s for row in diff.rows if row.kind is not ChangeKind.PART]
    assert math.fsum(of_kernels) == pytest.approx(kernels_s, abs=1e-15)
    for row in diff.rows:
        if row.count_s is not None and row.time_s is not None:
            assert row.count_s + row.time_s == pytest.approx(row.contribution_s, abs=1e-15)


@MANY
@given(baseline=KERNEL_SIDES, candidate=KERNEL_SIDES)
# Two assignments with the same total score.
@example(baseline=kernel_side([384, 67, 382], None), candidate=kernel_side([78, 146, 221], None))
def test_the_other_way_round_is_the_mirror_image(
    baseline: KernelSide, candidate: KernelSide
) -> None:
    diff, mirror = diff_kernels(baseline, candidate), diff_kernels(candidate, baseline)
    rows = [
        (row.kind, row.matched_by, row.contribution_s, row.baseline, row.candidate)
        for row in mirror.rows
    ]
    assert rows == _mirrored(diff)
    assert mirror.change_s == -diff.change_s
    assert mirror.unexplained_s == -diff.unexplained_s


@MANY
@given(data=st.data(), baseline=KERNEL_SIDES, candidate=KERNEL_SIDES)
def test_the_order_of_kernels_changes_nothing(
    data: st.DataObject, baseline: KernelSide, candidate: KernelSide
) -> None:
    shuffled = [
        replace(side, kernels=tuple(data.draw(st.permutations(side.kernels))))
        for side in (baseline, candidate)
    ]
    assert diff_kernels(*shuffled) == diff_kernels(baseline, candidate)


@MANY
@given(baseline=KERNEL_SIDES, candidate=KERNEL_SIDES, exponent=st.integers(-3, 10))
def test_the_unit_of_time_changes_nothing(
    baseline: KernelSide, candidate: KernelSide, exponent: int
) -> None:
    # A power of two, so that no number is rounded; what recording costs a call is told in seconds,
    # and speaks against a latency alone.
    factor = 2.0**exponent
    sides = [replace(side, latency_s=None) for side in (baseline, candidate)]
    diff = diff_kernels(*sides)
    scaled = diff_kernels(*(_slower(side, factor) for side in sides))
    assert [row.kind for row in scaled.rows] == [row.kind for row in diff.rows]
    assert [row.contribution_s for row in scaled.rows] == [
        factor * row.contribution_s for row in diff.rows
    ]


@MANY
@given(side=KERNEL_SIDES)
def test_a_result_is_unchanged_against_itself(side: KernelSide) -> None:
    diff = diff_kernels(side, side)
    assert {row.kind for row in diff.rows} <= {ChangeKind.UNCHANGED, ChangeKind.PART}
    assert not any(row.contribution_s for row in diff.rows)
    assert diff.unexplained_s == 0


@MANY
@given(side=KERNEL_SIDES, factor=st.sampled_from([1.5, 3.0]))
def test_a_slower_machine_makes_every_kernel_slower_and_nothing_else(
    side: KernelSide, factor: float
) -> None:
    # With calls that all take as long nothing is noise, nor where no latency speaks against it.
    kernels = (replace(kernel, min_s=kernel.mean_s) for kernel in side.kernels)
    steady = replace(side, kernels=tuple(kernels), latency_s=None)
    for row in diff_kernels(steady, _slower(steady, factor)).rows:
        expected = ChangeKind.SLOWER if row.contribution_s else ChangeKind.UNCHANGED
        assert row.kind is expected or row.kind is ChangeKind.PART
