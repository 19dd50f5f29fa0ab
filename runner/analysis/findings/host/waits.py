"""hidden-sync, data-wait and exposed-communication: an iteration waits for something else.

hidden-sync: after a copy that the host waited for, the GPU has no work until the next launch. That
is the cost, in the share of the idle time that is left without the profiler. data-wait: a fresh
batch is not part of the latency, so its time is evidence and no cost. exposed-communication: the
profile counts time with several kernels for computation, so its communication is exposed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from compile_hud.db.records.kernels import IDLE, IDLE_AFTER_WAIT, Kernel
from compile_hud.runner.analysis.findings.draft import Draft, FindingKind
from compile_hud.runner.analysis.findings.locations import (
    calls_text,
    exhibits_of,
    location_of,
    metric_exhibit,
    share_text,
    time_text,
)
from compile_hud.runner.analysis.findings.result_evidence import ResultEvidence
from compile_hud.runner.analysis.kernels.grouping import operator_name

_SYNCS = frozenset(
    ("item", "local_scalar_dense", "nonzero", "is_nonzero", "masked_select", "unique2", "equal")
)
_TO_HOST = "Memcpy DtoH"
_DATA = "data_s"
# A share of the latency.
_MIN_DATA_SHARE = 0.10
COMMUNICATION = "communication"


def find_syncs(case: ResultEvidence) -> Iterator[Draft]:
    """Yield the copies to the host inside of an iteration."""
    if not case.is_cuda:
        return
    copies = [kernel for kernel in case.kernels if _is_copy_to_host(kernel)]
    if copies:
        yield Draft(
            text=f"{calls_text(copies)} of copies to the host in an iteration: the host waits for"
            " the GPU at each",
            where=location_of(copies),
            gap_s=_idle_s(case, copies),
            evidence=exhibits_of(copies),
        )


def _idle_s(case: ResultEvidence, copies: Sequence[Kernel]) -> float:
    """Return the time without work after copies; the profiler lengthens all gaps alike."""
    times = [kernel.launch.get(IDLE_AFTER_WAIT) for kernel in copies]
    idle_s = math.fsum(time_s for time_s in times if isinstance(time_s, int | float))
    profiled_s = 0.0 if case.profile is None else case.profile.components.get(IDLE, 0.0)
    if not profiled_s or case.gap_s is None:
        return 0.0
    return idle_s * min(1.0, case.gap_s / profiled_s)


def _is_copy_to_host(kernel: Kernel) -> bool:
    if not kernel.name.startswith(_TO_HOST):
        return False
    names = {operator_name(text) for text in kernel.operators}
    return bool(names & _SYNCS) or "to_copy" in names or "copy" in names


def find_data_wait(case: ResultEvidence) -> Iterator[Draft]:
    """Yield the time of a fresh batch, if it is long."""
    data_s = case.median(_DATA)
    if data_s is None or not case.latency_s or data_s < _MIN_DATA_SHARE * case.latency_s:
        return
    yield Draft(
        text=f"a fresh batch takes {time_text(data_s)} before each step, outside of the latency",
        evidence=(metric_exhibit(_DATA, data_s),),
    )


def find_communication(case: ResultEvidence) -> Iterator[Draft]:
    """Yield the communication that no computation hides."""
    if case.profile is None:
        return
    exposed_s = case.profile.components.get(COMMUNICATION, 0.0)
    indices = tuple(
        index for index, kernel in enumerate(case.kernels) if kernel.kind == COMMUNICATION
    )
    total_s = sum(case.kernels[index].total_s for index in indices)
    if not indices or not exposed_s or not total_s:
        return
    kernels = [case.kernels[index] for index in indices]
    part = min(1.0, exposed_s / total_s)
    yield Draft(
        text=f"{share_text(part)} of the communication has no computation at the same time",
        where=location_of(kernels),
        kernels=indices,
        part=part,
    )


SYNCS = FindingKind(
    code="hidden-sync",
    meaning="The host waits for the GPU inside of an iteration, as at `.item()`.",
    remedy="keep the value on the GPU, or read it every few iterations",
    source="kernels",
    rule=find_syncs,
    min_share=None,
)
DATA_WAIT = FindingKind(
    code="data-wait",
    meaning="Making a batch and copying it to the device takes long compared to the step.",
    remedy="prefetch from pinned memory with non_blocking=True",
    source="parts of a training step",
    rule=find_data_wait,
    min_share=None,
)
EXPOSED = FindingKind(
    code="exposed-communication",
    meaning="Communication between devices that no computation hides.",
    remedy="use larger buckets, or start the communication earlier",
    source="kernels",
    rule=find_communication,
)
