"""The two builds of `hud kernels transplant`: of an alert, of two runs, or as `hud bisect` names
them.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.imported import is_imported
from compile_hud.db.records.results import Case, CaseResult, Run
from compile_hud.db.store import Store
from compile_hud.runner.analysis.comparison.cpu_clocks import CPU, WALL
from compile_hud.runner.analysis.kernels.diff import kernel_bounds, side_of
from compile_hud.runner.analysis.kernels.grouping import GENERATED
from compile_hud.runner.analysis.stats.estimates import Estimate
from compile_hud.runner.bisect.commit_comparison import pair_settings
from compile_hud.runner.bisect.record import Limits
from compile_hud.runner.cli.bisect.setup import BisectOptions, begin, case_executor, open_revisions
from compile_hud.runner.cli.kernels.commands import find_kernels
from compile_hud.runner.cli.options import CaseOptions
from compile_hud.runner.errors import BisectError
from compile_hud.runner.events import LogMessage, Notify
from compile_hud.runner.execution.environment import compares, revision
from compile_hud.runner.execution.executor import CaseOrder, Executor
from compile_hud.runner.execution.paired_launches import PairSide
from compile_hud.runner.planning.plan import plan_case
from compile_hud.runner.transplant.experiment import KnownBuild
from compile_hud.runner.workspace import Workspace

# Metrics whose change, as a share, is that of the time.
_TIMES = (WALL, CPU, "kernel_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Builds:
    """Two builds of one case, ready to be launched, and their names.

    `known_code` are the hashes of the bad build's stored kernels, empty without any.
    """

    good: PairSide | KnownBuild
    bad: PairSide
    good_name: str
    bad_name: str
    known_code: frozenset[str] = frozenset()
    cancel: Any = lambda: None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSide:
    """A stored run, and its result of the case with its kernels."""

    run: Run
    result: CaseResult


def runs_of_alert(alert: Alert) -> tuple[str, str, str]:
    """Return the run of the last good and of the first bad result, and the case.

    Raises BisectError for an alert that kernels do not explain.
    """
    bounds = kernel_bounds(alert)
    if not bounds:
        raise BisectError(
            f"alert {alert.id[:12]} is about {alert.metric} and has"
            f" {'a' if alert.last_good else 'no'} last good run: only an alert about the time of"
            " an iteration, with both ends, has kernels to transplant",
            alert=alert.id,
        )
    (good, case), (bad, _) = bounds
    return good, bad, case


@contextmanager
def stored_builds(
    runs: tuple[str, str, str],
    *,
    alert: Alert | None,
    store: Store,
    workspace: Workspace,
    case_s: float,
    notify: Notify,
) -> Iterator[Builds]:
    """Yield the builds of two stored runs.

    The bad one is compiled again by its toolchain. The good one is too, if its toolchain is another
    one that is still of its revision; else its stored code and the stored loss are used.
    Raises BisectError for one run twice, and if the bad build is not there any more.
    """
    good, bad = (_stored(name, runs[2], store=store) for name in runs[:2])
    if good.run.id == bad.run.id:
        raise BisectError(
            f"name two different runs: {runs[0]} and {runs[1]} are both run {good.run.id}",
            run=good.run.id,
        )
    with ExitStack() as stack:
        order = _order(bad.result.case, workspace=workspace, case_s=case_s)
        executor, facts = _open(bad, order, workspace, stack)
        if revision(facts) != bad.run.revision:
            raise BisectError(
                f"toolchain {bad.run.toolchain} is {revision(facts)} now, and run {bad.run.id} was"
                f" of {bad.run.revision}: build that one, and name both with --toolchain",
                toolchain=bad.run.toolchain,
            )
        other = _measurable(good, bad, order, workspace, stack)

        def cancel() -> None:
            for item in (executor, other):
                if item is not None:
                    item.cancel()

        if other is None:
            _check_machine(bad, facts=facts)
            notify(LogMessage(text="the good build is only stored: its code and its time count"))
        yield Builds(
            good=PairSide(executor=other, order=order)
            if other is not None
            else KnownBuild(
                kernels=side_of(good.result), loss=_known_loss(good, bad=bad, alert=alert)
            ),
            bad=PairSide(executor=executor, order=order),
            good_name=f"run {good.run.id}",
            bad_name=f"run {bad.run.id}",
            known_code=frozenset(
                kernel.source_hash for kernel in bad.result.kernels if kernel.library in GENERATED
            ),
            cancel=cancel,
        )


@contextmanager
def named_builds(
    options: BisectOptions,
    *,
    cases: CaseOptions,
    limits: Limits,
    workspace: Workspace,
    folder: Path,
    notify: Notify,
) -> Iterator[Builds]:
    """Yield the first and the last of the revisions that `options` name, as `hud bisect` does."""
    known = begin(options, cases=cases, metric=None, limits=limits, workspace=workspace)
    settings = pair_settings(known.settings, case_s=limits.step_s)
    known = replace(known, settings=settings)
    last = len(known.revisions) - 1
    if options.repository is None and last != 1:
        raise click.UsageError("name two revisions: the good one, then the bad one")
    revisions = open_revisions(known, workspace=workspace, folder=folder, notify=notify)
    try:
        yield Builds(
            good=revisions.side(0),
            bad=revisions.side(last),
            good_name=known.revisions[0].name,
            bad_name=known.revisions[last].name,
            cancel=revisions.cancel,
        )
    finally:
        revisions.close()


def _stored(run_name: str, case_name: str, *, store: Store) -> StoredSide:
    run, result = find_kernels(run_name, case_name, store=store)
    return StoredSide(run=run, result=result)


def _check_machine(bad: StoredSide, *, facts: Mapping[str, Any]) -> None:
    """Raise BisectError unless times of this machine compare with those of the run."""
    if not compares(facts, bad.run):
        raise BisectError(
            f"this machine does not compare with that of run {bad.run.id}, and the good build is"
            " only known from it: measure on the machine of the runs",
            run=bad.run.id,
        )


def _order(case: Case, *, workspace: Workspace, case_s: float) -> CaseOrder:
    config = workspace.config
    planned = plan_case(case, catalog=config.catalog, variants=config.variants)
    return CaseOrder(
        run_id=uuid.uuid4().hex[:12],
        case=planned.case,
        workload=planned.workload,
        settings=pair_settings(config.measure, case_s=case_s),
    )


def _open(
    stored: StoredSide, order: CaseOrder, workspace: Workspace, stack: ExitStack
) -> tuple[Executor, Any]:
    """Return an executor of the toolchain of a run, and its facts; raise BisectError."""
    name, config = stored.run.toolchain, workspace.config
    if is_imported(name) or name not in config.toolchains:
        raise BisectError(
            f"run {stored.run.id} was measured with toolchain {name}, which is not here; name both"
            " builds with --toolchain",
            toolchain=name,
        )
    executor = case_executor(config.toolchains[name], order, workspace=workspace)
    stack.callback(executor.close)
    return executor, {**executor.open(), "num_threads": order.settings.num_threads}


def _measurable(
    good: StoredSide, bad: StoredSide, order: CaseOrder, workspace: Workspace, stack: ExitStack
) -> Executor | None:
    """Return the good toolchain if it is another one, still of its revision, else None."""
    name = good.run.toolchain
    if name == bad.run.toolchain or is_imported(name) or name not in workspace.config.toolchains:
        return None
    executor, facts = _open(good, order, workspace, stack)
    return executor if revision(facts) == good.run.revision else None


def _known_loss(good: StoredSide, *, bad: StoredSide, alert: Alert | None) -> Estimate:
    """Return the time of the bad result over that of the good one, with its interval."""
    if alert is not None and alert.metric in _TIMES and alert.change_pct is not None:
        bounds = alert.interval_pct or (alert.change_pct, alert.change_pct)
        low, high = (1 + bound / 100 for bound in bounds)
        return Estimate(1 + alert.change_pct / 100, low, high)
    for metric in (CPU, WALL):
        before, after = good.result.measurement(metric), bad.result.measurement(metric)
        if before is None or after is None:
            continue
        halves = [
            math.log(item.interval[1] / item.interval[0]) / 2 if item.interval[0] > 0 else math.inf
            for item in (before, after)
        ]
        ratio, margin = after.median / before.median, math.hypot(*halves)
        return Estimate(ratio, ratio * math.exp(-margin), ratio * math.exp(margin))
    raise BisectError(
        f"runs {good.run.id} and {bad.run.id} have no time of {bad.result.case.key} in common",
        case=bad.result.case.key,
    )
