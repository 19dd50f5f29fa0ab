"""The parts of the measuring, each against numbers worked out by hand."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from db.records import Dtype, Phase
from runner.measure import compiling
from runner.measure.accuracy import check_accuracy, flatten
from runner.measure.compiling import CompileTimes, effective_mode, time_compilation
from runner.measure.device import Device, Timing, open_device
from runner.measure.dynamo import CompileCounts, generated_code_sha256
from runner.measure.memory import highest_balance, peak_bytes, private_pool_bytes, storage_bytes
from runner.measure.sampling import paired_speedup
from runner.measure.subject import Subject, fp64_twin, mean_square
from runner.measure.timing import MIN_ROUNDS, Side, calibrate, has_settled, take_samples, warm_up
from runner.protocol import MeasureSettings
from tests.builders import make_case

CPU = Device(kind="cpu", num_threads=1)
CUDA = Device(kind="cuda", num_threads=1)
NO_COUNTS = CompileCounts(
    num_graphs=1,
    num_graph_breaks=0,
    num_recompiles=0,
    num_autotuned=0,
    num_cudagraph_skips=0,
    num_fxgraph_cache_hits=0,
    graph_break_reasons=(),
    recompile_reasons=(),
    cudagraph_skip_reasons=(),
)


class ScriptedDevice(Device):
    """A device on which an iteration takes what the script says, per side."""

    def __init__(self, script: Callable[[Callable[[], object]], float]) -> None:
        super().__init__(kind="cpu", num_threads=1)
        object.__setattr__(self, "script", script)
        object.__setattr__(self, "calls", [])

    def time_iterations(self, call: Callable[[], object], *, num_iterations: int) -> Timing:
        self.calls.append((call, num_iterations))  # type: ignore[attr-defined]
        wall_s = self.script(call)  # type: ignore[attr-defined]
        return Timing(wall_s=wall_s, cpu_s=None)


def first() -> None: ...


def second() -> None: ...


def test_a_sample_lasts_five_milliseconds() -> None:
    side = Side(name="variant", step=first)
    calibrate(side, device=ScriptedDevice(lambda _: 0.0004))
    assert side.num_iterations == 13
    calibrate(side, device=ScriptedDevice(lambda _: 2.0))
    assert side.num_iterations == 1


def test_rounds_alternate_which_side_goes_first() -> None:
    device = ScriptedDevice(lambda _: 0.01)
    sides = [Side(name="eager", step=first), Side(name="variant", step=second)]
    take_samples(sides, device=device, settings=MeasureSettings(num_rounds=3))
    steps = [step for step, _ in device.calls]  # type: ignore[attr-defined]
    assert steps == [first, second, second, first, first, second]
    assert [len(side.samples) for side in sides] == [3, 3]


def test_between_rounds_something_may_be_read_outside_the_timers() -> None:
    device = ScriptedDevice(lambda _: 0.01)
    seen: list[int] = []
    take_samples(
        [Side(name="variant", step=first)],
        device=device,
        settings=MeasureSettings(num_rounds=3),
        between_rounds=lambda: seen.append(len(device.calls)),  # type: ignore[attr-defined]
    )
    assert seen == [1, 2, 3]


def test_a_spent_budget_still_gives_the_minimum_of_rounds() -> None:
    side = Side(name="variant", step=first)
    settings = MeasureSettings(num_rounds=100, budget_s=-1.0)
    take_samples([side], device=ScriptedDevice(lambda _: 0.01), settings=settings)
    assert len(side.samples) == MIN_ROUNDS


def test_warm_up_ends_when_the_level_is_reached_and_keeps_its_times() -> None:
    times = iter([1.0, 0.5, 0.4, 0.1, 0.1, 0.1, 0.1])
    side = Side(name="variant", step=first)
    assert warm_up([side], device=ScriptedDevice(lambda _: next(times)), deadline_s=math.inf)
    assert [timing.wall_s for timing in side.warmups] == [0.5, 0.4, 0.1, 0.1, 0.1]


def test_a_level_that_never_settles_is_told() -> None:
    times = iter(2.0**-n for n in range(100))
    side = Side(name="variant", step=first)
    assert not warm_up([side], device=ScriptedDevice(lambda _: next(times)), deadline_s=math.inf)


def test_warm_up_stops_at_its_deadline() -> None:
    times = iter(2.0**-n for n in range(100))
    side = Side(name="variant", step=first)
    assert not warm_up([side], device=ScriptedDevice(lambda _: next(times)), deadline_s=-math.inf)
    assert len(side.warmups) == 1


@pytest.mark.parametrize(
    ("times", "settled"),
    [([1.0, 1.0], False), ([9.0, 1.0, 1.04, 1.0], True), ([1.0, 1.0, 1.06], False)],
)
def test_settled_means_three_times_within_five_percent(
    times: Sequence[float], settled: bool
) -> None:
    assert has_settled(times) is settled


def side_of(*timings: Timing) -> Side:
    return Side(name="x", step=first, samples=list(timings))


def test_the_paired_speedup_uses_cpu_time_where_both_sides_have_it() -> None:
    eager = side_of(Timing(wall_s=9.0, cpu_s=4.0), Timing(wall_s=9.0, cpu_s=6.0))
    variant = side_of(Timing(wall_s=1.0, cpu_s=2.0), Timing(wall_s=1.0, cpu_s=2.0))
    raw = paired_speedup(eager, variant)
    assert raw.samples == (2.0, 3.0)
    assert "thread CPU time" in raw.method


def test_the_paired_speedup_falls_back_to_wall_time() -> None:
    raw = paired_speedup(
        side_of(Timing(wall_s=6.0, cpu_s=None)), side_of(Timing(wall_s=2.0, cpu_s=None))
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


@pytest.mark.parametrize(
    ("variant", "mode", "backend", "ran"),
    [
        ("eager", "eager", "eager", "eager"),
        ("default", "default", "inductor", "default"),
        ("reduce-overhead", "reduce-overhead", "inductor", "default"),
        ("max-autotune", "max-autotune", "inductor", "default"),
        ("max-autotune-no-cudagraphs", "max-autotune-no-cudagraphs", "inductor", "default"),
        ("aot_eager", "default", "aot_eager", "default"),
    ],
)
def test_the_effective_mode_on_a_cpu(variant: str, mode: str, backend: str, ran: str) -> None:
    case = make_case(variant=variant, mode=mode, backend=backend)
    effective, warnings = effective_mode(case, counts=NO_COUNTS, device=CPU)
    assert effective == ran
    assert [warning.code for warning in warnings] == (["mode-fallback"] if ran != mode else [])


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


def test_an_autotuning_mode_on_cuda_that_tuned_no_product_says_so() -> None:
    case = make_case(
        variant="max-autotune-no-cudagraphs", mode="max-autotune-no-cudagraphs", device="cuda"
    )
    mode, warnings = effective_mode(case, counts=NO_COUNTS, device=CUDA)
    assert mode == "max-autotune-no-cudagraphs"
    assert [warning.code for warning in warnings] == ["no-gemm-autotuned"]


def test_a_torch_that_does_not_tell_of_cuda_graphs_is_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compiling, "has_recorded_cudagraphs", lambda: None)
    case = make_case(variant="reduce-overhead", mode="reduce-overhead", device="cuda")
    mode, warnings = effective_mode(case, counts=NO_COUNTS, device=CUDA)
    assert mode == "reduce-overhead"
    assert [warning.code for warning in warnings] == ["cudagraphs-unknown"]


ORACLE = torch.linspace(-1, 1, 1000, dtype=torch.float64)


def distance(result: torch.Tensor, *, eager_rmse: float | None = 1e-7) -> str:
    return check_accuracy(result, oracle=ORACLE, eager_rmse=eager_rmse, dtype=Dtype.FP32).reason


def test_rounding_is_accurate() -> None:
    assert distance(ORACLE + 1e-7) == ""


def test_another_direction_is_inaccurate() -> None:
    assert "cosine similarity" in distance(-ORACLE)


def test_many_times_the_error_of_eager_is_inaccurate() -> None:
    assert "3 times eager's" in distance(ORACLE * (1 + 1e-3))


def test_an_error_like_that_of_eager_is_accurate() -> None:
    assert distance(ORACLE * (1 + 1e-3), eager_rmse=1e-3) == ""


def test_another_number_of_outputs_is_inaccurate() -> None:
    assert "it has 999 numbers, the oracle 1000" in distance(ORACLE[1:])


def test_an_oracle_that_is_not_finite_proves_nothing() -> None:
    bad = torch.full((3,), float("inf"), dtype=torch.float64)
    found = check_accuracy(bad, oracle=bad, eager_rmse=None, dtype=Dtype.FP32)
    assert "oracle itself" in found.reason


def test_zero_equals_zero_and_nothing_else() -> None:
    zero = torch.zeros(4, dtype=torch.float64)
    same = check_accuracy(zero, oracle=zero, eager_rmse=None, dtype=Dtype.FP32)
    assert (same.cosine, same.reason) == (1.0, "")
    other = check_accuracy(zero + 1, oracle=zero, eager_rmse=None, dtype=Dtype.FP32)
    assert other.reason


def test_outputs_are_flattened_in_order_whatever_holds_them() -> None:
    outputs = {"a": (torch.ones(2), [torch.zeros(1)]), "b": torch.tensor([7]), "c": None}
    assert flatten(outputs).tolist() == [1.0, 1.0, 0.0]
    with pytest.raises(TypeError, match="without any floating-point tensor"):
        flatten({"b": torch.tensor([7])})


def test_gradients_in_half_precision_do_not_underflow() -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(64, 64)
    subject = Subject(
        model=model,
        inputs={"input": torch.randn(8, 64)},
        phase=Phase.TRAINING,
        dtype=Dtype.FP16_AUTOCAST,
        device=CPU,
        loss=lambda outputs, _: outputs.float().square().mean() * 1e-6,
        optimizer=torch.optim.AdamW(model.parameters()),
        scaler=torch.amp.GradScaler("cpu"),
    )
    twin = fp64_twin(subject)
    gradients = subject.result(model)["gradients"]
    oracle = twin.result(twin.model)["gradients"]
    assert check_accuracy(gradients, oracle=oracle, dtype=Dtype.FP16_AUTOCAST).reason == ""


def test_an_overflowing_loss_scale_is_backed_off() -> None:
    model = torch.nn.Linear(4, 4)
    subject = Subject(
        model=model,
        inputs={"input": torch.ones(2, 4)},
        phase=Phase.TRAINING,
        dtype=Dtype.FP16_AUTOCAST,
        device=CPU,
        loss=lambda outputs, _: outputs.float().square().mean() * 1e3,
        scaler=torch.amp.GradScaler("cpu"),
    )
    assert bool(torch.isfinite(subject.result(model)["gradients"]).all())


def test_the_loss_of_a_model_without_one_is_the_sum_of_mean_squares() -> None:
    outputs = {"a": torch.full((2, 2), 2.0), "b": (torch.full((3,), 3.0),), "c": torch.tensor([1])}
    assert float(mean_square(outputs, {})) == 13.0


def test_the_highest_balance_is_what_was_held_at_once() -> None:
    assert highest_balance([100, 50, -100, 20, -70]) == 150
    assert highest_balance([-10, 5]) == 0


def test_views_of_one_storage_count_once() -> None:
    base = torch.zeros(10)
    assert storage_bytes([base, base[:5], torch.zeros(2)]) == 48


def test_peak_memory_of_a_product_is_counted_by_hand() -> None:
    left, right = torch.ones(64, 32), torch.ones(32, 16)
    peak, method = peak_bytes(lambda: (left @ right).relu(), alive=[left, right], device=CPU)
    assert peak == (64 * 32 + 32 * 16 + 2 * 64 * 16) * 4
    assert "torch.profiler" in method


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


def test_private_pools_count_what_the_allocator_calls_free() -> None:
    snapshot = [
        {"segment_pool_id": (0, 0), "total_size": 1000, "allocated_size": 10},
        {"segment_pool_id": (0, 1), "total_size": 500, "allocated_size": 100},
        {"total_size": 77, "allocated_size": 7},
    ]
    assert private_pool_bytes(snapshot) == 400


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


def test_an_unknown_or_absent_device_is_named() -> None:
    with pytest.raises(RuntimeError, match="unknown device 'tpu'"):
        open_device("tpu", num_threads=1)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_missing_cuda_device_says_what_to_check() -> None:
    with pytest.raises(RuntimeError, match="nvidia-smi"):
        open_device("cuda", num_threads=1)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_events_time_the_device() -> None:
    matrix = torch.ones(4096, 4096, device="cuda")
    timing = CUDA.time_iterations(lambda: matrix @ matrix, num_iterations=10)
    assert timing.wall_s > 0
    assert timing.cpu_s is None
