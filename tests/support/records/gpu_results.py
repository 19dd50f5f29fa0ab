"""Case results with kernels of a GPU, as the rules of findings read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compile_hud.db.records.findings import Finding
from compile_hud.db.records.kernels import Kernel, Profile
from compile_hud.db.records.results import Case, CaseResult, Measurement
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.runner.analysis.findings.registry import findings_of
from compile_hud.runner.analysis.findings.result_evidence import ResultEvidence
from tests.support.builders import make_case, make_measurement, make_result

US = 1e-6
HOPPER = {"compute_capability": "9.0"}


def gpu_kernel(
    name: str,
    *,
    kind: str = "fused",
    library: str = "triton",
    count: float = 4.0,
    mean_us: float = 25.0,
    **fields: Any,
) -> Kernel:
    """Return a kernel of `count` calls of `mean_us` each."""
    mean_s = mean_us * US
    return Kernel(
        name=name,
        label=fields.pop("label", name),
        kind=kind,
        library=library,
        device="cuda:0",
        count=count,
        total_s=count * mean_s,
        mean_s=mean_s,
        min_s=mean_s,
        share=0.1,
        **fields,
    )


def gpu_result(
    *kernels: Kernel,
    latency_us: float = 1000.0,
    host_share: float | None = None,
    case: Case | None = None,
    details: Mapping[str, Any] | None = None,
    measurements: Sequence[Measurement] = (),
    warnings: Sequence[RunWarning] = (),
    is_graph_replay: bool = False,
    **fields: Any,
) -> CaseResult:
    """Return a result of `kernels` with its profile; the rest of the latency is idle."""
    latency_s = latency_us * US
    parts: dict[str, float] = {}
    for kernel in kernels:
        parts[kernel.kind] = parts.get(kernel.kind, 0.0) + kernel.total_s
    case = case or make_case(device="cuda", dtype="bf16")
    rest = "idle" if case.device == "cuda" else "python"
    parts[rest] = max(0.0, latency_s - sum(parts.values()))
    profile = Profile(
        num_iterations=10,
        iteration_s=sum(parts.values()),
        latency_s=latency_s,
        components=parts,
        is_graph_replay=is_graph_replay,
    )
    conditions = [] if host_share is None else [{"host_share": host_share}]
    return make_result(
        case=case,
        kernels=kernels,
        measurements=(make_measurement("latency_s", samples=(latency_s,)), *measurements),
        details={"profile": profile.to_json(), "conditions": conditions, **(details or {})},
        warnings=warnings,
        **fields,
    )


def eager_result(*kernels: Kernel, latency_us: float = 900.0, **fields: Any) -> CaseResult:
    """Return the eager result of the same model."""
    case = make_case(device="cuda", dtype="bf16", mode="eager")
    return gpu_result(*kernels, latency_us=latency_us, case=case, id="eager-1", **fields)


def findings_by_code(
    result: CaseResult,
    *,
    eager: CaseResult | None = None,
    siblings: Sequence[CaseResult] = (),
    previous: CaseResult | None = None,
) -> dict[str, Finding]:
    """Return the findings of `result` on a GPU with tensor cores, by code."""
    case = ResultEvidence(
        result=result, eager=eager, siblings=siblings, previous=previous, environment=HOPPER
    )
    return {finding.code: finding for finding in findings_of(case)}
