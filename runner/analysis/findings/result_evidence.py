"""The records of a case result and of its run, as the rules of findings read them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from compile_hud.db.errors import RecordError
from compile_hud.db.records.graphs.host_times import HostTimes, host_times_of
from compile_hud.db.records.kernels import IDLE, Kernel, Profile, profile_of
from compile_hud.db.records.results import CaseResult, Outcome, Phase
from compile_hud.runner.analysis.kernels.diff import side_of
from compile_hud.runner.analysis.kernels.matching import Match, match_kernels

# The part of a profile without kernels and operators, on a CPU.
PYTHON = "python"
# A host that enqueues work in this share of the time waits for nothing.
MIN_HOST_SHARE = 0.85


@dataclass(frozen=True, kw_only=True)
class ResultEvidence:
    """A case result with the other results that explain it.

    `eager` is the eager result of the same model, phase, shape, dtype and device in the same run.
    `siblings` are the results of its other variants there. `previous` is the last good result of
    the case. `environment` has the facts of the run, such as the compute capability.
    """

    result: CaseResult
    eager: CaseResult | None = None
    siblings: Sequence[CaseResult] = ()
    previous: CaseResult | None = None
    environment: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """Return the kernels of the result."""
        return self.result.kernels

    @property
    def is_cuda(self) -> bool:
        """Return whether the case ran on a GPU."""
        return self.result.case.device.startswith("cuda")

    @property
    def is_eager(self) -> bool:
        """Return whether the case is plain eager."""
        return self.result.case.is_eager

    @property
    def is_training(self) -> bool:
        """Return whether an iteration is a training step."""
        return self.result.case.phase is Phase.TRAINING

    @property
    def is_inductor(self) -> bool:
        """Return whether Inductor compiled the case."""
        return self.result.case.backend == "inductor" and self.result.effective_mode != "eager"

    @property
    def has_cuda_graphs(self) -> bool:
        """Return whether the mode that ran replays CUDA graphs."""
        return self.is_cuda and self.result.effective_mode in ("reduce-overhead", "max-autotune")

    @cached_property
    def profile(self) -> Profile | None:
        """Return the profile, None without one or if it is damaged."""
        try:
            return profile_of(self.result.details)
        except RecordError:
            return None

    @cached_property
    def host_times(self) -> HostTimes | None:
        """Return the host's time between compiled graphs, None without it or if it is damaged."""
        try:
            return host_times_of(self.result.details)
        except RecordError:
            return None

    @cached_property
    def latency_s(self) -> float | None:
        """Return the median latency; without samples that of the profiled iteration.

        It is in CPU time where that is measured, as in the tables: other processes only lengthen
        the wall time.
        """
        for metric in ("latency_cpu_s", "latency_s"):
            median_s = self.median(metric)
            if median_s is not None:
                return median_s
        return None if self.profile is None else self.profile.iteration_s

    @cached_property
    def kernel_scale(self) -> float:
        """Return the factor from the time of a kernel to its part of the latency, at most 1.

        Kernels that run at the same time, and those that the profiler slows, add up to more than
        the latency.
        """
        total_s = math.fsum(kernel.total_s for kernel in self.kernels)
        if self.latency_s is None or total_s <= self.latency_s:
            return 1.0
        return self.latency_s / total_s

    @cached_property
    def gap_s(self) -> float | None:
        """Return the part of the latency in which no kernel ran, None if unknown.

        A GPU had no work in it; on a CPU it is Python, guards included.
        """
        if self.profile is None or self.latency_s is None:
            return None
        parts = self.profile.components
        idle = IDLE if self.is_cuda else PYTHON
        busy_s = math.fsum(part_s for name, part_s in parts.items() if name != idle)
        total_s = math.fsum(kernel.total_s for kernel in self.kernels) * self.kernel_scale
        return max(0.0, self.latency_s - max(busy_s, total_s))

    @cached_property
    def host_share(self) -> float | None:
        """Return the mean share of the samples' time in which the host enqueued work."""
        values = [item.get("host_share") for item in self.detail("conditions")]
        shares = [float(value) for value in values if isinstance(value, int | float)]
        return statistics.fmean(shares) if shares else None

    @cached_property
    def matches(self) -> tuple[Match, ...]:
        """Return the kernels of eager and of the case that do the same work.

        Empty without both, and if one of them is damaged.
        """
        if self.eager is None or self.is_eager:
            return ()
        try:
            return tuple(match_kernels(side_of(self.eager), candidate=side_of(self.result)))
        except RecordError:
            return ()

    @property
    def is_host_bound(self) -> bool:
        """Return whether the GPU waits for the host, which enqueues nearly all of the time."""
        return self.host_share is not None and self.host_share >= MIN_HOST_SHARE

    def median(self, metric: str) -> float | None:
        """Return the median of a metric of the result, None without one."""
        measurement = self.result.measurement(metric)
        return None if measurement is None else measurement.median

    def detail(self, name: str) -> Sequence[Mapping[str, Any]]:
        """Return the objects in a list of the details, empty without one."""
        listed = self.result.details.get(name)
        return [item for item in _list(listed) if isinstance(item, Mapping)]

    def warning_text(self, code: str) -> str:
        """Return the text of the warning with `code`, "" without one."""
        texts = (item.text for item in self.result.warnings if item.code == code)
        return next(texts, "")

    def sibling(self, *modes: str) -> CaseResult | None:
        """Return the first measured result of the other variants that ran in one of `modes`."""
        return next(
            (
                result
                for mode in modes
                for result in self.siblings
                if result.outcome is Outcome.OK and result.case.variant == mode
            ),
            None,
        )


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()
