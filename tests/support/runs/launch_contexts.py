"""The context of a launch in progress for any module, without a worker process."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn, optim
from torch._inductor.codecache import PyCodeCache

from compile_hud.db.records.results import Dtype, Phase
from compile_hud.runner.measure.compile.dynamo import reset
from compile_hud.runner.measure.context import Context, Findings
from compile_hud.runner.measure.device import Device
from compile_hud.runner.measure.steps import StepLog
from compile_hud.runner.measure.subject import Subject, mean_square
from compile_hud.runner.protocol.messages import LaunchRequest, MeasureSettings, Workload
from tests.support.builders import make_case

CPU = Device(kind="cpu", num_threads=1)


def forget_compiled() -> None:
    """Clear compiled code, counters and modules of Inductor from this process.

    A worker begins without any; a process of tests has those of earlier tests.
    """
    reset()
    PyCodeCache.cache_clear()


def make_context(
    model: nn.Module,
    inputs: dict[str, Tensor],
    *,
    phase: Phase = Phase.INFERENCE,
    dtype: Dtype = Dtype.FP32,
    device: Device = CPU,
    backend: str = "inductor",
    tolerance: dict[str, float] | None = None,
    num_rounds: int = 6,
    transformed: Subject | None = None,
) -> Context:
    """Return the context of the first launch of a case of `model`."""
    is_training = phase is Phase.TRAINING
    subject = Subject(
        model=model,
        inputs=inputs,
        phase=phase,
        dtype=dtype,
        device=device,
        loss=mean_square,
        optimizer=optim.AdamW(model.parameters(), lr=0.0) if is_training else None,
    )
    subject.remember_start(seed=0)
    mode = "eager" if backend == "eager" else "default"
    options: dict[str, Any] = {"mode": mode, "backend": backend, "device": device.kind}
    request = LaunchRequest(
        case=make_case(phase=phase, dtype=dtype, **options),
        workload=Workload(
            build="", config={}, num_samples=1, num_tokens=None, tolerance=tolerance or {}
        ),
        settings=MeasureSettings(num_rounds=num_rounds),
        launch=0,
        cache_dir="",
        report_path="",
        log_path="",
    )
    return Context(
        request=request,
        subject=subject,
        transformed=transformed,
        device=device,
        log=StepLog(),
        findings=Findings(),
    )
