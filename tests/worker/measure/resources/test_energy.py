"""Energy of an iteration, from scripted counters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from syrupy.assertion import SnapshotAssertion
from torch import nn

from compile_hud.runner.measure.context import Context
from compile_hud.runner.measure.device import Device
from compile_hud.runner.measure.latency.timing import Timing
from compile_hud.runner.measure.resources import energy
from compile_hud.runner.measure.resources.energy import (
    EnergyMissingError,
    NvmlCounter,
    NvmlPower,
    RaplMeter,
    measure_energy,
    open_meter,
    rapl_packages,
    report_energy,
)
from compile_hud.runner.measure.resources.nvml import open_gpu
from tests.support.fake_nvml import FakeNvml, install
from tests.support.runs.launch_contexts import make_context

BATCH_S = 0.25
POWER_W = 100.0


class World:
    """Time passes by running; the counter shows what was used at its last tick."""

    def __init__(self, *, tick_s: float) -> None:
        self.now_s = 0.0
        self.tick_s = tick_s
        self.num_runs = 0
        self.method = "a script"
        self.adds_up = False

    def run(self) -> int:
        self.now_s += BATCH_S
        self.num_runs += 1
        return 10

    def read_j(self) -> float:
        return POWER_W * self.tick_s * (self.now_s // self.tick_s)

    def measure(self, *, settle_s: float = 0.0, least_s: float = 2.0) -> energy.Energy:
        return measure_energy(
            self, self.run, settle_s=settle_s, least_s=least_s, now_s=lambda: self.now_s
        )


def test_energy_is_taken_from_tick_to_tick() -> None:
    energy = World(tick_s=0.5).measure()
    # Two seconds or more, which are eight batches of ten iterations.
    assert energy.duration_s == 2.0
    assert energy.num_iterations == 80
    assert energy.energy_j == 200.0


def test_a_measurement_in_the_middle_of_a_tick_goes_on_to_the_next() -> None:
    energy = World(tick_s=0.5).measure(least_s=1.75)
    assert energy.duration_s == 2.0
    assert energy.energy_j / energy.duration_s == POWER_W


def test_what_runs_until_the_load_has_settled_does_not_count() -> None:
    world = World(tick_s=0.5)
    energy = world.measure(settle_s=3.0)
    assert world.num_runs == (3.0 + 2.0) / BATCH_S
    assert energy.num_iterations == 80


class SlowCounter:
    """A device that idles while its counter is read, which takes as long as on an H200."""

    method = "a script"
    adds_up = False
    batch_s, read_s, tick_s = 0.005, 0.004, 0.1
    busy_w, idle_w = 600.0, 100.0

    def __init__(self) -> None:
        self.now_s = 0.0
        self.used_j = 0.0
        self.shown_j = 0.0

    def spend(self, duration_s: float, power_w: float) -> None:
        tick = self.now_s // self.tick_s
        self.now_s += duration_s
        self.used_j += duration_s * power_w
        if self.now_s // self.tick_s > tick:
            self.shown_j = self.used_j

    def run(self) -> int:
        self.spend(self.batch_s, self.busy_w)
        return 1

    def read_j(self) -> float:
        self.spend(self.read_s, self.idle_w)
        return self.shown_j


def test_reading_a_slow_counter_does_not_make_the_device_idle() -> None:
    world = SlowCounter()
    energy = measure_energy(world, world.run, settle_s=0.2, least_s=1.0, now_s=lambda: world.now_s)
    # Read after every batch, it was 372 W.
    assert energy.energy_j / energy.duration_s == pytest.approx(world.busy_w, rel=0.03)
    energy_j = world.busy_w * world.batch_s
    assert energy.energy_j / energy.num_iterations == pytest.approx(energy_j, rel=0.03)


@pytest.mark.parametrize("batch_s", [0.02, 0.3, 0.7, 1.5, 4.0])
@pytest.mark.parametrize("read_s", [0.0, 0.004])
def test_iterations_of_any_length_have_their_energy(batch_s: float, read_s: float) -> None:
    world = SlowCounter()
    world.batch_s, world.read_s = batch_s, read_s
    energy = measure_energy(world, world.run, settle_s=0.2, least_s=1.0, now_s=lambda: world.now_s)
    assert energy.num_iterations <= max(2, 1.5 / batch_s)
    energy_j = world.busy_w * world.batch_s
    # A tick may lie up to a tenth of a second before the end of a batch.
    assert energy.energy_j / energy.num_iterations == pytest.approx(energy_j, rel=0.1)


def test_a_counter_that_stands_still_is_none(words: SnapshotAssertion) -> None:
    with pytest.raises(EnergyMissingError) as caught:
        World(tick_s=1000.0).measure()
    assert " 0.5 s " in str(caught.value)
    assert str(caught.value) == words


def write_package(
    root: Path, name: str, *, path: str, energy_uj: str = "0", wrap_uj: int = 1000
) -> Path:
    folder = root / path
    folder.mkdir()
    (folder / "name").write_text(f"{name}\n", encoding="ascii")
    (folder / "energy_uj").write_text(energy_uj, encoding="ascii")
    (folder / "max_energy_range_uj").write_text(f"{wrap_uj}\n", encoding="ascii")
    return folder


def test_packages_are_counted_and_their_parts_are_not(tmp_path: Path) -> None:
    packages = [
        write_package(tmp_path, f"package-{number}", path=f"intel-rapl:{number}")
        for number in range(2)
    ]
    write_package(tmp_path, "core", path="intel-rapl:0:0")
    write_package(tmp_path, "psys", path="intel-rapl:2")
    # The same package by another way: it would count twice.
    write_package(tmp_path, "package-0", path="intel-rapl-mmio:0")
    assert rapl_packages(tmp_path) == packages


def test_a_machine_without_counters_is_reported_by_name(
    tmp_path: Path, words: SnapshotAssertion
) -> None:
    with pytest.raises(EnergyMissingError) as caught:
        rapl_packages(tmp_path)
    assert str(caught.value) == words


def test_counters_of_packages_add_up_and_wrap_around(tmp_path: Path) -> None:
    first = write_package(tmp_path, "package-0", path="intel-rapl:0", energy_uj="900")
    second = write_package(tmp_path, "package-1", path="intel-rapl:1", energy_uj="10", wrap_uj=50)
    meter = RaplMeter([first, second])
    (first / "energy_uj").write_text("200", encoding="ascii")
    (second / "energy_uj").write_text("15", encoding="ascii")
    assert meter.read_j() == pytest.approx((300 + 5) / 1e6)
    (second / "energy_uj").write_text("5", encoding="ascii")
    assert meter.read_j() == pytest.approx((300 + 5 + 40) / 1e6)


@pytest.mark.parametrize("text", ["", "secret"])
def test_a_counter_that_cannot_be_read_is_reported_by_name(
    tmp_path: Path, text: str, words: SnapshotAssertion
) -> None:
    package = write_package(tmp_path, "package-0", path="intel-rapl:0", energy_uj=text)
    with pytest.raises(EnergyMissingError) as caught:
        RaplMeter([package])
    assert str(caught.value) == words


def test_the_energy_counter_of_a_gpu_is_used_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch, FakeNvml(energy_mj=lambda: 1500))
    meter = open_meter(is_cuda=True)
    assert isinstance(meter, NvmlCounter)
    assert meter.read_j() == 1.5


def test_a_gpu_that_counts_no_energy_has_its_power_integrated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = FakeNvml(power_mw=100_000)
    install(monkeypatch, fake)
    assert isinstance(open_meter(is_cuda=True), NvmlPower)
    times_s = iter([10.0, 11.0, 13.0])
    meter = NvmlPower(open_gpu(), now_s=lambda: next(times_s))
    assert meter.read_j() == 0.0
    assert meter.read_j() == 100.0
    fake.power_mw = 300_000
    assert meter.read_j() == 100.0 + 2 * 200.0
    assert "integrated" in meter.method


@pytest.mark.parametrize(
    "fake",
    [
        FakeNvml(is_driver_loaded=False),
        FakeNvml(mig_mode=(1, 1), energy_mj=lambda: 1),
        FakeNvml(power_mw=None),
    ],
)
def test_a_gpu_without_energy_has_a_reason(
    monkeypatch: pytest.MonkeyPatch, fake: FakeNvml, words: SnapshotAssertion
) -> None:
    install(monkeypatch, fake)
    with pytest.raises(EnergyMissingError) as caught:
        open_meter(is_cuda=True)
    assert str(caught.value) == words


def test_a_counter_that_goes_away_is_a_reason(
    monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    fake = FakeNvml(energy_mj=lambda: 1)
    install(monkeypatch, fake)
    counter, power = NvmlCounter(open_gpu()), NvmlPower(open_gpu())
    fake.energy_mj = fake.power_mw = None
    with pytest.raises(EnergyMissingError, match="counter went away"):
        counter.read_j()
    with pytest.raises(EnergyMissingError) as caught:
        power.read_j()
    assert str(caught.value) == words


class WorkingDevice(Device):
    """A CPU on which an iteration takes a millisecond of the energy module's clock."""

    def __init__(self, clock: list[float]) -> None:
        super().__init__(kind="cpu", num_threads=2)
        object.__setattr__(self, "clock_s", clock)

    def time_iterations(self, call: Callable[[], object], *, num_iterations: int) -> Timing:
        call()
        self.clock_s[0] += 0.001 * num_iterations  # type: ignore[attr-defined]
        return Timing(wall_s=0.001, cpu_s=None)


def context_with(clock: list[float]) -> Context:
    context = make_context(nn.Identity(), {"input": torch.ones(1)}, device=WorkingDevice(clock))
    context.findings.add("latency_s", (0.001, 0.001), method="script")
    return context


def test_energy_and_power_of_an_iteration_are_stored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clock = [0.0]
    context = context_with(clock)
    package = write_package(tmp_path, "package-0", path="intel-rapl:0", wrap_uj=10**12)

    def forward(input: torch.Tensor) -> torch.Tensor:
        # 20 W all along.
        (package / "energy_uj").write_text(str(round(20e6 * clock[0])), encoding="ascii")
        return input

    monkeypatch.setattr(energy, "RAPL_ROOT", tmp_path)
    monkeypatch.setattr(energy.time, "perf_counter", lambda: clock[0])
    report_energy(context, forward)
    metrics = {name: raw.samples[0] for name, raw in context.findings.metrics.items()}
    assert metrics["power_w"] == pytest.approx(20.0)
    assert metrics["energy_j"] == pytest.approx(0.020)
    assert context.findings.details["energy"]["num_iterations"] >= 300
    assert "RAPL" in context.findings.metrics["energy_j"].method


def test_no_energy_is_a_reason_and_no_number(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    context = context_with([0.0])
    monkeypatch.setattr(energy, "RAPL_ROOT", tmp_path)
    report_energy(context, lambda input: input)
    assert set(context.findings.metrics) == {"latency_s"}
    assert "no RAPL" in context.findings.details["energy"]["reason"]
    assert context.findings.warnings == []
