"""Traces that were made with stacks: the module and the line of each kernel of a library."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.kernels import Kernel, call_lines_of, modules_of
from compile_hud.runner.traces import python_frames
from tests.support.records.traces import (
    Json,
    annotation,
    launch,
    on_gpu,
    operator,
    report_of,
    span,
    write_trace,
)
from tests.support.terminal import Terminal

GEMM = "ampere_sgemm_64x32_sliced1x4_tn"
LIBRARY = "torch/nn/modules/module.py(1782): _call_impl"
GENERATED = f"/tmp/torchinductor_me/kk/c{'k' * 51}.py(182): call"


def called(name: str, start_us: float, end_us: float, **args: Any) -> Json:
    """Return the event of a call of Python."""
    return span(name, start_us, end_us, category="python_function", **args)


def forward(
    at_us: float, *, index: int, frames: Sequence[str], tid: int = 1, time_us: float = 20.0
) -> list[Json]:
    """Return a matrix product in these calls of Python, the outermost first, and its kernel."""
    events = [
        called(name, at_us + depth, at_us + 90 - depth, tid=tid)
        for depth, name in enumerate(frames)
    ]
    ids = {"External id": index, "Sequence number": index, "Fwd thread id": 0}
    return [
        *events,
        operator("aten::mm", at_us + 40, at_us + 50, dims=[[8, 48], [48, 80]], tid=tid, **ids),
        launch(index, at_us + 44, tid=tid),
        on_gpu(GEMM, at_us + 60, at_us + 60 + time_us, correlation=index),
    ]


def backward(at_us: float, *, index: int, sequence: int) -> list[Json]:
    """Return the backward of the product with this sequence number, on autograd's own thread."""
    name = "autograd::engine::evaluate_function: MmBackward0"
    return [
        span(name, at_us, at_us + 40, tid=9, **{"Sequence number": sequence, "Fwd thread id": 1}),
        operator("aten::mm", at_us + 5, at_us + 30, dims=[[48, 8], [8, 80]], tid=9),
        launch(index, at_us + 9, tid=9),
        on_gpu(GEMM, at_us + 60, at_us + 75, correlation=index),
    ]


RANKER = ("train.py(7): <module>", "nn.Module: OptimizedModule_0", "nn.Module: Ranker_0", LIBRARY)
BODY = (*RANKER, "models/ranker.py(21): forward", "nn.Module: Linear_3", LIBRARY)


def places(kernel: Kernel) -> dict[str, tuple[float, str]]:
    """Return calls and line of a kernel by the path of the module."""
    lines = call_lines_of(kernel)
    counts = [(item.path, item.count) for item in modules_of(kernel)]
    counts = counts or [(kernel.module, kernel.count)]
    return {path: (count, lines.get(path, "")) for path, count in counts}


def test_a_kernel_of_a_library_has_the_module_and_the_line_that_call_it(tmp_path: Path) -> None:
    own = [*RANKER, "models/ranker.py(33): helper", GENERATED, "functools.py(9): wrapper"]
    events = [
        *forward(0, index=1, frames=BODY),
        *forward(100, index=2, frames=BODY),
        *forward(200, index=3, frames=own),
        *forward(300, index=4, frames=["train.py(7): <module>", "<built-in method mm>"]),
        *forward(400, index=5, frames=[]),
    ]
    (kernel,) = report_of(tmp_path, events).kernels
    assert places(kernel) == {
        "Ranker_0.Linear_3": (2, "models/ranker.py:21"),
        "Ranker_0": (1, "models/ranker.py:33"),
        "": (2, "train.py:7"),
    }


def test_a_kernel_of_backward_belongs_to_the_module_of_its_forward(tmp_path: Path) -> None:
    other = (*RANKER, "models/ranker.py(40): head", "nn.Module: Linear_4")
    events = [
        *forward(0, index=11, frames=BODY),
        *forward(100, index=12, frames=other),
        *backward(300, index=21, sequence=12),
        *backward(400, index=22, sequence=11),
        # An operator that was recorded before the profiler began.
        *backward(500, index=23, sequence=3),
    ]
    kernels = report_of(tmp_path, events).kernels
    (of_backward,) = (kernel for kernel in kernels if "48x8," in kernel.shapes)
    assert places(of_backward) == {
        "Ranker_0.Linear_3": (1, "models/ranker.py:21"),
        "Ranker_0.Linear_4": (1, "models/ranker.py:40"),
        "": (1, ""),
    }


def test_calls_of_python_are_no_time_of_the_model(tmp_path: Path) -> None:
    events = forward(500, index=1, frames=[])
    longer = [called("train.py(7): <module>", 0, 5000), *events]
    assert report_of(tmp_path, longer).profile == report_of(tmp_path, events).profile


def test_the_operators_of_a_cpu_have_them_too(tmp_path: Path) -> None:
    events = [event for event in forward(0, index=1, frames=BODY) if event["cat"] != "kernel"]
    kernels = report_of(tmp_path, events).kernels
    (product,) = (kernel for kernel in kernels if kernel.name == "aten::mm")
    assert places(product) == {"Ranker_0.Linear_3": (1, "models/ranker.py:21")}


def test_an_operator_may_carry_its_own_hierarchy_and_stack(tmp_path: Path) -> None:
    stack = (
        "/opt/site-packages/torch/nn/functional.py(12): f;\r\nnet.py(5): forward;\r\nrun.py(1): m"
    )
    args = {"Module Hierarchy": "model.layers.7.mlp", "Call stack": stack, "External id": 4}
    events = [
        operator("aten::mm", 0, 9, dims=[[8, 48], [48, 80]], **args),
        launch(4, 3),
        on_gpu(GEMM, 20, 30, correlation=4),
    ]
    (kernel,) = report_of(tmp_path, events).kernels
    assert places(kernel) == {"model.layers.7.mlp": (1, "net.py:5")}


def test_ranges_of_this_project_name_the_module_first(tmp_path: Path) -> None:
    events = forward(0, index=1, frames=BODY)
    marked = annotation("hud/module:body.up", 39, 52)
    (kernel,) = report_of(tmp_path, [*events, marked]).kernels
    assert places(kernel) == {"body.up": (1, "models/ranker.py:21")}


@pytest.mark.parametrize("limit", ["_MAX_NAMES", "_MAX_ALL_CHARS", "_MAX_PATH_CHARS"])
def test_hostile_names_of_modules_are_unknown_beyond_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(python_frames, limit, 1)
    frames = [f"nn.Module: M{number}_{'x' * 9}" for number in range(30)]
    (kernel,) = report_of(tmp_path, forward(0, index=1, frames=frames)).kernels
    assert len(kernel.module) < 20


def test_a_long_name_is_no_module_and_no_line(tmp_path: Path) -> None:
    frames = [f"nn.Module: {'y' * 10_000}", f"{'z' * 10_000}.py(1): forward"]
    (kernel,) = report_of(tmp_path, forward(0, index=1, frames=frames)).kernels
    assert places(kernel) == {"": (1, "")}


def test_a_diff_names_the_module_and_the_line_of_an_added_product(
    tmp_path: Path, words: SnapshotAssertion
) -> None:
    extra = (*RANKER, "models/ranker.py(21): forward", "nn.Module: Extra_0")
    before = forward(0, index=1, frames=BODY)
    after = [*before, *forward(100, index=2, frames=extra, time_us=30.0)]
    for name, events in (("before", before), ("after", after)):
        write_trace(tmp_path / f"{name}.json", [annotation("ProfilerStep#1", 0, 900), *events])
    terminal = Terminal(tmp_path)
    paths = [str(tmp_path / f"{name}.json") for name in ("before", "after")]
    result = terminal.hud("kernels", "diff", *paths)
    assert result.exit_code == 0
    assert result.stdout == words
