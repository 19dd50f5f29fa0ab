"""NVML's readings of the GPU under measurement, from a fake library."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn

from compile_hud.db.records.results import Phase
from compile_hud.runner.measure.context import Context
from compile_hud.runner.measure.device import Device
from compile_hud.runner.measure.latency.sampling import sample
from compile_hud.runner.measure.latency.timing import Timing
from compile_hud.runner.measure.resources import nvml
from compile_hud.runner.measure.resources.nvml import (
    REASONS,
    NvmlMissingError,
    open_gpu,
    reason_words,
)
from compile_hud.runner.measure.resources.telemetry import MIN_INTERVAL_S, Telemetry, open_telemetry
from tests.support.fake_nvml import ADDRESS, UUID, FakeNvml, install
from tests.support.runs.launch_contexts import make_context

CUDA = Device(kind="cuda", num_threads=1)


def cuda_context() -> Context:
    return make_context(nn.Identity(), {"input": torch.ones(1)}, device=CUDA)


def test_a_reading_has_units_and_words(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, FakeNvml(reasons=0x4 | 0x40))
    reading = open_gpu().read()
    assert reading.clock_sm_mhz == 1980
    assert reading.clock_memory_mhz == 2619
    assert reading.temperature_c == 61
    assert reading.power_w == 350.0
    assert reading.throttle_reasons == ("sw_power_cap", "hw_thermal_slowdown")


def test_unreported_facts_of_a_device_are_missing_and_the_rest_present(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch, FakeNvml(power_mw=None, reasons=None, ecc_mode=None, pids=None))
    gpu = open_gpu()
    reading = gpu.read()
    assert reading.power_w is None
    assert reading.throttle_reasons == ()
    assert reading.temperature_c == 61
    assert gpu.has_ecc() is None
    assert gpu.energy_j() is None
    assert gpu.num_other_processes() is None


def test_an_unknown_reason_is_shown_as_its_bit() -> None:
    assert reason_words(0x200 | 0x1) == ("gpu_idle", "reason_0x200")
    assert reason_words(0) == ()


def test_an_old_library_has_the_reasons_under_their_old_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class OldNvml(FakeNvml):
        nvmlDeviceGetCurrentClocksEventReasons = None  # type: ignore[assignment]

        def nvmlDeviceGetCurrentClocksThrottleReasons(self, _: str) -> int:
            return 0x8

    install(monkeypatch, OldNvml())
    assert open_gpu().read().throttle_reasons == ("hw_slowdown",)


def test_the_device_is_found_by_its_uuid(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeNvml()
    install(monkeypatch, fake)
    assert open_gpu().handle == "gpu"
    assert fake.queries == [f"GPU-{UUID}"]


@pytest.mark.parametrize("uuid", [UUID, None])
def test_a_device_without_a_known_uuid_is_found_on_the_bus(
    monkeypatch: pytest.MonkeyPatch, uuid: str | None
) -> None:
    install(monkeypatch, FakeNvml(handles={ADDRESS: "gpu"}), uuid=uuid)
    assert open_gpu().handle == "gpu"


def test_a_mig_instance_has_the_clocks_of_its_board_and_processes_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = FakeNvml(handles={f"MIG-{UUID}": "mig"})
    install(monkeypatch, fake)
    gpu = open_gpu()
    assert gpu.is_mig
    assert gpu.read().clock_sm_mhz == 1980
    gpu.num_other_processes()
    assert fake.queries[-1] == "mig"


@pytest.mark.parametrize(("mode", "is_mig"), [(None, False), ((0, 1), False), ((1, 1), True)])
def test_a_board_that_is_split_is_known(
    monkeypatch: pytest.MonkeyPatch, mode: tuple[int, int] | None, is_mig: bool
) -> None:
    install(monkeypatch, FakeNvml(mig_mode=mode))
    assert open_gpu().is_mig is is_mig


@pytest.mark.parametrize(
    ("fake", "properties", "reason"),
    [
        (None, {}, "nvidia-ml-py is not installed"),
        (FakeNvml(is_driver_loaded=False), {}, "Driver Not Loaded"),
        (FakeNvml(handles={}), {}, "Not Found"),
        (FakeNvml(handles={}), {"pci_bus_id": None}, "neither UUID nor PCI address"),
    ],
)
def test_a_device_that_nvml_does_not_know_has_a_reason(
    monkeypatch: pytest.MonkeyPatch, fake: Any, properties: dict[str, Any], reason: str
) -> None:
    install(monkeypatch, fake, **properties)
    with pytest.raises(NvmlMissingError, match=reason):
        open_gpu()


@pytest.mark.parametrize(
    ("pids", "num_others"),
    [
        ([], 0),
        ([os.getpid()], 0),
        ([os.getpid(), -1, -2, -2], 2),
        # Ids of another namespace, as in a container: one of them is this process.
        ([-1], 0),
        ([-1, -2], 1),
    ],
)
def test_processes_besides_this_one_are_counted(
    monkeypatch: pytest.MonkeyPatch, pids: list[int], num_others: int
) -> None:
    install(monkeypatch, FakeNvml(pids=pids))
    assert open_gpu().num_other_processes() == num_others


def test_readings_are_no_closer_than_the_counters_move(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, FakeNvml())
    now_s = [0.0]
    telemetry = Telemetry(open_gpu(), now_s=lambda: now_s[0])
    for now_s[0] in (0.0, MIN_INTERVAL_S / 2, MIN_INTERVAL_S, 1.9 * MIN_INTERVAL_S, 9.0):
        telemetry.read()
    assert telemetry.details()["clock_sm_mhz"] == [1980.0] * 3


def test_telemetry_keeps_every_number_and_each_reason_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = FakeNvml(reasons=0x1)
    install(monkeypatch, fake)
    telemetry = Telemetry(open_gpu(), now_s=iter(range(100)).__next__)
    telemetry.read()
    fake.reasons, fake.temperature_c, fake.power_mw = 0x5, 70, None
    telemetry.read()
    assert telemetry.details() == {
        "clock_sm_mhz": [1980.0, 1980.0],
        "clock_memory_mhz": [2619.0, 2619.0],
        "temperature_c": [61.0, 70.0],
        "power_w": [350.0],
        "throttle_reasons": ["gpu_idle", "sw_power_cap"],
        "has_ecc": True,
        "is_mig": False,
        "num_other_processes": 0,
    }


@pytest.mark.parametrize(("before", "after"), [([-1, -2], []), ([], [-1, -2])])
def test_a_shared_gpu_is_a_warning_whenever_the_other_was_there(
    monkeypatch: pytest.MonkeyPatch, before: list[int], after: list[int]
) -> None:
    fake = FakeNvml(pids=before)
    install(monkeypatch, fake)
    context = cuda_context()
    telemetry = Telemetry(open_gpu())
    fake.pids = after
    telemetry.report(context)
    assert [warning.code for warning in context.findings.warnings] == ["shared-gpu"]
    assert context.findings.details["telemetry"]["num_other_processes"] == 1


def test_launches_that_wait_for_their_turn_do_not_share_the_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch, FakeNvml(pids=[os.getpid(), -1, -2]))
    context = cuda_context()
    context.findings.num_neighbours = 2
    Telemetry(open_gpu()).report(context)
    assert context.findings.warnings == []
    context.findings.num_neighbours = 1
    Telemetry(open_gpu()).report(context)
    assert context.findings.details["telemetry"]["num_other_processes"] == 1


def test_a_gpu_of_ones_own_is_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, FakeNvml(pids=[os.getpid()]))
    context = cuda_context()
    Telemetry(open_gpu()).report(context)
    assert context.findings.warnings == []


def test_without_nvml_there_is_a_warning_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nvml, "pynvml", None)
    context = cuda_context()
    assert open_telemetry(context) is None
    assert [warning.code for warning in context.findings.warnings] == ["no-telemetry"]
    assert "nvidia-ml-py" in context.findings.warnings[0].hint


def test_the_fake_has_no_function_that_the_library_lacks() -> None:
    library = pytest.importorskip("pynvml")
    named = [name for name in vars(FakeNvml) if name.startswith(("nvml", "NVML"))]
    assert len(named) > 10
    assert [name for name in named if not hasattr(library, name)] == []
    for bit, word in REASONS.items():
        camel = "".join(part.title() for part in word.split("_"))
        assert getattr(library, f"nvmlClocksEventReason{camel}") == bit


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_the_library_without_a_driver_is_a_reason() -> None:
    pytest.importorskip("pynvml")
    with pytest.raises(NvmlMissingError, match=r"NVML: .*(Library|Driver) Not"):
        open_gpu()


def test_a_cpu_has_no_telemetry_and_no_warning() -> None:
    context = make_context(nn.Identity(), {"input": torch.ones(1)})
    assert open_telemetry(context) is None
    assert context.findings.warnings == []


class ScriptedCuda(Device):
    """A CUDA device that is none: an iteration takes 10 ms, and what is asked between is noted."""

    def __init__(self, events: list[str]) -> None:
        super().__init__(kind="cuda", num_threads=1)
        object.__setattr__(self, "events", events)
        object.__setattr__(self, "working_sets_bytes", [])

    def synchronize(self) -> None: ...

    @contextmanager
    def flushing(self, *, working_set_bytes: int) -> Iterator[Device]:
        self.working_sets_bytes.append(working_set_bytes)  # type: ignore[attr-defined]
        yield self

    def time_iterations(self, call: Any, *, num_iterations: int) -> Timing:
        del call, num_iterations
        self.events.append("timed")  # type: ignore[attr-defined]
        return Timing(wall_s=0.01, cpu_s=None)


def test_the_gpu_is_read_between_rounds_and_never_in_a_timer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events: list[str] = []
    device = ScriptedCuda(events)
    install(monkeypatch, FakeNvml())
    monkeypatch.setattr(Telemetry, "read", lambda _: events.append("read"))
    context = make_context(
        nn.Identity(), {"input": torch.ones(1)}, device=device, backend="eager", num_rounds=5
    )
    sample(context, context.subject.model)
    assert events[-10:] == ["timed", "read"] * 5
    assert "telemetry" in context.findings.details


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_gradients_and_optimizer_state_are_in_the_working_set_of_every_launch(
    monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    install(monkeypatch, FakeNvml())
    device = ScriptedCuda([])
    model = nn.Linear(8, 8, bias=False)
    context = make_context(
        model, {"input": torch.ones(4, 8)}, phase=Phase.TRAINING, device=device, backend=backend
    )
    if backend == "inductor":
        # Compiling begins with an eager iteration.
        context.subject.step(model)()
    sample(context, model)
    # Weights, gradients and two moments, the input, and the optimizer's count of steps.
    expected = (4 * 8 * 8 + 4 * 8 + 1) * 4
    assert device.working_sets_bytes == [expected]  # type: ignore[attr-defined]
