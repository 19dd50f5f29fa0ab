"""The traces of several ranks, side by side."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.errors import TraceError
from compile_hud.runner.traces.ranks import RankReport, read_ranks
from tests.support.records.traces import Json, annotation, launch, on_gpu, operator, write_trace

REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
GEMM = "ampere_sgemm_128x64_nn"


def rank_events(
    *, compute_us: float, reduce_from_us: float, reduce_to_us: float, ahead_us: float = 0
) -> list[Json]:
    """Return an iteration of 100 us: a product, and a collective on a stream of its own."""
    events = [
        annotation("hud/iteration", 0, 100),
        launch(1, 1),
        launch(2, 2),
        on_gpu(GEMM, 10, 10 + compute_us, correlation=1),
        on_gpu(REDUCE, reduce_from_us, reduce_to_us, correlation=2, stream=20),
    ]
    return [event | {"ts": event["ts"] + ahead_us} for event in events]


def write_rank(
    folder: Path, rank: int, events: Sequence[Json], *, base_ns: int = 0, world_size: int = 2
) -> Path:
    return write_trace(
        folder / f"rank{rank}.json",
        events,
        baseTimeNanoseconds=base_ns,
        distributedInfo={"rank": rank, "world_size": world_size},
        deviceProperties=[{"id": 0, "name": "NVIDIA A100"}],
    )


def two_ranks(folder: Path, *, ahead_us: float = 0, base_ns: int = 0) -> RankReport:
    """Return a run in which rank 1 computes for longer, and rank 0 waits for it for 30 us."""
    at_us = 5000.0
    fast = rank_events(compute_us=40, reduce_from_us=50, reduce_to_us=90, ahead_us=at_us)
    late_us = at_us + ahead_us - base_ns / 1000
    slow = rank_events(compute_us=70, reduce_from_us=80, reduce_to_us=90, ahead_us=late_us)
    paths = [write_rank(folder, 1, slow, base_ns=base_ns), write_rank(folder, 0, fast)]
    return read_ranks(paths)


def test_the_rank_that_others_wait_for_is_the_straggler(tmp_path: Path) -> None:
    report = two_ranks(tmp_path)
    fast, slow = report.rows
    assert (fast.rank, fast.waited_s, fast.delay_s) == (0, pytest.approx(30e-6), 0)
    assert (slow.rank, slow.waited_s, slow.delay_s) == (1, 0, pytest.approx(30e-6))
    assert [row.num_last for row in report.rows] == [0, 1]
    assert [row.is_straggler for row in report.rows] == [False, True]
    assert (report.num_collectives, report.num_unmatched, report.world_size) == (1, 0, 2)


def test_an_iteration_is_computing_copying_what_nothing_hides_and_idle(tmp_path: Path) -> None:
    fast = rank_events(compute_us=50, reduce_from_us=40, reduce_to_us=90)
    copy = on_gpu("Memset (Device)", 90, 95, correlation=1, category="gpu_memset")
    paths = [write_rank(tmp_path, rank, [*fast, copy]) for rank in (0, 1)]
    row = read_ranks(paths).rows[0]
    assert (row.compute_s, row.copy_s) == (pytest.approx(50e-6), pytest.approx(5e-6))
    assert row.communication_s == pytest.approx(50e-6)
    assert (row.exposed_s, row.overlap) == (pytest.approx(30e-6), pytest.approx(0.4))
    assert row.idle_s == pytest.approx(15e-6)
    assert (row.busy, row.device) == (pytest.approx(0.85), "NVIDIA A100")


def test_clocks_that_differ_are_brought_to_one_by_the_collectives(tmp_path: Path) -> None:
    report = two_ranks(tmp_path, ahead_us=250)
    assert [row.skew_s for row in report.rows] == [0, pytest.approx(250e-6)]
    assert [row.start_s for row in report.rows] == [0, 0]
    assert report.rows[1].delay_s == pytest.approx(30e-6)


def test_traces_with_another_zero_are_at_the_same_time(tmp_path: Path) -> None:
    report = two_ranks(tmp_path, base_ns=1_000_000)
    assert [row.skew_s for row in report.rows] == [0, 0]
    assert [row.start_s for row in report.rows] == [0, 0]


def test_spans_lie_on_one_time_line(tmp_path: Path) -> None:
    report = two_ranks(tmp_path, ahead_us=250)
    spans = [
        [(span.group, round(span.start_s * 1e6), round(span.end_s * 1e6)) for span in row.spans]
        for row in report.rows
    ]
    assert spans == [
        [("compute", 10, 50), ("communication", 50, 90)],
        [("compute", 10, 80), ("communication", 80, 90)],
    ]


def test_collectives_that_only_some_ranks_have_are_counted_apart(tmp_path: Path) -> None:
    events = rank_events(compute_us=40, reduce_from_us=50, reduce_to_us=90)
    more = on_gpu(REDUCE, 91, 95, correlation=2, stream=20)
    paths = [write_rank(tmp_path, 0, events), write_rank(tmp_path, 1, [*events, more])]
    report = read_ranks(paths)
    assert (report.num_collectives, report.num_unmatched) == (0, 2)
    assert [row.waited_s for row in report.rows] == [0, 0]


def test_groups_of_ranks_have_collectives_of_their_own(tmp_path: Path) -> None:
    paths = []
    for rank in range(4):
        events = rank_events(compute_us=40, reduce_from_us=50 + rank, reduce_to_us=90)
        events[-1]["args"]["Process Group Name"] = f"pair {rank // 2}"
        paths.append(write_rank(tmp_path, rank, events, world_size=4))
    report = read_ranks(paths)
    assert report.num_collectives == 2
    assert [row.num_last for row in report.rows] == [0, 1, 0, 1]


def test_a_rank_without_communication_has_no_overlap(tmp_path: Path) -> None:
    events = [on_gpu(GEMM, 0, 10, correlation=1)]
    report = read_ranks([write_rank(tmp_path, rank, events) for rank in (0, 1)])
    assert [row.overlap for row in report.rows] == [None, None]
    assert json.loads(json.dumps(report.to_json()))["rows"][1]["rank"] == 1


@pytest.mark.parametrize(
    ("ranks", "sizes"), [((0, 0), (2, 2)), ((0, 1), (2, 8)), ((-1, 1), (2, 2))]
)
def test_traces_of_other_runs_are_refused(
    tmp_path: Path, ranks: tuple[int, int], sizes: tuple[int, int], words: SnapshotAssertion
) -> None:
    paths = []
    for index, (rank, size) in enumerate(zip(ranks, sizes, strict=True)):
        folder = tmp_path / str(index)
        folder.mkdir()
        events = rank_events(compute_us=40, reduce_from_us=50, reduce_to_us=90)
        paths.append(write_rank(folder, rank, events, world_size=size))
    with pytest.raises(TraceError) as caught:
        read_ranks(paths)
    assert str(caught.value) == words


def test_a_trace_whose_iterations_have_no_work_is_refused(
    tmp_path: Path, words: SnapshotAssertion
) -> None:
    events = [annotation("hud/iteration", 0, 5), launch(1, 9), on_gpu(GEMM, 0, 10, correlation=1)]
    with pytest.raises(TraceError) as caught:
        read_ranks([write_rank(tmp_path, rank, events) for rank in (0, 1)])
    assert str(caught.value) == words


def test_one_trace_and_a_trace_without_gpu_are_refused(
    tmp_path: Path, words: SnapshotAssertion
) -> None:
    path = write_rank(tmp_path, 0, [operator("aten::mm", 0, 5)])
    with pytest.raises(TraceError) as caught:
        read_ranks([path])
    assert str(caught.value) == words
    with pytest.raises(TraceError) as caught:
        read_ranks([path, path])
    assert str(caught.value) == words
