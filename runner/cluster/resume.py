"""The remaining cases of an interrupted plan on a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from compile_hud.db.queries.results import load_document
from compile_hud.db.queries.runs import load_heartbeats, load_runs_of_plan
from compile_hud.db.records.results import Case, RunDocument, RunState
from compile_hud.db.records.summaries import HEARTBEAT_TIMEOUT_S
from compile_hud.db.store import Store
from compile_hud.runner.cluster.machine_run import MachineRun
from compile_hud.runner.errors import ResumeError
from compile_hud.runner.execution.run_plan import ResolvedRun, RunContext, recorded_settings
from compile_hud.runner.planning.plan import PlannedCase, plan_case


def load_interrupted(store: Store, run_id: str) -> tuple[RunDocument, ...]:
    """Return the runs of a run's plan, by machine.

    Raises ResumeError if all of them are finished, and NotFoundError.
    """
    runs = load_runs_of_plan(store, load_document(store, run_id).run)
    if all(run.state is RunState.FINISHED for run in runs):
        raise ResumeError(f"run {run_id} is finished; there is nothing to resume", run=run_id)
    return tuple(load_document(store, run.id, has_kernels=True) for run in runs)


def check_is_silent(store: Store, run_id: str, *, now: datetime) -> None:
    """Raise ResumeError while the plan of a run is being measured, and NotFoundError."""
    runs = load_runs_of_plan(store, load_document(store, run_id).run)
    beats = load_heartbeats(store, [run.id for run in runs if run.state is RunState.RUNNING])
    last = max(beats.values(), default=None)
    if last is not None and last > now - timedelta(seconds=HEARTBEAT_TIMEOUT_S):
        raise ResumeError(
            f"run {run_id} is being measured: its last sign of life is of {last:%H:%M:%S} UTC."
            f" After {HEARTBEAT_TIMEOUT_S:.0f} s without one it can be resumed",
            run=run_id,
            last=last,
        )


def remaining_plan(
    earlier: Sequence[Sequence[RunDocument]], *, context: RunContext
) -> tuple[PlannedCase, ...]:
    """Return the cases that no machine has results of, except the reference cases.

    `earlier` are the runs of each machine; a case of several runs has a result in each of them.

    Raises UnknownNameError if hud.toml no longer has a model or a variant.
    """
    done: set[Case] = set()
    for documents in earlier:
        done |= set.intersection(
            *({result.case for result in document.results} for document in documents)
        )
    planned = dict.fromkeys(case for documents in earlier for case in documents[0].run.plan)
    return tuple(
        plan_case(case, catalog=context.catalog, variants=context.variants)
        for case in planned
        if case not in done and not case.is_reference
    )


def resumed_request(request: ResolvedRun, *, earlier: Sequence[RunDocument]) -> ResolvedRun:
    """Return `request` with the settings of the plan's start rather than those of hud.toml now."""
    run = earlier[0].run
    return replace(
        request,
        suite=run.suite,
        trigger=run.trigger,
        settings=recorded_settings(run, default=request.settings),
        has_references=any(case.is_reference for item in earlier for case in item.run.plan),
    )


def resumed_run(document: RunDocument, *, context: RunContext) -> MachineRun:
    """Return the run of one machine with its results and its missing reference cases."""
    done = {result.case for result in document.results}
    return MachineRun(
        document.run,
        references=[
            plan_case(case, catalog=context.catalog, variants=context.variants)
            for case in document.run.plan
            if case.is_reference and case not in done
        ],
        context=context,
        results=document.results,
    )
