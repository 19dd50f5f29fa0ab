"""hud up, schedule, serve: the commands that keep running."""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import click

from compile_hud.db.errors import MixedStoreError, StoreError
from compile_hud.db.jobs.health import HEARTBEAT_INTERVAL_S
from compile_hud.db.records.results import RunState, Verdict
from compile_hud.db.records.triage import is_muted
from compile_hud.db.shared.access_rules import refusal
from compile_hud.db.shared.local_sign_in import load_links
from compile_hud.db.shared.logging import FORMAT_VARIABLE, is_journal
from compile_hud.models_zoo.catalog.errors import UnknownNameError
from compile_hud.runner.alerting.notifier import make_planner, send_waiting
from compile_hud.runner.cli.bisect.alert_search import AlertSearches
from compile_hud.runner.cli.echo import echo
from compile_hud.runner.cli.help.examples import ExampleCommand
from compile_hud.runner.cli.output import json_option, print_json, with_workspace
from compile_hud.runner.cli.progress import log_format, new_progress
from compile_hud.runner.cli.run.after_run import judge, texts_of
from compile_hud.runner.cli.run.command import print_results, run_in_terminal
from compile_hud.runner.cli.run.ray import make_ray_runner
from compile_hud.runner.cli.toolchain import make_install_dependencies
from compile_hud.runner.config.load import Config
from compile_hud.runner.config.suite_names import check_suite
from compile_hud.runner.detection.detect import detect
from compile_hud.runner.errors import (
    ConfigError,
    DashboardUnavailable,
    JudgeProcessKilled,
    LockUnavailable,
    ResumeError,
    RunInterrupted,
    RunnerError,
    SchedulerBusy,
    SchedulerUnavailable,
)
from compile_hud.runner.events import LogMessage, Notify
from compile_hud.runner.persistence.result_writer import ResultWriter
from compile_hud.runner.persistence.store_check import check_takes_runs
from compile_hud.runner.planning.plan import find_suite
from compile_hud.runner.run_requests import AUTO_DEVICE, RunRequest
from compile_hud.runner.scheduling.change_triggers import WatchDependencies, Watches, find_revision
from compile_hud.runner.scheduling.heartbeat import HealthReporter
from compile_hud.runner.scheduling.job_worker import JobServices, JobWorker
from compile_hud.runner.scheduling.scheduler import Scheduler, scheduling
from compile_hud.runner.scheduling.supervisor import (
    FIRST_RUN,
    Dashboard,
    FirstRun,
    check_dashboard,
    dashboard_command,
    dashboard_environment,
    first_run_of,
)
from compile_hud.runner.scheduling.timetable import timetable_of
from compile_hud.runner.system.dashboard_urls import dashboard_url
from compile_hud.runner.system.heartbeat_thread import heartbeat
from compile_hud.runner.system.interrupts import Interrupts
from compile_hud.runner.toolchains.installer import build_again
from compile_hud.runner.toolchains.torch_releases import list_versions
from compile_hud.runner.workspace import Workspace

host_option = click.option(
    "--host", metavar="ADDRESS", help="Address to listen on, instead of the configured one."
)
port_option = click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    help="Port to listen on, instead of the configured one; 0 uses a free one.",
)
open_option = click.option(
    "--without-sign-in",
    "is_open",
    is_flag=True,
    help="Without [auth], let everyone who reaches the address read everything.",
)
token_option = click.option(
    "--no-token",
    "has_token",
    is_flag=True,
    flag_value=False,
    default=True,
    help="Print no sign-in link: the dashboard only shows, to everyone on this machine.",
)


@click.command(
    cls=ExampleCommand,
    examples=(
        "hud up",
        "hud up --port 8600 --no-token",
    ),
)
@host_option
@port_option
@open_option
@token_option
@click.option("--exit-after-run", is_flag=True, help="End after the first run.")
@with_workspace
def up(
    workspace: Workspace,
    *,
    host: str | None,
    port: int | None,
    is_open: bool,
    has_token: bool,
    exit_after_run: bool,
) -> None:
    """Serve the dashboard and run the schedules of hud.toml.

    In a new store it measures the quick suite first.
    """
    workspace = _with_address(workspace, host=host, port=port, is_open=is_open, has_token=has_token)
    # A file that is no store would never get a run. A missing or locked store may be available
    # later.
    workspace.store().check_is_store()
    config = workspace.config
    notify = new_progress(workspace)
    command = _command(config)
    environment = dashboard_environment(config, shows_link=_shows_links())
    # Ctrl-C is how one ends it: exit code 0.
    with ExitStack() as stack:
        try:
            interrupts = stack.enter_context(Interrupts())
            stack.enter_context(Dashboard(command, environment=environment, notify=notify))
            url = dashboard_url(host=config.host, port=config.port)
            notify(LogMessage(text=f"dashboard: {url} (starting)"))
            _say_whether_it_takes_runs(workspace, notify=notify)
            wake = threading.Event()
            scheduler = _start_scheduling(stack, workspace=workspace, wake=wake, notify=notify)
            _catch_up(workspace, notify=notify)
            _first_run(workspace, notify=notify, scheduler=scheduler)
            if not exit_after_run:
                notify(LogMessage(text="ready; Ctrl-C ends it"))
                _work(
                    workspace, wake=wake, notify=notify, scheduler=scheduler, check=interrupts.check
                )
        except (RunInterrupted, KeyboardInterrupt):
            notify(LogMessage(text="ending; everything measured is kept"))


@click.command(
    cls=ExampleCommand,
    examples=("hud schedule",),
)
@with_workspace
def schedule(workspace: Workspace) -> None:
    """Run the schedules of hud.toml and queued jobs until Ctrl-C."""
    # This command only runs jobs, so an unusable store ends it.
    check_takes_runs(workspace.store())
    notify = new_progress(workspace)
    schedules = workspace.config.schedules
    wake = threading.Event()
    state_dir = workspace.config.state_dir
    with ExitStack() as stack:
        try:
            interrupts = stack.enter_context(Interrupts())
            scheduler = stack.enter_context(scheduling(schedules, state_dir=state_dir, wake=wake))
            for job in scheduler.get_jobs():
                when = f"{job.next_run_time:%Y-%m-%d %H:%M %Z}"
                notify(LogMessage(text=f"schedule {job.id}: next at {when}"))
            if not schedules:
                notify(LogMessage(text="no [schedules.NAME] in hud.toml; only queued jobs are run"))
            _catch_up(workspace, notify=notify)
            _work(workspace, wake=wake, notify=notify, scheduler=scheduler, check=interrupts.check)
        except (RunInterrupted, KeyboardInterrupt):
            notify(LogMessage(text="ending; everything measured is kept"))


@click.command(
    cls=ExampleCommand,
    examples=(
        "hud serve",
        "hud serve --host 0.0.0.0 --port 8600",
    ),
)
@host_option
@port_option
@open_option
@token_option
@with_workspace
def serve(
    workspace: Workspace, *, host: str | None, port: int | None, is_open: bool, has_token: bool
) -> None:
    """Serve the dashboard alone."""
    serve_dashboard(
        _with_address(workspace, host=host, port=port, is_open=is_open, has_token=has_token)
    )


@click.command(
    "sign-in",
    cls=ExampleCommand,
    examples=("hud sign-in",),
)
@json_option
@with_workspace
def sign_in(workspace: Workspace, *, as_json: bool) -> None:
    """Print a link that signs you in to the running dashboard.

    It is for the user of this machine, and works once.
    """
    links = load_links(workspace.config.state_dir)
    if not links:
        folder = workspace.config.state_dir
        raise DashboardUnavailable(
            f"no dashboard of {folder} waits for its user to sign in; `hud serve` starts one on"
            " 127.0.0.1. With [auth] people sign in on its page, and with --no-token it only shows",
            state_dir=folder,
        )
    if as_json:
        print_json([{"url": link.url} for link in links])
    else:
        for link in links:
            echo(link.url)


def serve_dashboard(workspace: Workspace) -> None:
    """Become the dashboard's process; does not return."""
    config = workspace.config
    command = _command(config)
    url = dashboard_url(host=config.host, port=config.port)
    new_progress(workspace)(LogMessage(text=f"dashboard: {url} (starting)"))
    sys.stderr.flush()
    sys.stdout.flush()
    environment = {
        **dashboard_environment(config, shows_link=_shows_links()),
        FORMAT_VARIABLE: log_format(),
    }
    os.execve(command[0], command, environment)


def _command(config: Config) -> list[str]:
    return dashboard_command(host=config.host, port=config.port, is_open=config.sign_in.is_open)


def _shows_links() -> bool:
    """Return whether standard output and error are no log that other people read."""
    return log_format() != "json" and not is_journal(os.environ)


def _with_address(
    workspace: Workspace, *, host: str | None, port: int | None, is_open: bool, has_token: bool
) -> Workspace:
    """Return `workspace` with the listen address; raise ConfigError if that needs sign-in."""
    config = workspace.config
    host = config.host if host is None else host
    settings = replace(
        config.sign_in, is_open=is_open or config.sign_in.is_open, has_token=has_token
    )
    if problem := refusal(host, rules=settings.rules, is_open=settings.is_open):
        raise ConfigError(problem)
    port = check_dashboard(host=host, port=config.port if port is None else port)
    config = replace(config, host=host, port=port, sign_in=settings)
    return replace(workspace, config=config)


def _say_whether_it_takes_runs(workspace: Workspace, *, notify: Notify) -> None:
    try:
        check_takes_runs(workspace.store())
    except MixedStoreError as error:
        text = f"{error}. The dashboard shows it all the same, but no run can be stored there"
        notify(LogMessage(text=text, is_warning=True))


def _start_scheduling(
    stack: ExitStack, *, workspace: Workspace, wake: threading.Event, notify: Notify
) -> Scheduler | None:
    config = workspace.config
    try:
        return stack.enter_context(
            scheduling(config.schedules, state_dir=config.state_dir, wake=wake)
        )
    except (SchedulerBusy, SchedulerUnavailable, LockUnavailable) as error:
        text = f"{error}. The dashboard runs all the same, but schedules nothing"
        notify(LogMessage(text=text, is_warning=True))
        return None


def make_watches(workspace: Workspace, scheduler: Scheduler, *, notify: Notify) -> Watches:
    """Return the watches of the schedules of hud.toml; their jobs use the same queue."""
    config = workspace.config
    dependencies = WatchDependencies(
        machine=workspace.dependencies.machine,
        list_versions=list_versions,
        pythons=config.toolchains,
    )
    return Watches(
        config.schedules,
        look=functools.partial(find_revision, dependencies=dependencies),
        save=scheduler.requests.save,
        now=workspace.dependencies.now,
        notify=notify,
    )


def _catch_up(workspace: Workspace, *, notify: Notify) -> None:
    """Store and judge the results of a process that died between measuring and judging."""
    report = ResultWriter(workspace.store(), spool=workspace.spool(), notify=notify).drain()
    if report.error:
        return
    try:
        planner = make_planner(workspace)
        detected = detect(workspace.store(), timetable=timetable_of(workspace), planner=planner)
    except (StoreError, JudgeProcessKilled) as error:
        notify(LogMessage(text=f"not judged: {error}. `hud detect` does it later", is_warning=True))
        return
    for item in detected.unjudged:
        notify(LogMessage(text=f"not judged: {item.text}", is_warning=True))
    now = workspace.dependencies.now()
    regressions = [
        alert
        for alert in detected.new
        if alert.verdict is Verdict.REGRESSION and not is_muted(alert, at=now)
    ]
    for text in texts_of(regressions, detected, has_places=False):
        notify(LogMessage(text=f"regression: {text}"))


def _first_run(workspace: Workspace, *, notify: Notify, scheduler: Scheduler | None) -> None:
    """Execute the first run of a new store; after an error the dashboard keeps running."""
    try:
        first = first_run_of(workspace.store(), config=workspace.config)
        if first is not None:
            with _reporting_health(
                workspace, scheduler=scheduler, current_job=lambda: "the first run"
            ):
                _run_first(first, workspace=workspace, notify=notify)
    except RunInterrupted:
        raise
    except (RunnerError, StoreError, UnknownNameError) as error:
        notify(LogMessage(text=f"the first run is not complete: {error}", is_warning=True))


def _run_first(first: FirstRun, *, workspace: Workspace, notify: Notify) -> None:
    suite = find_suite(first.suite, suites=workspace.config.suites)
    check_suite(suite, config=workspace.config)
    request = RunRequest(
        suite=suite,
        toolchain=first.toolchain,
        device=first.device or AUTO_DEVICE,
        trigger=FIRST_RUN,
        resume_id=first.resume_id,
    )
    try:
        document = run_in_terminal(request, workspace=workspace)
    except ResumeError as error:
        notify(LogMessage(text=f"{error}. A new run is started", is_warning=True))
        document = run_in_terminal(
            replace(request, device=AUTO_DEVICE, resume_id=None), workspace=workspace
        )
    if document.run.state is not RunState.FINISHED:
        raise RunInterrupted(
            f"run {document.run.id} was interrupted; `hud up` continues it", run=document.run.id
        )
    print_results(document)
    judge(document, workspace=workspace)


def _work(
    workspace: Workspace,
    *,
    wake: threading.Event,
    notify: Notify,
    scheduler: Scheduler | None,
    check: Callable[[], None],
) -> None:
    """Run queued jobs, and report this process as alive, until a signal ends it."""
    config = workspace.config
    watches = None if scheduler is None else make_watches(workspace, scheduler, notify=notify)
    loop = JobWorker(
        workspace=workspace,
        services=JobServices(
            notify=notify,
            judge=functools.partial(judge, workspace=workspace),
            send_notifications=functools.partial(send_waiting, workspace, notify=notify),
            check_interrupt=check,
            searcher=AlertSearches(workspace=workspace, notify=notify),
            build_toolchain=functools.partial(
                build_again,
                state_dir=config.state_dir,
                dependencies=make_install_dependencies(workspace, notify=notify),
            ),
        ),
        wake=wake,
        scheduler=scheduler,
        watches=watches,
        cluster=make_ray_runner(workspace, notify=notify),
    )
    with _reporting_health(
        workspace, scheduler=scheduler, current_job=loop.current_job, watches=watches
    ):
        loop.run_forever()


@contextmanager
def _reporting_health(
    workspace: Workspace,
    *,
    scheduler: Scheduler | None,
    current_job: Callable[[], str],
    watches: Watches | None = None,
) -> Iterator[None]:
    """Record every minute that this scheduler is alive, until the block ends.

    Without a scheduler, another process schedules from this state directory and reports itself.
    """
    if scheduler is None:
        yield
        return
    reporter = HealthReporter(
        workspace=workspace,
        schedules=lambda: (*scheduler.states(), *(watches.states() if watches else ())),
        current_job=current_job,
        started_at=workspace.dependencies.now(),
    )
    reporter.report()
    with heartbeat(reporter.report, every_s=HEARTBEAT_INTERVAL_S):
        yield
