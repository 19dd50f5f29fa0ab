"""The comparison of two runs as a JSON object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from compile_hud.db.queries.model_sources import load_code_diffs
from compile_hud.db.queries.results import load_document
from compile_hud.db.records.results import Run
from compile_hud.db.shared.model_code import code_changes
from compile_hud.db.shared.model_sources import ModelCodeDiff
from compile_hud.db.store import Store
from compile_hud.runner.analysis.comparison.resolution import (
    launches_to_settle,
    noise_sources,
    resolutions,
)
from compile_hud.runner.analysis.comparison.runs import (
    CaseComparison,
    compare_results,
    environment_differences,
    has_failure,
    history_of,
)
from compile_hud.runner.analysis.judging.machine_state import MachineChange, compare_machine
from compile_hud.runner.analysis.memory_peak.diff import MemoryDiff
from compile_hud.runner.documents.memory import memory_diffs, memory_json
from compile_hud.runner.documents.stored_runs import find_run, recent_histories


def differences_json(
    rows: Sequence[CaseComparison],
    *,
    before: Run,
    after: Run,
    fail_above: float,
    diffs: Sequence[ModelCodeDiff] = (),
) -> dict[str, Any]:
    """Return the comparison as a JSON object."""
    return {
        "baseline": _side_json(before),
        "candidate": _side_json(after),
        "environment": [
            {"name": item.name, "baseline": item.baseline, "candidate": item.candidate}
            for item in environment_differences(before, candidate=after)
        ],
        "model_code_changes": [
            item.to_json()
            for item in diffs or code_changes(before, candidate=after, models=models_of(rows))
        ],
        "failed": has_failure(rows),
        "noise": {str(source): num for source, num in noise_sources(rows).items()},
        "resolution": [item.to_json() for item in resolutions(rows, fail_above=fail_above)],
        "rows": [row_json(row, fail_above=fail_above) for row in rows],
    }


def row_json(row: CaseComparison, *, fail_above: float) -> dict[str, Any]:
    """Return one metric of a comparison as a JSON object."""
    comparison = row.comparison
    return {
        "case": row.case.to_json(),
        "metric": row.metric,
        "unit": row.unit,
        "baseline": row.baseline,
        "candidate": row.candidate,
        "ratio": comparison.ratio,
        "machine_ratio": row.machine_ratio,
        "interval": None if comparison.low is None else [comparison.low, comparison.high],
        "verdict": str(comparison.verdict),
        "significant": comparison.is_significant,
        "relevant": comparison.is_relevant,
        "reason": comparison.reason,
        "decided_by": comparison.decided_by or None,
        **_estimate_json(row, fail_above=fail_above),
    }


def _estimate_json(row: CaseComparison, *, fail_above: float) -> dict[str, Any]:
    """Return the error of a change; None for counts and identical samples."""
    comparison = row.comparison
    change = comparison.change
    return {
        "p_value": None if change is None else change.p_value,
        "q_value": comparison.q_value,
        "noise": None if comparison.noise is None else str(comparison.noise),
        "could_have_seen_pct": None if change is None else 100 * change.resolution(),
        "launches_to_settle": launches_to_settle(row, fail_above=fail_above),
    }


def models_of(rows: Iterable[CaseComparison]) -> set[str]:
    """Return the names of the models of `rows`."""
    return {row.case.model for row in rows}


def _side_json(run: Run) -> dict[str, Any]:
    return {
        "run_id": run.id,
        "revision": run.revision,
        "machine": run.machine,
        "toolchain": run.toolchain,
    }


def stored_comparison(
    store: Store, baseline: str, candidate: str, *, fail_above: float
) -> dict[str, Any]:
    """Return the comparison of two stored runs that `find_run` finds; raise NotFoundError."""
    before, after = (
        load_document(store, find_run(name, store=store).id) for name in (baseline, candidate)
    )
    histories = recent_histories(after.run, store=store)
    rows = compare_results(before, after, fail_above=fail_above, histories=histories)
    machine = compare_machine(
        before.results,
        candidate=after.results,
        history=history_of(before, after, histories=histories),
    )
    diffs = load_code_diffs(lambda: store, before.run, candidate=after.run, models=models_of(rows))
    content = differences_json(
        rows, before=before.run, after=after.run, fail_above=fail_above, diffs=diffs
    )
    memory = memory_diffs(rows, baseline=before, candidate=after)
    return with_causes(content, memory=memory, machine=machine)


def with_causes(
    content: Mapping[str, Any],
    *,
    memory: Mapping[str, MemoryDiff],
    machine: Sequence[MachineChange],
) -> dict[str, Any]:
    """Return a comparison with the memory at the peak and the speed of the machine."""
    return {
        **content,
        "memory": memory_json(memory),
        "machine": [item.to_json() for item in machine],
    }
