"""The kernels of a result as a JSON object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compile_hud.db.records.imported import is_imported
from compile_hud.db.records.kernels import Kernel, Profile, profile_of
from compile_hud.db.records.results import CaseResult, Outcome, Run
from compile_hud.runner.analysis.repro import repro_command


def longest_first(kernels: Sequence[Kernel]) -> list[Kernel]:
    """Return `kernels`, the longest total time first."""
    return sorted(kernels, key=lambda kernel: kernel.total_s, reverse=True)


def kernels_json(run: Run, result: CaseResult) -> dict[str, Any]:
    """Return the kernels of a result, the longest first, with the parts of an iteration."""
    profile = profile_of(result.details)
    return {
        "run_id": run.id,
        "result_id": result.id,
        "case": result.case.to_json(),
        "profile": None if profile is None else profile_json(profile),
        "kernels": [kernel_json(kernel) for kernel in longest_first(result.kernels)],
        "warnings": [warning.to_json() for warning in result.warnings],
    }


def kernel_json(kernel: Kernel) -> dict[str, Any]:
    """Return one kernel with its rates."""
    return {
        **kernel.to_json(),
        "bytes_per_s": kernel.bytes_per_s,
        "flops_per_s": kernel.flops_per_s,
    }


def profile_json(profile: Profile) -> dict[str, Any]:
    """Return the parts of an iteration, also as they are without the profiler."""
    return {
        **profile.to_json(),
        "parts_without_profiler": dict(profile.components_without_profiler),
        "busy_without_profiler": profile.busy_without_profiler,
        "remainder_s": profile.remainder_s,
    }


def no_kernels_text(result: CaseResult, *, run: Run) -> str:
    """Return the reason why a result has no kernels, and the command that records them."""
    missing = f"run {run.id} has no kernels of {result.case.key}"
    if is_imported(run.toolchain):
        return f"{missing}: it was imported, and numbers alone come with a history"
    if result.case.is_reference:
        return f"{missing}: it is a reference case, of which none are recorded"
    is_ok = result.outcome is Outcome.OK
    why = "it was measured without recording them" if is_ok else f"it ended {result.outcome}"
    command = repro_command(result.case, toolchain=run.toolchain)
    return f"{missing}: {why}. With [run] kernels = true, the default, `{command}` records them"
