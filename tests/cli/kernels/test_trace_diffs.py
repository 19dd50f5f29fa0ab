"""Diffs of two traces: graphs that replay kernels, calls of several kernels, other vendors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.support.records.traces import Json, annotation, launch, on_gpu, operator, write_trace
from tests.support.terminal import Terminal

TILE = "ampere_fp16_s1688gemm_fp16_64x128_sliced1x2_ldg8_f2f_tn"
SILU = "void at::native::vectorized_elementwise_kernel<8, at::native::silu_kernel>(int)"
COPY, FILL = "Memcpy DtoD (Device -> Device)", "Memset (Device)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A call of an operator, and its kernels with their microseconds."""

    operator: str
    dims: list[Any]
    kernels: tuple[tuple[str, float], ...]
    category: str = "kernel"


MODEL = (
    Step(operator="aten::mm", dims=[[48, 96], [96, 80]], kernels=((TILE, 37.0),)),
    Step(operator="aten::copy_", dims=[[48, 80], [48, 80]], kernels=((COPY, 3.0),),
         category="gpu_memcpy"),
    Step(operator="aten::mm", dims=[[48, 80], [80, 96]], kernels=((TILE, 53.0),)),
    Step(operator="aten::zero_", dims=[[48, 96]], kernels=((FILL, 2.0),), category="gpu_memset"),
    Step(operator="aten::silu", dims=[[48, 96]], kernels=((SILU, 11.0),)),
)  # fmt: skip


def iteration(
    steps: Sequence[Step], index: int, *, num_launched: int, runtime: str
) -> Iterable[Json]:
    """Yield an iteration whose first steps are launched one by one; a graph replays the rest."""
    begin = 1000.0 * index
    graph = 100 * index + 99
    yield annotation(f"ProfilerStep#{index}", begin, begin + 900)
    if num_launched < len(steps):
        yield launch(graph, begin + 200, name=f"{runtime}GraphLaunch")
    start = begin + 210
    for number, step in enumerate(steps):
        at = begin + 10 + 20 * number
        is_launched = number < num_launched
        if is_launched:
            yield operator(step.operator, at, at + 15, dims=step.dims)
        for position, (name, time_us) in enumerate(step.kernels):
            correlation = 100 * index + 5 * number + position if is_launched else graph
            if is_launched:
                yield launch(correlation, at + 2 + 2 * position, name=f"{runtime}LaunchKernel")
            yield on_gpu(
                name, start, start + time_us, correlation=correlation, category=step.category
            )
            start += time_us


def traced(
    path: Path,
    steps: Sequence[Step] = MODEL,
    *,
    num_launched: int | None = None,
    runtime: str = "cuda",
    **fields: Any,
) -> Path:
    """Return the path of a trace of three iterations."""
    number = len(steps) if num_launched is None else num_launched
    events = [
        event
        for index in range(3)
        for event in iteration(steps, index, num_launched=number, runtime=runtime)
    ]
    return write_trace(path, events, **fields)


def diff_of(terminal: Terminal, *paths: Path) -> Json:
    result = terminal.hud("kernels", "diff", *map(str, paths), "--json")
    assert result.exit_code == 0
    document: Json = json.loads(result.stdout)
    return document


def kernel_rows(document: Json) -> list[Json]:
    return [row for row in document["rows"] if row["class"] != "part"]


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    """Return a terminal in an empty folder."""
    return Terminal(tmp_path)


@pytest.mark.parametrize("runtime", ["cuda", "hip"])
@pytest.mark.parametrize(("before", "after"), [(5, 0), (0, 5), (5, 2), (2, 0), (4, 1), (0, 0)])
def test_launched_and_replayed_kernels_are_the_same(
    terminal: Terminal, tmp_path: Path, before: int, after: int, runtime: str
) -> None:
    paths = [
        traced(tmp_path / f"{side}.json", num_launched=number, runtime=runtime)
        for side, number in (("a", before), ("b", after))
    ]
    rows = kernel_rows(diff_of(terminal, *paths))
    assert {row["class"] for row in rows} == {"unchanged"}
    assert {row["label"] for row in rows} >= {TILE, COPY, FILL}
    assert [row["contribution_us"] for row in rows] == pytest.approx([0] * len(rows), abs=1e-6)


def test_a_product_that_gets_an_epilogue_is_split_and_others_are_gone(
    terminal: Terminal, tmp_path: Path
) -> None:
    products = [
        Step(
            operator="aten::baddbmm",
            dims=[[4, m, 24], [4, m, 40], [4, 40, 24]],
            kernels=((f"cutlass_80_simt_sgemm_{m}x24", 2.0 * m),),
        )
        for m in (8, 12, 20)
    ]
    kernels = (("ampere_sgemm_32x32_sliced1x4_nn", 44.0), ("void epilogue::run<float>(int)", 5.0))
    split = Step(operator="aten::baddbmm", dims=products[1].dims, kernels=kernels)
    before, after = (
        traced(tmp_path / f"{name}.json", steps)
        for name, steps in (("a", products), ("b", [split]))
    )
    rows = kernel_rows(diff_of(terminal, before, after))
    assert [(row["class"], round(row["contribution_us"], 3)) for row in rows] == [
        ("vanished", -40.0),
        ("split", 25.0),
        ("vanished", -16.0),
    ]


@pytest.mark.parametrize(
    ("called", "name"),
    [
        ("aten::miopen_convolution", "igemm_fwd_gtcx_nchw_fp16_bx0_ex0_bt64x32x8"),
        ("aten::miopen_convolution", "Cijk_Ailk_Bljk_HBH_MT128x32x16_SN"),
        ("aten::miopen_depthwise_convolution", "naive_conv_nonpacked_fwd_nchw_half"),
        ("aten::convolution_overrideable", "ngen_hgemm_64x32"),
    ],
)
def test_a_convolution_by_another_vendor_is_another_algorithm(
    terminal: Terminal, tmp_path: Path, called: str, name: str
) -> None:
    dims = [[3, 5, 40, 56], [96, 5, 7, 7]]
    cudnn = Step(
        operator="aten::cudnn_convolution",
        dims=[*dims, []],
        kernels=(("sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwc", 61.0),),
    )
    other = Step(operator=called, dims=[*dims, [96]], kernels=((name, 34.0),))
    before, after = traced(tmp_path / "a.json", [cudnn]), traced(tmp_path / "b.json", [other])
    (row,) = kernel_rows(diff_of(terminal, before, after))
    assert (row["class"], row["contribution_us"]) == ("other_algorithm", pytest.approx(-27))
    assert {kernel["kind"] for kernel in row["baseline"] + row["candidate"]} == {"convolution"}


def test_sums_by_kind_and_operator_stand_above_the_rows(
    terminal: Terminal, tmp_path: Path, words: SnapshotAssertion
) -> None:
    slow = [
        Step(operator=step.operator, dims=step.dims, kernels=((name, 23 * time_us),))
        for step in MODEL
        for name, time_us in step.kernels
    ]
    paths = [traced(tmp_path / "a.json"), traced(tmp_path / "b.json", slow)]
    rollup = diff_of(terminal, *paths)["rollup"]
    assert {part["name"]: part["change_us"] for part in rollup["kinds"]} == pytest.approx(
        {"gemm": 22 * 90, "elementwise": 22 * 11, "copy": 22 * 5}
    )
    assert sum(part["baseline_us"] for part in rollup["operators"]) == pytest.approx(106)
    assert rollup["modules"] == []
    shown = terminal.hud("kernels", "diff", *map(str, paths)).stdout
    assert shown.splitlines()[3:6] == words


def properties(*names: str) -> list[Json]:
    return [{"id": index, "name": name, "numSms": 90} for index, name in enumerate(names)]


@pytest.mark.parametrize(
    ("before", "after", "has_line"),
    [
        (["Quadro GV9"], ["Instinct MI1"], True),
        (["Quadro GV9", "Quadro GV9"], ["Quadro GV9"], False),
        # Only the first one of these has work.
        (["Quadro GV9", "Old Card"], ["Quadro GV9", "Other Card"], False),
        (["Quadro GV9"], [], False),
        ([], [], False),
    ],
)
def test_the_devices_of_both_traces_are_named_and_compared(
    terminal: Terminal,
    tmp_path: Path,
    before: list[str],
    after: list[str],
    has_line: bool,
    words: SnapshotAssertion,
) -> None:
    paths = [
        traced(tmp_path / f"{side}.json", deviceProperties=properties(*names))
        for side, names in (("a", before), ("b", after))
    ]
    document = diff_of(terminal, *paths)
    assert bool(document["devices"]) is has_line
    named = [document[side]["device"] for side in ("baseline", "candidate")]
    assert named == [names[0] if names else None for names in (before, after)]
    lines = terminal.hud("kernels", "diff", *map(str, paths)).stdout.splitlines()
    assert lines[: lines.index("")] == words


def test_a_trace_of_a_cpu_is_one_of_another_device(terminal: Terminal, tmp_path: Path) -> None:
    cpu = write_trace(tmp_path / "cpu.json", [operator("aten::mm", 0, 9, dims=[[2, 3], [3, 4]])])
    gpu = traced(tmp_path / "gpu.json", deviceProperties=properties("Quadro GV9"))
    document = diff_of(terminal, cpu, gpu)
    assert (document["baseline"]["device"], document["candidate"]["device"]) == (
        "CPU",
        "Quadro GV9",
    )
    assert document["devices"]
    assert not diff_of(terminal, cpu, cpu)["devices"]
