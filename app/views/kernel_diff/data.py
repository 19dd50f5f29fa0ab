"""Read the kernels of two results and compare them."""

from __future__ import annotations

import dataclasses
import logging
import math
from typing import NamedTuple

from compile_hud.app.data.cache import cached_read
from compile_hud.app.data.commands import repro
from compile_hud.app.data.page_records import Loaded
from compile_hud.app.data.runs import find_each
from compile_hud.app.data.store import StoreVersion
from compile_hud.app.ui.urls import KernelDiffState
from compile_hud.app.views.kernel_diff.records import (
    AlertKernels,
    DiffPage,
    DiffRow,
    DiffSide,
    KernelSum,
)
from compile_hud.app.views.memory.data import memory_changes
from compile_hud.db.errors import RecordError
from compile_hud.db.queries.kernels import load_kernel_runs, load_profiled
from compile_hud.db.queries.results import load_result_summaries
from compile_hud.db.queries.runs import load_run
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.imported import is_backfilled, is_imported
from compile_hud.db.records.kernels import KernelRun, KernelSource
from compile_hud.db.records.results import Case, Outcome, Run, Verdict
from compile_hud.db.store import Store
from compile_hud.runner.analysis.comparison.environment_diff import environment_diff
from compile_hud.runner.analysis.kernels.change_classes import ChangeKind, KernelChange
from compile_hud.runner.analysis.kernels.diff import (
    SIGNIFICANT_DIGITS,
    KernelDiff,
    devices_text,
    diff_kernels,
    is_about_slower,
    kernel_bounds,
    kernel_side,
    share_text,
    top_rows,
)
from compile_hud.runner.analysis.kernels.grouping import KernelSide
from compile_hud.runner.analysis.kernels.rollup import Rollup

logger = logging.getLogger(__name__)

# The largest changes of each property; the rows have all of them.
_NUM_SUMS = 8

CLASSES = tuple(map(str, ChangeKind))


class _Read(NamedTuple):
    side: DiffSide
    kernels: KernelSide | None
    sources: tuple[KernelSource, ...]
    problem: str


def load_kernel_diff(state: KernelDiffState) -> Loaded[DiffPage]:
    """Return the changes between the kernels of the two results that `state` names.

    An empty run is the latest one, an empty case that of the other side. Raises NotFoundError when
    there is no such run.
    """
    case = state.baseline_case or state.candidate_case
    return _diff_page(
        state.baseline_run or "latest",
        case,
        state.candidate_run or "latest",
        state.candidate_case or case,
    )


def load_alert_kernels(alert: Alert) -> Loaded[AlertKernels | None]:
    """Return the kernels behind `alert`, None if a run of its bounds has none."""
    return _alert_kernels(alert.id, kernel_bounds(alert), is_slower=is_about_slower(alert))


@cached_read
def load_runs_of_kernels(at: StoreVersion, case_key: str) -> tuple[KernelRun, ...]:
    """Return the runs that have kernels of a case, the oldest first."""
    return load_kernel_runs(at.store, case_key)


@cached_read
def _alert_kernels(
    at: StoreVersion, alert_id: str, names: tuple[tuple[str, str], ...], *, is_slower: bool
) -> AlertKernels | None:
    try:
        results = load_profiled(at.store, names)
        if len(results) < 2:
            return None
        diff = diff_kernels(*(kernel_side(results[name]) for name in names))
    except RecordError as error:
        logger.warning("no kernels for alert %s: %s", alert_id, error)
        return None
    top = top_rows(diff, is_slower=is_slower)
    rows = [
        row
        for row, change in zip(_rows(diff), diff.rows, strict=True)
        if any(change is item for item in top)
    ]
    (good_run, case_key), (bad_run, _) = names
    state = KernelDiffState(baseline_run=good_run, baseline_case=case_key, candidate_run=bad_run)
    explained_s = math.fsum(row.contribution_s for row in rows)
    return AlertKernels(
        state=state,
        rows=tuple(rows),
        basis=diff.basis,
        change_s=diff.change_s,
        share_text=share_text(explained_s, change_s=diff.change_s, basis=diff.basis),
        noise=diff.noise_text,
    )


@cached_read
def _diff_page(
    at: StoreVersion,
    baseline_run: str,
    baseline_case: str,
    candidate_run: str,
    candidate_case: str,
) -> DiffPage:
    store = at.store
    names = (baseline_run, candidate_run)
    runs = find_each(names, find=lambda name: load_run(store, name), noun="run")
    before = _read_side(store, runs[baseline_run], baseline_case)
    after = _read_side(store, runs[candidate_run], candidate_case)
    page = DiffPage(
        baseline=before.side,
        candidate=after.side,
        environment=environment_diff(before.side.run, after=after.side.run),
        is_comparable=before.side.run.fingerprint == after.side.run.fingerprint,
        devices_text=devices_text(before.side.device, candidate=after.side.device),
        problem=" ".join(filter(None, (before.problem, after.problem))),
    )
    if before.kernels is None or after.kernels is None:
        return page
    diff = diff_kernels(before.kernels, after.kernels)
    return dataclasses.replace(
        page,
        basis=diff.basis,
        baseline_s=diff.baseline_s,
        candidate_s=diff.candidate_s,
        change_s=round(diff.change_s, SIGNIFICANT_DIGITS),
        unexplained_s=round(diff.unexplained_s, SIGNIFICANT_DIGITS),
        rows=_rows(diff),
        sources={source.hash: source for source in (*before.sources, *after.sources)},
        noise=diff.noise_text,
        unexplained_text=diff.unexplained_text,
        sums=_sums(diff.rollup),
        memory=memory_changes(diff.memory),
    )


def _read_side(store: Store, run: Run, case_key: str) -> _Read:
    case = next((case for case in run.plan if case.key == case_key), None)
    keys = [] if case is None else [(run.id, case_key)]
    result = load_profiled(store, keys).get((run.id, case_key))
    kernels, problem, missing, hint = None, "", "", ""
    if result is not None:
        try:
            kernels = kernel_side(result)
        except RecordError as error:
            problem = f"The kernels of {case_key} in run {run.id} cannot be compared: {error}."
    elif case_key:
        missing, hint = _without_kernels(store, run, case_key, case)
    side = DiffSide(
        run=run,
        case_key=case_key,
        case=case,
        num_kernels=None if result is None else sum(not it.is_dispatch for it in result.kernels),
        missing=missing,
        hint=hint,
    )
    return _Read(side, kernels, () if result is None else result.sources, problem)


def _without_kernels(store: Store, run: Run, case_key: str, case: Case | None) -> tuple[str, str]:
    """Return the reason why a result has no kernels, and the command that records them, "" for
    none.
    """
    missing = f"Run {run.id} has no kernels of {case_key}"
    if case is None:
        return f"{missing}: it is not in its plan.", ""
    if is_imported(run.toolchain) and not is_backfilled(run.toolchain):
        return f"{missing}: it was imported, and imported histories have numbers only.", ""
    if case.is_reference:
        return f"{missing}: it is a reference case, of which none are recorded.", ""
    results = load_result_summaries(store, run.id)
    outcome = next((item.outcome for item in results if item.case.key == case_key), None)
    why = "it was measured without recording them" if outcome is Outcome.OK else ""
    if not why:
        why = "it has no result yet" if outcome is None else f"it ended {outcome}"
    return f"{missing}: {why}.", repro(case, toolchain=run.toolchain)


def _rows(diff: KernelDiff) -> tuple[DiffRow, ...]:
    parts = {part.name: (part.baseline_s, part.candidate_s) for part in diff.parts}
    times = [parts.get(row.part) or _times(row) for row in diff.rows]
    return tuple(
        DiffRow(
            number=number,
            label=row.label,
            kind=str(row.kind),
            verdict=_verdict(row),
            contribution_s=row.contribution_s,
            text=row.text,
            matched_by=str(row.matched_by),
            baseline=row.baseline,
            candidate=row.candidate,
            before_s=before_s,
            after_s=after_s,
            count_s=row.count_s,
            time_s=row.time_s,
            is_part=bool(row.part),
        )
        for number, (row, (before_s, after_s)) in enumerate(
            zip(diff.rows, times, strict=True), start=1
        )
    )


def _sums(rollup: Rollup) -> tuple[KernelSum, ...]:
    properties = (
        ("kind", rollup.kinds),
        ("operator", rollup.operators),
        ("module", rollup.modules),
    )
    return tuple(
        KernelSum(
            property=name,
            name=part.name,
            label=part.label,
            baseline_s=part.baseline_s,
            candidate_s=part.candidate_s,
        )
        for name, parts in properties
        for part in [part for part in parts if part.is_changed][:_NUM_SUMS]
    )


def _times(row: KernelChange) -> tuple[float | None, float | None]:
    before, after = (
        math.fsum(kernel.total_s for kernel in side) if side else None
        for side in (row.baseline, row.candidate)
    )
    return before, after


def _verdict(row: KernelChange) -> Verdict:
    if row.part or not row.is_beyond_noise or not row.contribution_s:
        return Verdict.UNCHANGED
    return Verdict.REGRESSION if row.contribution_s > 0 else Verdict.IMPROVEMENT
