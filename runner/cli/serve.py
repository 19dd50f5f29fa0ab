"""hud up, schedule, serve: what stays running."""

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
from compile_hud.db.jobs.health import BEAT_S
from compile_hud.db.records.results import RunState, Verdict
from compile_hud.db.records.triage import is_muted
from compile_hud.db.shared.access_rules import refusal
from compile_hud.db.shared.logging import FORMAT_VARIABLE
from compile_hud.models_zoo.catalog.spec import UnknownNameError
from compile_hud.runner.alerting.notifier import make_telling, send_waiting
from compile_hud.runner.cli.output import log_format, new_progress, with_workplace
from compile_hud.runner.cli.run.after_run import judge, texts_of
from compile_hud.runner.cli.run.command import print_results, run_in_terminal
from compile_hud.runner.cli.run.ray import ray_engine
from compile_hud.runner.cli.toolchain import install_seams
from compile_hud.runner.config.load import Config
from compile_hud.runner.detection.detect import detect
from compile_hud.runner.errors import (
    ConfigError,
    JudgingLost,
    LockUnavailable,
    ResumeError,
    RunInterrupted,
    RunnerError,
    SchedulerHeld,
    SchedulerUnavailable,
)
from compile_hud.runner.events import Notify, Said
from compile_hud.runner.persistence.result_writer import Keeper
from compile_hud.runner.planning.plan import find_suite
from compile_hud.runner.scheduling.change_triggers import Watches, WatchSeams, find_revision
from compile_hud.runner.scheduling.heartbeat import Pulse
from compile_hud.runner.scheduling.job_worker import JobLoop
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
from compile_hud.runner.workspace import AUTO_DEVICE, RunOrder, Workplace, check_takes_runs

host_option = click.option("--host", help="Address to listen on, instead of the one set.")
port_option = click.option("--port", type=click.IntRange(0, 65535), help="0 takes a free one.")
open_option = click.option(
    "--without-sign-in",
    "is_open",
    is_flag=True,
    help="Let whoever reaches the address read everything, where there is no [auth].",
)


@click.command()
@host_option
@port_option
@open_option
@click.option("--exit-after-run", is_flag=True, help="End when the first run is over.")
@with_workplace
def up(
    workplace: Workplace,
    *,
    host: str | None,
    port: int | None,
    is_open: bool,
    exit_after_run: bool,
) -> None:
    """Serve the dashboard, run the schedules and, in a new store, measure the quick suite."""
    workplace = _with_address(workplace, host=host, port=port, is_open=is_open)
    # No run would ever go there. One that is missing or held now is there later.
    workplace.store().check_is_store()
    config = workplace.config
    notify = new_progress(workplace)
    command = _command(config)
    environment = dashboard_environment(config)
    # Ctrl-C is how one ends it: exit code 0.
    with ExitStack() as stack:
        try:
            interrupts = stack.enter_context(Interrupts())
            stack.enter_context(Dashboard(command, environment=environment, notify=notify))
            url = dashboard_url(host=config.host, port=config.port)
            notify(Said(text=f"dashboard: {url} (starting)"))
            _say_whether_it_takes_runs(workplace, notify=notify)
            wake = threading.Event()
            scheduler = _start_scheduling(stack, workplace=workplace, wake=wake, notify=notify)
            _catch_up(workplace, notify=notify)
            _first_run(workplace, notify=notify, scheduler=scheduler)
            if not exit_after_run:
                notify(Said(text="ready; Ctrl-C ends it"))
                _work(
                    workplace, wake=wake, notify=notify, scheduler=scheduler, check=interrupts.check
                )
        except (RunInterrupted, KeyboardInterrupt):
            notify(Said(text="ending; everything measured is kept"))


@click.command()
@with_workplace
def schedule(workplace: Workplace) -> None:
    """Run the schedules of hud.toml and every job that is queued, until Ctrl-C."""
    # To run is all that it does.
    check_takes_runs(workplace.store())
    notify = new_progress(workplace)
    schedules = workplace.config.schedules
    wake = threading.Event()
    state_dir = workplace.config.state_dir
    with ExitStack() as stack:
        try:
            interrupts = stack.enter_context(Interrupts())
            scheduler = stack.enter_context(scheduling(schedules, state_dir=state_dir, wake=wake))
            for job in scheduler.get_jobs():
                when = f"{job.next_run_time:%Y-%m-%d %H:%M %Z}"
                notify(Said(text=f"schedule {job.id}: next at {when}"))
            if not schedules:
                notify(Said(text="no [schedules.NAME] in hud.toml; only queued jobs are run"))
            _catch_up(workplace, notify=notify)
            _work(workplace, wake=wake, notify=notify, scheduler=scheduler, check=interrupts.check)
        except (RunInterrupted, KeyboardInterrupt):
            notify(Said(text="ending; everything measured is kept"))


@click.command()
@host_option
@port_option
@open_option
@with_workplace
def serve(workplace: Workplace, *, host: str | None, port: int | None, is_open: bool) -> None:
    """Serve the dashboard alone."""
    serve_dashboard(_with_address(workplace, host=host, port=port, is_open=is_open))


def serve_dashboard(workplace: Workplace) -> None:
    """Become the dashboard's process; does not return."""
    config = workplace.config
    command = _command(config)
    url = dashboard_url(host=config.host, port=config.port)
    new_progress(workplace)(Said(text=f"dashboard: {url} (starting)"))
    sys.stderr.flush()
    sys.stdout.flush()
    environment = {**dashboard_environment(config), FORMAT_VARIABLE: log_format()}
    os.execve(command[0], command, environment)


def _command(config: Config) -> list[str]:
    return dashboard_command(host=config.host, port=config.port, is_open=config.sign_in.is_open)


def _with_address(
    workplace: Workplace, *, host: str | None, port: int | None, is_open: bool
) -> Workplace:
    """Return `workplace` with where to listen; raise ConfigError where that needs sign-in."""
    config = workplace.config
    host = config.host if host is None else host
    sign_in = replace(config.sign_in, is_open=is_open or config.sign_in.is_open)
    if problem := refusal(host, rules=sign_in.rules, is_open=sign_in.is_open):
        raise ConfigError(problem)
    port = check_dashboard(host=host, port=config.port if port is None else port)
    config = replace(config, host=host, port=port, sign_in=sign_in)
    return replace(workplace, config=config)


def _say_whether_it_takes_runs(workplace: Workplace, *, notify: Notify) -> None:
    try:
        check_takes_runs(workplace.store())
    except MixedStoreError as error:
        text = f"{error}. The dashboard shows it all the same, but no run can be stored there"
        notify(Said(text=text, is_warning=True))


def _start_scheduling(
    stack: ExitStack, *, workplace: Workplace, wake: threading.Event, notify: Notify
) -> Scheduler | None:
    config = workplace.config
    try:
        return stack.enter_context(
            scheduling(config.schedules, state_dir=config.state_dir, wake=wake)
        )
    except (SchedulerHeld, SchedulerUnavailable, LockUnavailable) as error:
        text = f"{error}. The dashboard runs all the same, but schedules nothing"
        notify(Said(text=text, is_warning=True))
        return None


def make_watches(workplace: Workplace, scheduler: Scheduler, *, notify: Notify) -> Watches:
    """Return the watches of the schedules of hud.toml, whose jobs go the way of all others."""
    config = workplace.config
    seams = WatchSeams(
        machine=workplace.seams.machine, list_versions=list_versions, pythons=config.toolchains
    )
    return Watches(
        config.schedules,
        look=functools.partial(find_revision, seams=seams),
        keep=scheduler.requests.keep,
        now=workplace.seams.now,
        notify=notify,
    )


def _catch_up(workplace: Workplace, *, notify: Notify) -> None:
    """Store and judge what a process left behind that died between measuring and judging."""
    report = Keeper(workplace.store(), spool=workplace.spool(), notify=notify).drain()
    if report.trouble:
        return
    try:
        telling = make_telling(workplace)
        found = detect(workplace.store(), timetable=timetable_of(workplace), telling=telling)
    except (StoreError, JudgingLost) as error:
        notify(Said(text=f"not judged: {error}. `hud detect` does it later", is_warning=True))
        return
    now = workplace.seams.now()
    told = [
        alert
        for alert in found.new
        if alert.verdict is Verdict.REGRESSION and not is_muted(alert, at=now)
    ]
    for text in texts_of(told, found, has_places=False):
        notify(Said(text=f"regression: {text}"))


def _first_run(workplace: Workplace, *, notify: Notify, scheduler: Scheduler | None) -> None:
    """Measure what a new store starts with; trouble is said and the dashboard stays."""
    try:
        first = first_run_of(workplace.store(), config=workplace.config)
        if first is not None:
            with _telling(workplace, scheduler=scheduler, doing=lambda: "the first run"):
                _run_first(first, workplace=workplace, notify=notify)
    except RunInterrupted:
        raise
    except (RunnerError, StoreError, UnknownNameError) as error:
        notify(Said(text=f"the first run is not complete: {error}", is_warning=True))


def _run_first(first: FirstRun, *, workplace: Workplace, notify: Notify) -> None:
    order = RunOrder(
        suite=find_suite(first.suite, suites=workplace.config.suites),
        toolchain=first.toolchain,
        device=first.device or AUTO_DEVICE,
        trigger=FIRST_RUN,
        resume_id=first.resume_id,
    )
    try:
        document = run_in_terminal(order, workplace=workplace)
    except ResumeError as error:
        notify(Said(text=f"{error}. A new run is started", is_warning=True))
        document = run_in_terminal(
            replace(order, device=AUTO_DEVICE, resume_id=None), workplace=workplace
        )
    if document.run.state is not RunState.FINISHED:
        raise RunInterrupted(f"run {document.run.id} was interrupted; `hud up` continues it")
    print_results(document)
    judge(document, workplace=workplace)


def _work(
    workplace: Workplace,
    *,
    wake: threading.Event,
    notify: Notify,
    scheduler: Scheduler | None,
    check: Callable[[], None],
) -> None:
    """Run jobs as they come, and tell the store that this process lives, until a signal ends it."""
    config = workplace.config
    watches = None if scheduler is None else make_watches(workplace, scheduler, notify=notify)
    loop = JobLoop(
        workplace=workplace,
        notify=notify,
        judge=functools.partial(judge, workplace=workplace),
        send=functools.partial(send_waiting, workplace, notify=notify),
        wake=wake,
        scheduler=scheduler,
        watches=watches,
        check=check,
        build=functools.partial(
            build_again,
            state_dir=config.state_dir,
            seams=install_seams(workplace, notify=notify),
        ),
        cluster=ray_engine(workplace, notify=notify),
    )
    with _telling(workplace, scheduler=scheduler, doing=loop.is_doing, watches=watches):
        loop.run_forever()


@contextmanager
def _telling(
    workplace: Workplace,
    *,
    scheduler: Scheduler | None,
    doing: Callable[[], str],
    watches: Watches | None = None,
) -> Iterator[None]:
    """Tell the store every minute that this scheduler lives, until the block ends.

    Without one, another process schedules from this state directory, and says so itself.
    """
    if scheduler is None:
        yield
        return
    pulse = Pulse(
        workplace=workplace,
        schedules=lambda: (*scheduler.states(), *(watches.states() if watches else ())),
        doing=doing,
        started_at=workplace.seams.now(),
    )
    pulse.beat()
    with heartbeat(pulse.beat, every_s=BEAT_S):
        yield
