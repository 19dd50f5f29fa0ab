"""Two commits of a repository, each case launched from both in turn until it is decided.

Both have one worker host, since the launches of two hosts differ by more than those of one. Nothing
is stored as a run: what a branch measures is no part of a history.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from compile_hud.db.records.results import Run, RunDocument, RunState
from compile_hud.db.shared.model_code import (
    MODEL_COMMITS,
    ModelCodeChange,
    code_changes,
)
from compile_hud.runner.analysis.comparison.runs import CaseComparison
from compile_hud.runner.analysis.kernels.diff import KernelDiff
from compile_hud.runner.bisect.kernel_evidence import kernel_diff
from compile_hud.runner.bisect.revisions import checkout_order, model_revision
from compile_hud.runner.bisect.worktrees import NamedCommit, Worktrees
from compile_hud.runner.errors import RunInterrupted
from compile_hud.runner.events import LogMessage, Notify
from compile_hud.runner.execution.environment import fingerprint
from compile_hud.runner.execution.executor import CaseOrder, Executor
from compile_hud.runner.execution.paired_launches import (
    PairLimits,
    PairResult,
    PairSide,
    TimedPair,
    measure_timed_pair,
)
from compile_hud.runner.planning.plan import PlannedCase
from compile_hud.runner.protocol.messages import MeasureSettings, TracePolicy
from compile_hud.runner.system.interrupts import Interrupts
from compile_hud.runner.system.locks import device_lock

SUITE = "commits"
# The first launch compiles cold and the others warm: the third of a run, which loads saved
# artifacts, costs a compilation and would only shorten the time for launches that decide.
_NUM_LAUNCHES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """The cases to measure, with toolchain, settings, and the seconds of a case."""

    plan: tuple[PlannedCase, ...]
    repository: Path
    toolchain: str
    machine: str
    settings: MeasureSettings
    limits: PairLimits
    case_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitDependencies:
    """The collaborators of the comparison that tests replace."""

    executor: Executor
    worktrees: Worktrees
    lock_dir: Path
    now: Callable[[], datetime]
    notify: Notify


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseChange:
    """The difference of the commits in one case, after `num_pairs` pairs of launches in `took_s`.

    `kernels` is None if a side has none, `code` if the code of the model is the same.
    """

    pair: PairResult
    num_pairs: int
    took_s: float
    kernels: KernelDiff | None
    code: ModelCodeChange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitComparison:
    """Both commits as documents of runs, and a change for each case."""

    baseline: RunDocument
    candidate: RunDocument
    changes: tuple[CaseChange, ...]

    @property
    def rows(self) -> list[CaseComparison]:
        """Return the rows of all cases."""
        return [row for change in self.changes for row in change.pair.rows]


def compare_commits(
    request: CommitRequest,
    *,
    baseline: NamedCommit,
    candidate: NamedCommit,
    dependencies: CommitDependencies,
) -> CommitComparison:
    """Compare `candidate` with `baseline` in each case of `request`.

    Waits for the lock of the device. Raises BisectError where a commit cannot be checked out,
    ExecutorError without a worker host, and RunInterrupted when it was stopped.
    """
    executor, worktrees = dependencies.executor, dependencies.worktrees
    commits = (baseline, candidate)
    device = request.plan[0].case.device
    started_at = dependencies.now()
    # A killed process may have left an incomplete checkout.
    worktrees.keep_only(())
    with (
        Interrupts() as interrupts,
        device_lock(device, lock_dir=dependencies.lock_dir, notify=dependencies.notify),
    ):
        try:
            folders = [worktrees.open(commit.revision.name) for commit in commits]
            models = [
                _model_revisions(request, commit=commit, folder=folder)
                for commit, folder in zip(commits, folders, strict=True)
            ]
            facts = executor.open()
            with interrupts.deferred(executor.cancel):
                changes = tuple(
                    _compare_case(
                        planned,
                        folders=folders,
                        request=request,
                        dependencies=dependencies,
                        is_stopped=interrupts.were_requested,
                    )
                    for planned in request.plan
                )
        finally:
            executor.close()
            worktrees.keep_only(())
    runs = [
        _run(
            commit,
            request=request,
            facts={**facts, MODEL_COMMITS: revisions},
            at=started_at,
            finished_at=dependencies.now(),
        )
        for commit, revisions in zip(commits, models, strict=True)
    ]
    return _comparison(runs, changes=changes)


def _comparison(runs: Sequence[Run], *, changes: Sequence[CaseChange]) -> CommitComparison:
    """Return the comparison, each change with that of its model's code."""
    baseline, candidate = runs
    models = {case.model for case in candidate.plan}
    codes = {
        item.model: item for item in code_changes(baseline, candidate=candidate, models=models)
    }
    changes = tuple(
        replace(change, code=codes.get(change.pair.baseline.case.model)) for change in changes
    )
    before = tuple(change.pair.baseline for change in changes)
    after = tuple(change.pair.candidate for change in changes)
    return CommitComparison(
        baseline=RunDocument(run=baseline, results=before),
        candidate=RunDocument(run=candidate, results=after),
        changes=changes,
    )


def _order(planned: PlannedCase, *, request: CommitRequest) -> CaseOrder:
    return CaseOrder(
        run_id=uuid.uuid4().hex[:12],
        case=planned.case,
        workload=planned.workload,
        settings=pair_settings(request.settings, case_s=request.case_s),
    )


def _model_revisions(
    request: CommitRequest, *, commit: NamedCommit, folder: Path
) -> dict[str, str]:
    """Return the revision of the code of each model in the checkout of `commit`, by model."""
    working_tree = commit.revision.name if commit.is_working_tree else ""
    revisions = {}
    for planned in {planned.case.model: planned for planned in request.plan}.values():
        order = checkout_order(
            _order(planned, request=request), repository=request.repository, folder=folder
        )
        revisions[planned.case.model] = model_revision(order, working_tree=working_tree)
    return {name: text for name, text in revisions.items() if text}


def _compare_case(
    planned: PlannedCase,
    *,
    folders: Sequence[Path],
    request: CommitRequest,
    dependencies: CommitDependencies,
    is_stopped: Callable[[], bool],
) -> CaseChange:
    dependencies.notify(LogMessage(text=f"measuring {planned.case.key}"))
    order = _order(planned, request=request)
    sides = [
        PairSide(
            executor=dependencies.executor,
            order=checkout_order(order, repository=request.repository, folder=folder),
        )
        for folder in folders
    ]
    timed = measure_timed_pair(
        sides,
        limits=replace(request.limits, num_cases=len(request.plan)),
        limit_s=request.case_s,
        now=dependencies.now,
        notify=dependencies.notify,
    )
    # The results of a killed launch mean nothing.
    if is_stopped():
        raise RunInterrupted("stopped; nothing of the comparison is kept")
    return case_change(timed)


def case_change(timed: TimedPair) -> CaseChange:
    """Return the change of a case with that of its kernels."""
    return CaseChange(
        pair=timed.pair,
        num_pairs=timed.num_pairs,
        took_s=timed.took_s,
        kernels=kernel_diff(timed.pair),
    )


def pair_settings(settings: MeasureSettings, *, case_s: float) -> MeasureSettings:
    """Return `settings` without what takes time and decides nothing between two commits."""
    return replace(
        settings,
        num_launches=_NUM_LAUNCHES,
        max_launches=_NUM_LAUNCHES,
        sweep=False,
        energy=False,
        memory_snapshot=False,
        compile_trace=TracePolicy.NEVER.value,
        # The limit of the comparison ends a case, and not its own limit in the middle of a launch.
        timeout_s=max(settings.timeout_s, 2 * case_s),
    )


def _run(
    commit: NamedCommit,
    *,
    request: CommitRequest,
    facts: Mapping[str, Any],
    at: datetime,
    finished_at: datetime,
) -> Run:
    environment = {**facts, "num_threads": request.settings.num_threads}
    return Run(
        id=uuid.uuid4().hex[:12],
        started_at=at,
        finished_at=finished_at,
        state=RunState.FINISHED,
        suite=SUITE,
        toolchain=request.toolchain,
        revision=commit.label,
        machine=request.machine,
        environment=environment,
        fingerprint=fingerprint(environment),
        plan=tuple(planned.case for planned in request.plan),
        trigger=SUITE,
    )
