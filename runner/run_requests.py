"""Execute a requested run with the settings in force."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from compile_hud.db.jobs.live_log import find_live_log
from compile_hud.db.queries.results import load_document
from compile_hud.db.records.results import RunDocument
from compile_hud.runner.config.load import CURRENT_TOOLCHAIN, Config
from compile_hud.runner.errors import ToolchainUnusable
from compile_hud.runner.events import LogMessage, Notify
from compile_hud.runner.execution.ahead.cores import default_num_processes
from compile_hud.runner.execution.case_worth import load_costs, load_durations, load_worth
from compile_hud.runner.execution.local_executor import executor_maker
from compile_hud.runner.execution.paired_launches import (
    MeasureCase,
    MeasureCases,
    launch_interleaved,
)
from compile_hud.runner.execution.run_plan import ResolvedRun, RunContext, RunServices, run_plans
from compile_hud.runner.persistence.compile_traces import FOLDER as COMPILE_TRACES
from compile_hud.runner.persistence.result_writer import ResultWriter
from compile_hud.runner.persistence.retention import RetentionRules, clean_up
from compile_hud.runner.persistence.store_check import check_takes_runs
from compile_hud.runner.planning.plan import find_names
from compile_hud.runner.planning.suites import Suite
from compile_hud.runner.system.gpus import users_of
from compile_hud.runner.workspace import Workspace

AUTO_DEVICE = "auto"
# The end of the message about a locked store before a run.
_MEASURING_THEN = ". Then it is measured all the same: the spool keeps the results"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """A run that a person, a schedule or a job requests; the suite replaces fields of None.

    On a cluster only `machine` measures; None means every node.
    """

    suite: Suite
    toolchain: str = CURRENT_TOOLCHAIN
    device: str = AUTO_DEVICE
    trigger: str = "manual"
    resume_id: str | None = None
    has_references: bool = True
    machine: str | None = None


def execute_request(request: RunRequest, *, workspace: Workspace, notify: Notify) -> RunDocument:
    """Execute `request` and return its run; see `execute_together`."""
    (document,) = execute_together([request], workspace=workspace, notify=notify)
    return document


def execute_together(
    requests: Sequence[RunRequest],
    *,
    workspace: Workspace,
    notify: Notify,
    measure_case: MeasureCase = launch_interleaved,
    measure_cases: MeasureCases | None = None,
) -> list[RunDocument]:
    """Execute `requests`, which differ only in their toolchain; each case runs under all in turn.

    Returns their runs, on the requested or the available device. `measure_cases` is as in
    `run_plans`. Raises the errors of `run_plans` and `make_run_context`, and UnknownNameError for a
    toolchain.
    """
    for request in requests:
        find_names([request.toolchain], known=workspace.config.toolchains, kind="toolchain")

    def execute(device: str) -> list[RunDocument]:
        documents = run_plans(
            [resolve_run(request, device=device, config=workspace.config) for request in requests],
            context=make_run_context(requests, device=device, workspace=workspace, notify=notify),
            measure_case=measure_case,
            measure_cases=measure_cases,
        )
        clean_up_after_run(workspace, notify=notify)
        return documents

    device = requests[0].device
    if device != AUTO_DEVICE:
        return execute(device)
    if not workspace.dependencies.has_gpu():
        return execute("cpu")
    try:
        return execute("cuda")
    except ToolchainUnusable as error:
        text = f"{error}. Measuring on the CPU instead; `--device cuda` would insist on the GPU"
        notify(LogMessage(text=text, is_warning=True))
        return execute("cpu")


def clean_up_after_run(workspace: Workspace, *, notify: Notify) -> None:
    """Remove data past its retention; an error is only reported."""
    clean_up(
        workspace.spool(),
        store=workspace.store() if workspace.has_store else None,
        rules=retention_rules(workspace.config),
        now=workspace.dependencies.now,
        notify=notify,
    )


def retention_rules(config: Config) -> RetentionRules:
    """Return the retention rules of the settings."""
    return RetentionRules(
        traces_dir=config.traces_dir,
        compile_traces_dir=config.state_dir / COMPILE_TRACES,
        traces=config.trace_rules,
        sample_nights=config.sample_nights,
        outbox_days=config.outbox_days,
    )


def resolve_run(request: RunRequest, *, device: str, config: Config) -> ResolvedRun:
    """Return `request` with the settings in force, on `device`."""
    suite, measure = request.suite, config.measure
    return ResolvedRun(
        suite=suite.name,
        selection=suite.selection,
        toolchain=request.toolchain,
        device=device,
        settings=suite.settings(measure),
        machine=config.machine,
        has_references=request.has_references and config.has_references,
        time_budget_s=suite.time_budget_s,
        wait_idle_s=config.wait_idle_s,
        compile_ahead=default_num_processes(device)
        if config.compile_ahead is None
        else config.compile_ahead,
        trigger=request.trigger,
        resume_id=request.resume_id,
    )


def make_run_context(
    requests: Sequence[RunRequest], *, device: str, workspace: Workspace, notify: Notify
) -> RunContext:
    """Return the context of the runs of `requests`; raise the errors of `check_takes_runs`."""
    config, dependencies = workspace.config, workspace.dependencies
    store = workspace.store() if workspace.has_store else None
    spool = workspace.spool() if workspace.has_store else None
    writer = ResultWriter(store, spool=spool, notify=notify, now=dependencies.now)
    if store is not None:
        locked = check_takes_runs(workspace.store(afterwards=_MEASURING_THEN))
        if locked is not None:
            writer.back_off(locked)
    make_executor = executor_maker(dependencies.make_executor)
    return RunContext(
        # Each request has its own executor, even under one interpreter: two hosts differ as two
        # runs do.
        executors=tuple(
            make_executor(
                python=config.toolchains[request.toolchain],
                state_dir=config.state_dir,
                device=device,
                num_threads=config.measure.num_threads,
            )
            for request in requests
        ),
        writer=writer,
        catalog=config.catalog,
        variants=config.variants,
        lock_dir=workspace.lock_dir(),
        notify=notify,
        services=RunServices(
            load_document=partial(load_document, workspace.store(), has_kernels=True),
            worth=partial(load_worth, catalog=config.catalog, writer=writer, notify=notify),
            compile_seconds=partial(load_costs, writer=writer),
            durations=partial(load_durations, writer=writer),
            device_users=partial(users_of, machine=dependencies.machine, env=dependencies.env),
            live_log=partial(find_live_log, config.state_dir),
            sleep=dependencies.sleep,
            now=dependencies.now,
        ),
    )
