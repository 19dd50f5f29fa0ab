"""The peaks of a device: the search with a scripted clock, and a real CPU once."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from compile_hud.db.records.results import MEASURED_DTYPES, Dtype
from compile_hud.runner.execution import utilisation
from compile_hud.runner.measure.device import Device
from compile_hud.runner.measure.latency.timing import Timing
from compile_hud.runner.measure.resources import device_peaks as peaks
from compile_hud.runner.measure.resources.device_peaks import (
    MAX_COPY_BYTES,
    MIN_COPY_BYTES,
    Budget,
    best_rate,
    copy_size_bytes,
    measure_peaks,
)
from tests.support.terminal import Terminal

CPU = Device(kind="cpu", num_threads=1)
CUDA = Device(kind="cuda", num_threads=1)


class Work:
    """Calls that take as long as the script says; making one or warming it up is free."""

    def __init__(self, rates: dict[int, list[float]]) -> None:
        self.rates = rates
        self.now_s = 0.0
        self.calls: list[int] = []

    def make(self, size: int) -> Callable[[], object]:
        return lambda: self.calls.append(size)

    def time_s(self, call: Callable[[], object]) -> float:
        call()
        size = self.calls[-1]
        rates = self.rates[size]
        seconds = size / (rates.pop(0) if len(rates) > 1 else rates[0])
        self.now_s += seconds
        return seconds

    def best(self, budget_s: float) -> float:
        budget = Budget(budget_s=budget_s, time_s=self.time_s, now_s=lambda: self.now_s)
        return best_rate(self.make, sizes=list(self.rates), work=float, budget=budget)


def test_the_best_of_many_calls_counts() -> None:
    assert Work({10: [1.0, 5.0, 2.0]}).best(budget_s=20.0) == 5.0


def test_a_larger_size_may_be_better() -> None:
    assert Work({10: [5.0], 100: [8.0]}).best(budget_s=200.0) == 8.0


def test_each_size_is_called_once_before_it_is_timed() -> None:
    work = Work({10: [5.0]})
    work.best(budget_s=0.0)
    assert work.calls == [10, 10]


def test_a_size_that_would_outlast_the_budget_is_not_begun() -> None:
    work = Work({10: [5.0], 100: [50.0]})
    assert work.best(budget_s=30.0) == 5.0
    assert 100 not in work.calls


@pytest.mark.parametrize(
    ("text", "num_bytes"),
    [
        ("32768K\n", 128 * 2**20),
        ("1024K\n", MIN_COPY_BYTES),
        ("524288K\n", MAX_COPY_BYTES),
        ("unknown\n", MIN_COPY_BYTES),
    ],
)
def test_buffers_are_larger_than_the_last_cache(tmp_path: Path, text: str, num_bytes: int) -> None:
    (tmp_path / "size").write_text(text, encoding="ascii")
    assert copy_size_bytes(tmp_path / "size") == num_bytes


def test_a_machine_without_that_cache_gets_the_smallest_buffers(tmp_path: Path) -> None:
    assert copy_size_bytes(tmp_path / "absent") == MIN_COPY_BYTES


def test_a_cpu_has_the_peaks_that_its_cases_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peaks, "CPU_SIZES", (32,))
    monkeypatch.setattr(peaks, "CPU_BUDGET_S", 0.0)
    monkeypatch.setattr(peaks, "copy_size_bytes", lambda _: 4096)
    before = os.sched_getaffinity(0)
    measured_peaks = measure_peaks(CPU)
    json.dumps(measured_peaks)
    assert min(measured_peaks[f"{name}_flops_per_s"] for name in ("fp32", "bf16")) > 0
    assert measured_peaks["copy_bytes_per_s"] > 0
    assert ("fp16_flops_per_s" in measured_peaks) == (CPU.unsupported_reason(Dtype.FP16) is None)
    assert measured_peaks["float32_matmul_precision"] == torch.get_float32_matmul_precision()
    assert os.sched_getaffinity(0) == before


class NeighbouredCpu(Device):
    """A CPU whose neighbours take nine tenths of the wall time."""

    def __init__(self) -> None:
        super().__init__(kind="cpu", num_threads=1)
        object.__setattr__(self, "cores", [])

    def time_iterations(self, call: Callable[[], object], *, num_iterations: int) -> Timing:
        assert callable(call)
        assert num_iterations == 1
        self.cores.append(os.sched_getaffinity(0))  # type: ignore[attr-defined]
        return Timing(wall_s=10.0, cpu_s=1.0)


def test_neighbours_take_nothing_from_the_peaks_of_a_pinned_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peaks, "CPU_SIZES", (32,))
    monkeypatch.setattr(peaks, "CPU_BUDGET_S", 0.0)
    monkeypatch.setattr(peaks, "copy_size_bytes", lambda _: 4096)
    cpu = NeighbouredCpu()
    measured_peaks = measure_peaks(cpu)
    assert measured_peaks["fp32_flops_per_s"] == 2 * 32**3
    assert measured_peaks["copy_bytes_per_s"] == 2 * 4096
    # Which dtypes a CPU has instructions for differs; the copy comes after their products.
    num_products = sum(cpu.unsupported_reason(dtype) is None for dtype in peaks.PEAK_DTYPES)
    assert [len(cores) for cores in cpu.cores] == [1] * (num_products + 1)  # type: ignore[attr-defined]


def test_a_product_itself_nearly_reaches_the_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    """The peak is what counted operations over the time of a product give, to the last bit."""
    monkeypatch.setattr(peaks, "CPU_SIZES", (64,))
    timed: list[float] = []

    def time_s(call: Callable[[], object]) -> float:
        call()
        timed.append(2.0 ** -len(timed))
        return timed[-1]

    budget = Budget(budget_s=3.0, time_s=time_s, now_s=lambda: float(len(timed)))
    rate = peaks.product_flops_per_s(torch.float32, device=CPU, budget=budget)
    assert rate == 2 * 64**3 / min(timed)


def test_little_free_memory_means_small_products_and_copies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[tuple[int, ...]] = []

    def remember(_: object, *, sizes: tuple[int, ...], **__: object) -> float:
        made.append(tuple(sizes))
        return 1.0

    monkeypatch.setattr(peaks, "best_rate", remember)
    budget = Budget(budget_s=0.0, time_s=lambda _: 1.0)
    for free_bytes in (2**40, 2**29, 2**20):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda free=free_bytes: (free, 2**41))
        peaks.product_flops_per_s(torch.float32, device=CUDA, budget=budget)
        peaks.copy_bytes_per_s(CUDA, budget=budget)
    assert made == [(4096, 8192), (2**30,), (4096,), (2**27,), (4096,), (2**18,)]


def test_peaks_have_the_names_under_which_they_are_looked_up() -> None:
    names = {dtype: name for dtype, (name, _) in peaks.PEAK_DTYPES.items()}
    assert names.items() <= utilisation.PEAK_NAMES.items()
    assert {*names.values(), peaks.TF32_NAME} == set(utilisation.PEAK_NAMES.values())
    assert peaks.TF32_NAME == utilisation.TF32_NAME
    assert tuple(utilisation.PEAK_NAMES) == MEASURED_DTYPES


@pytest.mark.parametrize("is_allowed", [True, False])
def test_a_gpu_that_runs_convolutions_in_tf32_has_a_peak_for_them(
    monkeypatch: pytest.MonkeyPatch, is_allowed: bool
) -> None:
    rates = {"highest": 1.0, "high": 8.0}
    monkeypatch.setattr(
        peaks,
        "product_flops_per_s",
        lambda *_, **__: rates[torch.get_float32_matmul_precision()],
    )
    monkeypatch.setattr(peaks, "copy_bytes_per_s", lambda *_, **__: 1.0)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: True)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", is_allowed)
    measured_peaks = measure_peaks(CUDA)
    assert measured_peaks["fp32_flops_per_s"] == 1.0
    assert measured_peaks.get(peaks.TF32_NAME) == (8.0 if is_allowed else None)
    assert torch.get_float32_matmul_precision() == "highest"
    assert measured_peaks["float32_matmul_precision"] == "highest"


def test_peaks_are_measured_with_the_threads_of_the_cases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path)
    path = terminal.folder / "hud.toml"
    path.write_text(path.read_text().replace("[run]", "[run]\nthreads = 3"))
    terminal.hud("run", "--suite", "mine")
    assert terminal.thread_counts == [3]
