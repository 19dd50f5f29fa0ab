"""The diff of the kernels of two results as a JSON object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from compile_hud.db.errors import NotFoundError, RecordError
from compile_hud.db.records.results import CaseResult, Run
from compile_hud.db.store import Store
from compile_hud.runner.analysis.kernels.diff import (
    KernelDiff,
    devices_text,
    diff_kernels,
    side_of,
)
from compile_hud.runner.analysis.kernels.grouping import KernelSide
from compile_hud.runner.documents.results import load_kernels


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSide:
    """A side of a diff; `title` is its description as a line, `facts` the same as JSON.

    `device` is the name of the GPU or the CPU, "" if unknown.
    """

    side: KernelSide
    title: str
    facts: dict[str, Any]
    device: str = ""


def named_side(run: Run, result: CaseResult, *, name: str) -> NamedSide:
    """Return the side of a result; `name` is that of its run. Raises NotFoundError."""
    try:
        side = side_of(result)
    except RecordError as error:
        raise NotFoundError(
            f"the profile of {result.case.key} in {name} is damaged: {error}",
            case=result.case.key,
            name=name,
            reason=str(error),
        ) from error
    name_of_device = run.environment.get("device_name")
    device = name_of_device if isinstance(name_of_device, str) else ""
    return NamedSide(
        side=side,
        title=with_device(f"{run.id}  {run.revision}  {result.case.key}", device),
        device=device,
        facts={
            "device": device or None,
            "run_id": run.id,
            "result_id": result.id,
            "revision": run.revision,
            "case": result.case.to_json(),
        },
    )


def with_device(title: str, device: str) -> str:
    """Return the title of a side with its device, if that is known."""
    return f"{title}  on {device}" if device else title


def kernel_diff_json(
    diff: KernelDiff, *, baseline: NamedSide, candidate: NamedSide
) -> dict[str, Any]:
    """Return the diff with both of its sides as a JSON object."""
    return {
        **diff.to_json(),
        "devices": devices_text(baseline.device, candidate=candidate.device),
        "baseline": baseline.facts,
        "candidate": candidate.facts,
    }


def stored_kernel_diff(
    store: Store, *, baseline: tuple[str, str], candidate: tuple[str, str]
) -> dict[str, Any]:
    """Return the diff of two stored results; a side is the name of a run and that of a case."""
    before, after = (
        named_side(*load_kernels(store, run, case), name=run) for run, case in (baseline, candidate)
    )
    diff = diff_kernels(before.side, after.side)
    return kernel_diff_json(diff, baseline=before, candidate=after)
