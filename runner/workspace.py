"""Put a run together from the settings in force."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Protocol

from compile_hud.db.alerts.outbox_maintenance import find_old_notifications, forget_notifications
from compile_hud.db.errors import StoreError, StoreLocked, StoreTooNew, StoreUnavailable
from compile_hud.db.jobs.live_log import find_live_log
from compile_hud.db.maintenance.compaction import arrange_measurements
from compile_hud.db.maintenance.retention import find_old_samples, remove_samples
from compile_hud.db.queries.results import load_alerts, load_document
from compile_hud.db.queries.runs import load_last_measured
from compile_hud.db.records.alerts import AlertState
from compile_hud.db.records.results import Case, Run, RunDocument, Verdict
from compile_hud.db.shared.text import counted
from compile_hud.db.store import Store
from compile_hud.runner.analysis.outcomes.outcomes import CUSTOM_SUITE
from compile_hud.runner.config.load import CURRENT_TOOLCHAIN, Config
from compile_hud.runner.errors import ToolchainUnusable
from compile_hud.runner.events import LogMessage, Notify
from compile_hud.runner.execution.executor import Executor
from compile_hud.runner.execution.local_executor import LocalExecutor
from compile_hud.runner.execution.paired_launches import MeasureCase, launch_in_turn
from compile_hud.runner.execution.run_plan import ResolvedRun, RunContext, run_plans
from compile_hud.runner.persistence.result_writer import ResultWriter
from compile_hud.runner.persistence.spool import Spool, utc_now
from compile_hud.runner.persistence.trace_retention import prune_traces
from compile_hud.runner.persistence.trace_store import TraceFolder
from compile_hud.runner.planning.plan import find_names
from compile_hud.runner.planning.suites import Selection, Suite
from compile_hud.runner.planning.time_budget import Worth
from compile_hud.runner.system.gpus import users_of
from compile_hud.runner.system.locks import machine_lock_dir
from compile_hud.runner.system.machine import LocalMachine, Machine
from compile_hud.runner.toolchains.registry import Probe, probe

# The name that errors on the command line begin with.
logger = logging.getLogger("hud")

AUTO_DEVICE = "auto"
# What follows the waiting for a locked store before a run.
_MEASURING_THEN = ". Then it is measured all the same: the spool keeps the results"
# The node that NVIDIA's driver makes; asking torch would take seconds, and it may be another torch.
_GPU_NODE = Path("/dev/nvidiactl")


class MakeExecutor(Protocol):
    """How an executor is made."""

    def __call__(
        self, *, python: Path, state_dir: Path, device: str, num_threads: int = 1
    ) -> Executor:
        """Return an executor for cases on `device` under the interpreter `python`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """Where the product meets the outside; tests replace them."""

    make_executor: MakeExecutor = LocalExecutor
    now: Callable[[], datetime] = utc_now
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)
    has_gpu: Callable[[], bool] = _GPU_NODE.exists
    probe: Callable[[Path], Probe] = probe
    machine: Machine = field(default_factory=LocalMachine)
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """A run as somebody asks for it; what is None is as the suite says.

    Of a cluster `machine` alone measures; None: whoever is there.
    """

    suite: Suite
    toolchain: str = CURRENT_TOOLCHAIN
    device: str = AUTO_DEVICE
    trigger: str = "manual"
    resume_id: str | None = None
    has_references: bool = True
    machine: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """The settings in force, the store they name and the dependencies.

    `elsewhere` makes executors on the machine that a run is of; None: all runs are of this one.
    """

    config: Config
    dependencies: Dependencies
    has_store: bool = True
    elsewhere: Callable[[Run], MakeExecutor] | None = None

    def store(self, *, afterwards: str = "") -> Store:
        """Return the store; raise StoreUnavailable when its URL is none.

        `afterwards` is told beside a long wait for it: what happens where that is in vain.
        """

        # Else half a minute of silence looks as if the program hung.
        def tell(text: str) -> None:
            logger.warning("%s%s", text, afterwards)

        return Store(self.config.store_url, now=self.dependencies.now, on_wait=tell)

    def spool(self) -> Spool:
        """Return the spool."""
        folder = self.config.state_dir / "spool"
        return Spool(folder, now=self.dependencies.now, traces=self.traces())

    def traces(self) -> TraceFolder:
        """Return the folder of kept traces."""
        return TraceFolder(self.config.traces_dir)

    def lock_dir(self) -> Path:
        """Return the directory of the locks that every run on this machine shares."""
        return machine_lock_dir(self.dependencies.env)


def custom_suite(selection: Selection) -> Suite:
    """Return a suite for a selection that has no name."""
    return Suite(name=CUSTOM_SUITE, summary="Selected by hand.", selection=selection)


def execute_request(request: RunRequest, *, workspace: Workspace, notify: Notify) -> RunDocument:
    """Execute one request, as `execute_together` does several, and return its run."""
    (document,) = execute_together([request], workspace=workspace, notify=notify)
    return document


def execute_together(
    requests: Sequence[RunRequest],
    *,
    workspace: Workspace,
    notify: Notify,
    measure_case: MeasureCase = launch_in_turn,
) -> list[RunDocument]:
    """Execute `requests`, which differ in their toolchain alone, each case under all in turn.

    Returns their runs, on the device that they name or on the one there is. Raises what `run_plans`
    raises, what `make_run_context` does, and UnknownNameError for a toolchain.
    """
    for request in requests:
        find_names([request.toolchain], known=workspace.config.toolchains, kind="toolchain")

    def execute(device: str) -> list[RunDocument]:
        documents = run_plans(
            [resolve_run(request, device=device, config=workspace.config) for request in requests],
            context=make_run_context(requests, device=device, workspace=workspace, notify=notify),
            measure_case=measure_case,
        )
        clean_up(workspace, notify=notify)
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


def clean_up(workspace: Workspace, *, notify: Notify) -> None:
    """Remove what the settings do not keep, after a run; what cannot be removed is only said.

    Where results wait for the store, it took nothing a moment ago, and is hardly waited for: what
    is locked is left to the next run. Where its disk is full, this makes room.
    """
    spool = workspace.spool()
    is_refused = bool(spool.pending())
    told: list[str] = []
    try:
        spool.remove_unclaimed_traces()
        if workspace.has_store:
            store = workspace.store()
            store = store.in_a_hurry() if is_refused else store
            told = prune(workspace, store=store)
            arrange_measurements(store)
    except (StoreError, OSError) as error:
        # That a store is locked was said of the results.
        if not (is_refused and isinstance(error, StoreLocked)):
            told = [f"not all that is old is removed: {error}"]
    for text in told:
        notify(LogMessage(text=text))


def prune(workspace: Workspace, *, store: Store, is_dry_run: bool = False) -> list[str]:
    """Remove what the settings do not keep, and return a line about each kind of it.

    A dry run only says what it would be. Raises OSError and what the store raises.
    """
    config = workspace.config
    told = []
    if config.traces_dir is not None:
        rules = config.trace_rules
        told.append(
            prune_traces(config.traces_dir, store=store, rules=rules, is_dry_run=is_dry_run)
        )
    if config.sample_nights is not None:
        told.append(_prune_samples(store, num_nights=config.sample_nights, is_dry_run=is_dry_run))
    told.append(
        _prune_outbox(
            store,
            num_days=config.outbox_days,
            now=workspace.dependencies.now(),
            is_dry_run=is_dry_run,
        )
    )
    return [text for text in told if text]


def _prune_outbox(store: Store, *, num_days: int, now: datetime, is_dry_run: bool) -> str:
    ids = find_old_notifications(store, before=now - timedelta(days=num_days))
    if not ids:
        return ""
    if not is_dry_run:
        forget_notifications(store, ids)
    found = counted(len(ids), "notification")
    return (
        f"{'would forget' if is_dry_run else 'forgot'} what {found} said, sent more than"
        f" {num_days} days ago ([outbox] days)"
    )


def _prune_samples(store: Store, *, num_nights: int, is_dry_run: bool) -> str:
    old = find_old_samples(store, num_nights=num_nights)
    if not old.run_ids:
        return ""
    if not is_dry_run:
        remove_samples(store, old)
    return (
        f"{'would remove' if is_dry_run else 'removed'} {old.num_samples} samples of"
        f" {len(old.run_ids)} runs: kept are {num_nights} nights, baselines and what alerts point"
        " at ([samples] nights)"
    )


def resolve_run(request: RunRequest, *, device: str, config: Config) -> ResolvedRun:
    """Return what `request` asks for on `device`, by the settings in force."""
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
        trigger=request.trigger,
        resume_id=request.resume_id,
    )


def _worth(request: ResolvedRun, *, config: Config, keeper: ResultWriter, notify: Notify) -> Worth:
    """Return what makes cases of the suite worth measuring; without a store nobody knows."""
    store = keeper.store
    if store is None:
        return Worth()
    if keeper.is_resting():
        notify(_in_plan_order(keeper.trouble))
        return Worth()
    try:
        last_measured = load_last_measured(
            store,
            suite=request.suite,
            machine=request.machine,
            toolchain=request.toolchain,
        )
        alerts = load_alerts(store, states=[AlertState.OPEN])
    except StoreError as error:
        notify(_in_plan_order(str(error)))
        return Worth()
    return Worth(
        last_measured=last_measured,
        suspects={alert.case.key for alert in alerts if alert.verdict is Verdict.REGRESSION},
        is_tracked=partial(_is_tracked, config=config),
    )


def _in_plan_order(trouble: str) -> LogMessage:
    text = f"whose turn it is, the store does not say: {trouble}. Measuring in plan request"
    return LogMessage(text=text, is_warning=True)


def _is_tracked(case: Case, *, config: Config) -> bool:
    spec = config.catalog.get(case.model)
    shape = None if spec is None else spec.shapes.get(case.shape)
    return shape is not None and shape.is_tracked


def check_takes_runs(store: Store) -> StoreLocked | None:
    """Raise what keeps the store from ever taking what is measured, which would be for nothing.

    StoreUnavailable: it is a file of another program; MixedStoreError: it has synthetic runs.
    Returns what a locked store said, which was waited for.
    """
    store.check_is_store()
    # What waits in the spool for a store that cannot be read now goes in later.
    try:
        with suppress(StoreTooNew, StoreUnavailable):
            store.check_takes_measured()
    except StoreLocked as error:
        return error
    return None


def make_run_context(
    requests: Sequence[RunRequest], *, device: str, workspace: Workspace, notify: Notify
) -> RunContext:
    """Return what the runs of `requests` work with; raise what `check_takes_runs` does."""
    config, dependencies = workspace.config, workspace.dependencies
    store = workspace.store() if workspace.has_store else None
    spool = workspace.spool() if workspace.has_store else None
    keeper = ResultWriter(store, spool=spool, notify=notify, now=dependencies.now)
    if store is not None:
        locked = check_takes_runs(workspace.store(afterwards=_MEASURING_THEN))
        if locked is not None:
            keeper.rest(locked)
    return RunContext(
        # One for each request, even under one interpreter: two worker hosts differ as two runs do.
        executors=tuple(
            dependencies.make_executor(
                python=config.toolchains[request.toolchain],
                state_dir=config.state_dir,
                device=device,
                num_threads=config.measure.num_threads,
            )
            for request in requests
        ),
        keeper=keeper,
        catalog=config.catalog,
        lock_dir=workspace.lock_dir(),
        load_document=partial(load_document, workspace.store(), has_kernels=True),
        worth=partial(_worth, config=config, keeper=keeper, notify=notify),
        users=partial(users_of, machine=dependencies.machine, env=dependencies.env),
        live_log=partial(find_live_log, config.state_dir),
        sleep=dependencies.sleep,
        notify=notify,
        now=dependencies.now,
    )
