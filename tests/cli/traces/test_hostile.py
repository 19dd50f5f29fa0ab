"""Traces that nobody's profiler wrote: a report or one clear error, never a crash."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.kernels import Kernel
from compile_hud.runner.errors import TraceError
from compile_hud.runner.protocol.kernel_notes import KernelNotes
from compile_hud.runner.traces import timeline
from compile_hud.runner.traces.kernel_names import label_of
from compile_hud.runner.traces.profile import KernelReport, read_kernels
from tests.support.examples import examples
from tests.support.records.traces import Json, annotation, on_gpu, operator, report_of

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
SIZES = st.lists(st.integers(-1, 9) | st.just(10**30) | ANYTHING, max_size=3)
NAMES = st.sampled_from(
    ["aten::mm", "aten::convolution", "aten::linear", "aten::add_", "cpp_fused_0", "k", ""]
)
ARGS = st.fixed_dictionaries(
    {},
    optional={
        "Input Dims": st.lists(SIZES | ANYTHING, max_size=4) | ANYTHING,
        "Input type": st.lists(st.sampled_from(["float", "TensorList", "Scalar"])) | ANYTHING,
        "Concrete Inputs": st.lists(st.just("[1]") | ANYTHING, max_size=9) | ANYTHING,
        "correlation": st.integers(-1, 2) | ANYTHING,
        "External id": st.integers(-1, 2) | ANYTHING,
        "grid": ANYTHING,
        "bytes": st.integers() | ANYTHING,
        "kernel_kwargs": st.sampled_from(["A=1,B=x", "=", ","]) | ANYTHING,
        "kernel_hash": ANYTHING,
        "num_warps": ANYTHING,
    },
)
CATEGORIES = ["cpu_op", "user_annotation", "cuda_runtime", "kernel", "gpu_memcpy"]
EVENTS = st.builds(
    lambda category, name, start, duration, thread, args: {
        "ph": "X", "cat": category, "name": name, "pid": 1, "tid": thread, "ts": start,
        "dur": duration, "args": args,
    },
    st.sampled_from(CATEGORIES),
    NAMES | st.just("hud/iteration") | st.text(max_size=9),
    st.integers(0, 30) | st.floats(0, 4e15, exclude_max=True),
    st.integers(0, 30) | st.floats(0, 1e12, exclude_max=True),
    st.integers(0, 2),
    ARGS,
)  # fmt: skip


def report_or_error(path: Path) -> KernelReport | TraceError:
    try:
        return read_kernels(path, notes=KernelNotes(), latency_s=None, peaks={})
    except TraceError as error:
        return error


@settings(max_examples=examples(40))
@given(events=st.lists(EVENTS, min_size=1, max_size=6))
def test_any_events_give_a_report_or_one_error(
    tmp_path_factory: pytest.TempPathFactory, events: list[Json]
) -> None:
    path = tmp_path_factory.getbasetemp() / "hostile.json"
    path.write_text(json.dumps(events))
    report = report_or_error(path)
    if isinstance(report, TraceError):
        assert str(path) in str(report)
        return
    for kernel in report.kernels:
        document = json.loads(json.dumps(kernel.to_json(), allow_nan=False))
        assert Kernel.from_json(document).to_json() == kernel.to_json()
    assert sum(report.profile.components.values()) == pytest.approx(report.profile.iteration_s)


@pytest.mark.parametrize("depth", [100, 400, 600, 800, 900, 950, 2000, 100_000])
def test_inputs_nested_deeply_are_no_crash(tmp_path: Path, depth: int) -> None:
    path = tmp_path / "trace.json"
    text = json.dumps([operator("aten::mm", 0, 1, dims=[0], types=["float"])])
    path.write_text(text.replace("[0]", "[" * depth + "]" * depth))
    report = report_or_error(path)
    if depth == 100:
        assert isinstance(report, KernelReport)
    if depth >= 2000:
        assert "nested too deeply" in str(report)


@pytest.mark.parametrize("name", ["ts", "dur"])
def test_a_time_of_hundreds_of_digits_is_an_error(tmp_path: Path, name: str) -> None:
    event = {**operator("aten::mm", 0, 1), name: 7 * 10**350}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps([event]))
    assert isinstance(report_or_error(path), TraceError)


def test_times_at_the_limits_add_up(tmp_path: Path) -> None:
    events = [
        annotation("hud/iteration", 3.9e15, 3.9e15 + 9.9e11),
        *(on_gpu("k", 3.9e15, 3.9e15 + 9.9e11, correlation=1, stream=index) for index in range(9)),
    ]
    profile = report_of(tmp_path, events).profile
    assert profile.iteration_s == pytest.approx(9.9e5)
    assert profile.overlap_s == pytest.approx(8 * 9.9e5)


def test_too_many_different_calls_and_threads_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    events = [operator(f"aten::op{index}", index, index + 1, tid=index) for index in range(20)]
    monkeypatch.setattr(timeline, "MAX_LANES", 19)
    with pytest.raises(TraceError) as caught:
        report_of(tmp_path, events)
    assert str(caught.value) == words
    monkeypatch.setattr(timeline, "MAX_CALL_CHARS", 100)
    with pytest.raises(TraceError) as caught:
        report_of(tmp_path, events)
    assert str(caught.value) == words


def test_a_launch_of_infinite_size_is_refused(tmp_path: Path, words: SnapshotAssertion) -> None:
    path = tmp_path / "trace.json"
    path.write_text(
        json.dumps([on_gpu("k", 0, 1, correlation=1, grid=1)]).replace('"grid": 1', '"grid": 1e999')
    )
    with pytest.raises(TraceError) as caught:
        read_kernels(path, notes=KernelNotes(), latency_s=None, peaks={})
    assert str(caught.value) == words


@pytest.mark.parametrize(
    "name", ["a<" * 5000, "a<" * 150 + ">" * 150, "cudnn" * 50_000, "(" * 9999]
)
def test_names_that_no_compiler_wrote_have_a_label(name: str) -> None:
    assert label_of(name)
