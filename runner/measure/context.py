"""The state that the steps of a launch share: request, subjects and findings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from compile_hud.db.records.run_warning import RunWarning
from compile_hud.runner.measure.compile.cache_log import CacheLog
from compile_hud.runner.measure.compile.phases import CompileClock
from compile_hud.runner.measure.device import Device
from compile_hud.runner.measure.kernels.library_calls import Calls
from compile_hud.runner.measure.kernels.provenance import Origins
from compile_hud.runner.measure.kernels.replacements import Replacement
from compile_hud.runner.measure.steps import StepLog
from compile_hud.runner.measure.subject import Subject
from compile_hud.runner.protocol.messages import LaunchRequest, RawMetric

Forward = Callable[..., Any]


@dataclass(slots=True)
class Findings:
    """The findings of a launch so far."""

    metrics: dict[str, RawMetric] = field(default_factory=dict)
    warnings: list[RunWarning] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    effective_mode: str = ""
    # Launches of this run that wait with their model on the device.
    num_neighbours: int = 0

    def add(self, metric: str, samples: Sequence[float], *, method: str) -> None:
        """Record the samples of `metric`, in its unit."""
        self.metrics[metric] = RawMetric(samples=tuple(samples), method=method)

    def warn(self, code: str, text: str, *, hint: str) -> None:
        self.warnings.append(RunWarning(code=code, text=text, hint=hint))


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """One launch in progress."""

    request: LaunchRequest
    subject: Subject
    # The variant executes this subject if it transforms the model; `subject` is then eager's alone.
    transformed: Subject | None = None
    device: Device
    log: StepLog
    findings: Findings
    compiles: CompileClock = field(default_factory=CompileClock)
    caches: CacheLog = field(default_factory=CacheLog)
    origins: Origins = field(default_factory=dict)
    library_calls: Calls = field(default_factory=list)
    # The line of the user's code that calls a library, by the path of the module.
    call_lines: dict[str, str] = field(default_factory=dict)
    # The vector instructions of C++ code, by the code.
    vector_isas: dict[str, str] = field(default_factory=dict)
    replacements: list[Replacement] = field(default_factory=list)

    @property
    def is_first(self) -> bool:
        """Return whether this launch has an empty compile cache."""
        return self.request.launch == 0

    @property
    def is_eager(self) -> bool:
        """Return whether the case is the eager variant."""
        return self.request.case.backend == "eager"

    @property
    def variant(self) -> Subject:
        """Return the subject of the variant: `subject` itself unless the variant transforms it."""
        return self.subject if self.transformed is None else self.transformed

    def subject_of(self, forward: Forward) -> Subject:
        """Return the subject that `forward` executes."""
        return self.subject if forward is self.subject.model else self.variant

    def step(self, forward: Forward) -> Callable[[], object]:
        """Return one timed iteration through `forward`.

        On CUDA it begins with the mark that lets CUDA-graph trees reuse the outputs' memory.
        """
        step = self.subject_of(forward).step(forward)
        if not self.device.is_cuda or forward is self.subject.model:
            return step

        def marked() -> object:
            torch.compiler.cudagraph_mark_step_begin()
            return step()

        return marked
