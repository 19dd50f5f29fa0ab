"""The timeline of one iteration: which iteration, and which spans of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.errors import RecordError
from compile_hud.db.records.kernels import Profile, TimelineSpan
from compile_hud.runner.traces.intervals import Intervals
from compile_hud.runner.traces.iteration import MAX_SPANS, longest, median_iteration
from compile_hud.runner.traces.profile import KernelReport
from tests.support.records.traces import annotation, launch, on_gpu, operator, report_of


def spans_of(report: KernelReport) -> list[tuple[str, int, int, int]]:
    """Return name, start and duration in microseconds, and lane of each span."""
    return [
        (
            report.kernels[item.kernel].name,
            round(item.start_s * 1e6),
            round(item.duration_s * 1e6),
            item.lane,
        )
        for item in report.profile.timeline
    ]


def test_on_a_cpu_a_span_is_a_stretch_of_own_time(tmp_path: Path) -> None:
    events = [
        annotation("hud/iteration", 100, 200),
        operator("aten::addmm", 110, 160, dims=[[2], [8, 4], [4, 2]]),
        operator("aten::expand", 120, 125, dims=[[2]]),
        operator("cpp_fused_gelu_0", 175, 195),
    ]
    assert spans_of(report_of(tmp_path, events)) == [
        ("aten::addmm", 10, 10, 0),
        ("aten::expand", 20, 5, 0),
        ("aten::addmm", 25, 35, 0),
        ("cpp_fused_gelu_0", 75, 20, 0),
    ]


def test_threads_are_lanes_of_their_own(tmp_path: Path) -> None:
    events = [
        annotation("hud/iteration", 0, 100),
        operator("aten::mm", 10, 60),
        operator("aten::relu", 20, 40, tid=900),
    ]
    assert spans_of(report_of(tmp_path, events)) == [
        ("aten::mm", 10, 50, 0),
        ("aten::relu", 20, 20, 1),
    ]


def test_on_a_gpu_a_lane_is_a_stream(tmp_path: Path) -> None:
    events = [
        annotation("hud/iteration", 0, 40),
        operator("aten::mm", 5, 10, dims=[[8, 4], [4, 2]]),
        launch(1, 6),
        launch(2, 20),
        on_gpu("gemm", 20, 80, correlation=1, tid=7),
        on_gpu("copy", 30, 50, correlation=2, stream=13),
    ]
    assert spans_of(report_of(tmp_path, events)) == [("gemm", 20, 60, 7), ("copy", 30, 20, 13)]


def test_it_is_the_iteration_of_median_length(tmp_path: Path) -> None:
    events = []
    for begin, length in ((0, 90), (100, 50), (200, 70)):
        events += [
            annotation("hud/iteration", begin, begin + length),
            operator("aten::mm", begin + 5, begin + length - 5),
        ]
    assert spans_of(report_of(tmp_path, events)) == [("aten::mm", 5, 60, 0)]
    windows = Intervals.of([(0, 9), (10, 12), (20, 25), (30, 33)])
    assert median_iteration(windows) == 3


def test_the_longest_stay_in_the_order_in_which_they_began() -> None:
    starts = np.arange(300, dtype=np.int64) * 1000
    ends = starts + np.arange(300, dtype=np.int64)
    intervals = longest(starts, ends)
    assert intervals == list(range(300 - MAX_SPANS, 300))
    assert longest(starts[:1], ends[:1]) == []


def test_a_timeline_is_stored_in_few_characters_and_comes_back_as_it_was() -> None:
    spans = (TimelineSpan(start_s=1.5e-6, duration_s=2.5e-5, lane=7, kernel=3),)
    profile = Profile(
        num_iterations=1,
        iteration_s=1e-4,
        latency_s=None,
        components={"gemm": 1e-4},
        timeline=spans,
    )
    document = profile.to_json()
    assert document["strip"] == [[1500, 25000, 7, 3]]
    assert Profile.from_json(document) == profile
    del document["strip"]
    assert Profile.from_json(document).timeline == ()


@pytest.mark.parametrize("row", [[1, 2, 3], [1, 2, 3, -1], [1, 2, 3, 4.5], [True, 2, 3, 4], "1234"])
def test_an_invalid_slice_is_refused(row: object, words: SnapshotAssertion) -> None:
    with pytest.raises(RecordError) as caught:
        TimelineSpan.from_json(row)
    assert str(caught.value) == words
