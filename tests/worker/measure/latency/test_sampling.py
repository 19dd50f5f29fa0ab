"""The parts of the measuring, each against numbers worked out by hand."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from compile_hud.runner.measure.compile import compiler as compiling
from compile_hud.runner.measure.compile.code_signature import generated_code_sha256
from compile_hud.runner.measure.compile.compiler import (
    CompileTimes,
    effective_mode,
    family_cpu_s,
    time_compilation,
)
from compile_hud.runner.measure.compile.dynamo import CompileCounts
from compile_hud.runner.measure.device import Device, open_device
from compile_hud.runner.measure.latency.sampling import paired_speedup
from compile_hud.runner.measure.latency.timing import Side, Timing
from compile_hud.runner.measure.subject import mean_square
from tests.support.builders import make_case

CPU = Device(kind="cpu", num_threads=1)
CUDA = Device(kind="cuda", num_threads=1)
NO_COUNTS = CompileCounts(
    num_graphs=1,
    num_graph_breaks=0,
    num_recompiles=0,
    num_autotuned=0,
    num_cudagraph_skips=0,
    cudagraph_skip_reasons=(),
)


def first() -> None: ...


def side_of(*timings: Timing) -> Side:
    return Side(name="x", step=first, samples=list(timings))


def test_the_paired_speedup_uses_cpu_time_where_both_sides_have_it() -> None:
    eager = side_of(Timing(wall_s=9.0, cpu_s=4.0), Timing(wall_s=9.0, cpu_s=6.0))
    variant = side_of(Timing(wall_s=1.0, cpu_s=2.0), Timing(wall_s=1.0, cpu_s=2.0))
    raw = paired_speedup([eager, variant])
    assert raw.samples == (2.0, 3.0)
    assert "thread CPU time" in raw.method


def test_the_paired_speedup_falls_back_to_wall_time() -> None:
    raw = paired_speedup(
        [side_of(Timing(wall_s=6.0, cpu_s=None)), side_of(Timing(wall_s=2.0, cpu_s=None))]
    )
    assert raw.samples == (3.0,)
    assert "wall time" in raw.method


def test_compile_time_is_what_the_first_calls_took_beyond_later_ones() -> None:
    times = CompileTimes(first_calls_s=(10.0, 1.0, 1.0), later_calls_s=(1.0, 1.0, 1.0))
    assert times.compile_s == 9.0
    assert CompileTimes(first_calls_s=(1.0,), later_calls_s=(2.0,)).compile_s == 0.0


def test_compilation_is_timed_over_the_first_six_calls() -> None:
    calls: list[int] = []
    times = time_compilation(lambda: calls.append(1), device=CPU)
    assert len(calls) == len(times.first_calls_s) + len(times.later_calls_s) == 6


def test_the_cpu_time_of_a_compilation_is_what_the_first_calls_took_beyond_later_ones() -> None:
    readings = iter((100.0, 109.0, 111.0))
    times = time_compilation(lambda: None, device=CPU, cpu_s=lambda: next(readings))
    assert (times.first_cpu_s, times.later_cpu_s, times.compile_cpu_s) == (9.0, 2.0, 7.0)
    steady = CompileTimes(first_calls_s=(1.0,), later_calls_s=(1.0,), later_cpu_s=1.0)
    assert steady.compile_cpu_s == 0.0


def test_the_cpu_time_of_a_compilation_holds_what_its_children_took() -> None:
    before_s = resource.getrusage(resource.RUSAGE_CHILDREN)
    family_s = family_cpu_s()
    subprocess.run([sys.executable, "-c", "sum(range(3_000_000))"], check=True)
    after_s = resource.getrusage(resource.RUSAGE_CHILDREN)
    child_s = after_s.ru_utime + after_s.ru_stime - before_s.ru_utime - before_s.ru_stime
    assert child_s > 0
    assert family_cpu_s() - family_s >= child_s


@pytest.mark.parametrize(
    ("variant", "mode", "backend", "ran"),
    [
        ("eager", "eager", "eager", "eager"),
        ("default", "default", "inductor", "default"),
        ("reduce-overhead", "reduce-overhead", "inductor", "default"),
        ("max-autotune", "max-autotune", "inductor", "max-autotune-no-cudagraphs"),
        ("aot_eager", "default", "aot_eager", "default"),
    ],
)
def test_the_effective_mode_on_a_cpu(variant: str, mode: str, backend: str, ran: str) -> None:
    case = make_case(variant=variant, mode=mode, backend=backend)
    effective, warnings = effective_mode(case, counts=NO_COUNTS, device=CPU)
    assert effective == ran
    codes = [warning.code for warning in warnings if warning.code != "no-gemm-autotuned"]
    assert codes == (["mode-fallback"] if ran != mode else [])


def test_autotuned_kernels_keep_the_mode_on_a_cpu() -> None:
    case = make_case(variant="max-autotune", mode="max-autotune")
    counts = replace(NO_COUNTS, num_autotuned=3)
    effective, warnings = effective_mode(case, counts=counts, device=CPU)
    assert effective == "max-autotune-no-cudagraphs"
    assert warnings[0].text.endswith("CUDA graphs need a CUDA device")


def test_no_captured_graph_is_eager() -> None:
    counts = replace(NO_COUNTS, num_graphs=0)
    effective, warnings = effective_mode(make_case(), counts=counts, device=CPU)
    assert effective == "eager"
    assert "captured no graph" in warnings[0].text


def test_skipped_cuda_graphs_are_a_fallback_with_their_reason() -> None:
    case = make_case(variant="reduce-overhead", mode="reduce-overhead", device="cuda")
    counts = replace(NO_COUNTS, num_cudagraph_skips=1, cudagraph_skip_reasons=("mutated inputs",))
    effective, warnings = effective_mode(case, counts=counts, device=CUDA)
    assert effective == "default"
    assert "mutated inputs" in warnings[0].text


@pytest.mark.parametrize(
    ("recorded", "ran"), [(True, "reduce-overhead"), (None, "reduce-overhead"), (False, "default")]
)
def test_cuda_graphs_are_checked_not_assumed(
    monkeypatch: pytest.MonkeyPatch, recorded: bool | None, ran: str
) -> None:
    monkeypatch.setattr(compiling, "has_recorded_cudagraphs", lambda: recorded)
    case = make_case(variant="reduce-overhead", mode="reduce-overhead", device="cuda")
    assert effective_mode(case, counts=NO_COUNTS, device=CUDA)[0] == ran


@pytest.mark.parametrize("device", [CPU, CUDA])
def test_autotuning_mode_that_tuned_no_product_keeps_its_name_and_reports_it(
    device: Device,
) -> None:
    # Its code may differ from that of default, and a later launch finds its choices in the cache.
    mode = "max-autotune-no-cudagraphs"
    case = make_case(variant=mode, mode=mode)
    mode, warnings = effective_mode(case, counts=NO_COUNTS, device=device)
    assert mode == "max-autotune-no-cudagraphs"
    assert [warning.code for warning in warnings] == ["no-gemm-autotuned"]


def test_a_torch_without_facts_of_cuda_graphs_is_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compiling, "has_recorded_cudagraphs", lambda: None)
    case = make_case(variant="reduce-overhead", mode="reduce-overhead", device="cuda")
    mode, warnings = effective_mode(case, counts=NO_COUNTS, device=CUDA)
    assert mode == "reduce-overhead"
    assert [warning.code for warning in warnings] == ["cudagraphs-unknown"]


def test_the_loss_of_a_model_without_one_is_the_sum_of_mean_squares() -> None:
    outputs = {"a": torch.full((2, 2), 2.0), "b": (torch.full((3,), 3.0),), "c": torch.tensor([1])}
    assert float(mean_square(outputs, {})) == 13.0


def test_kernels_are_hashed_by_name_wherever_they_lie(tmp_path: Path) -> None:
    assert generated_code_sha256(tmp_path) is None
    (tmp_path / "ab").mkdir()
    (tmp_path / "ab" / "cab.main.cpp").touch()
    one = generated_code_sha256(tmp_path)
    (tmp_path / "fxgraph").mkdir()
    (tmp_path / "fxgraph" / "x.cpp").touch()
    (tmp_path / "wrapper.py").write_text("no kernel", encoding="ascii")
    assert generated_code_sha256(tmp_path) == one
    (tmp_path / "triton.py").write_text("@triton.jit", encoding="ascii")
    assert generated_code_sha256(tmp_path) != one


def test_callers_are_hashed_without_their_comments() -> None:
    nowhere = Path("/nonexistent")
    one = generated_code_sha256(nowhere, callers=["# /cache/a\nextern_kernels.mm(a, b)"])
    assert one == generated_code_sha256(nowhere, callers=["# /b\nextern_kernels.mm(a, b)"])
    assert one != generated_code_sha256(nowhere, callers=["extern_kernels.addmm(a, b)"])


def test_one_thread_is_pinned_to_one_core_and_released() -> None:
    before = os.sched_getaffinity(0)
    with CPU.pinned() as core:
        assert os.sched_getaffinity(0) == {core}
    assert os.sched_getaffinity(0) == before
    with Device(kind="cpu", num_threads=2).pinned() as core:
        assert core is None


def test_several_threads_have_no_cpu_clock() -> None:
    timing = Device(kind="cpu", num_threads=2).time_iterations(first, num_iterations=3)
    assert timing.cpu_s is None
    assert CPU.time_iterations(first, num_iterations=3).cpu_s is not None


def test_an_unknown_or_absent_device_is_reported_by_name() -> None:
    with pytest.raises(RuntimeError, match="unknown device 'tpu'"):
        open_device("tpu", num_threads=1)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_missing_cuda_device_names_what_to_check() -> None:
    with pytest.raises(RuntimeError, match="nvidia-smi"):
        open_device("cuda", num_threads=1)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_events_time_the_device() -> None:
    matrix = torch.ones(4096, 4096, device="cuda")
    timing = CUDA.time_iterations(lambda: matrix @ matrix, num_iterations=10)
    assert timing.wall_s > 0
    assert timing.cpu_s is None
