"""The steps after a run: judge the history, confirm suspects, report alerts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from compile_hud.db.errors import StoreError
from compile_hud.db.records.alerts import Alert, subject_text
from compile_hud.db.records.results import Outcome, Run, RunDocument, Verdict
from compile_hud.db.records.triage import is_muted
from compile_hud.db.shared.text import counted
from compile_hud.runner.alerting.notifier import make_planner, send_waiting
from compile_hud.runner.analysis.confirmation.confirmation import fails_run, is_refuted
from compile_hud.runner.analysis.judging.attribution import MACHINE
from compile_hud.runner.cli.alerts.text import SHOWN_ID_LENGTH
from compile_hud.runner.cli.bisect.alert_search import queue_searches_safely
from compile_hud.runner.cli.help.next_steps import hud
from compile_hud.runner.cli.progress import new_progress
from compile_hud.runner.detection.confirm import confirm_run
from compile_hud.runner.detection.detect import DetectReport, detect
from compile_hud.runner.errors import JudgeProcessKilled, RunInterrupted
from compile_hud.runner.events import LogMessage, Notify
from compile_hud.runner.scheduling.timetable import timetable_of
from compile_hud.runner.system.interrupts import Interrupts
from compile_hud.runner.workspace import Workspace

STOPPED = "stopped while the history was judged; `hud detect` does it again"


@contextmanager
def unless_stopped() -> Iterator[Callable[[], None]]:
    """Yield a function that raises RunInterrupted after a signal; it is also called at the end.

    The signal handler raises nothing: in the middle of a query a library might log the exception or
    replace it.
    """
    with Interrupts(note=STOPPED) as interrupts:
        with interrupts.deferred(lambda: None):
            yield interrupts.check
        interrupts.check()


def judge(*documents: RunDocument, workspace: Workspace) -> list[Alert]:
    """Judge the stored history, confirm the suspects of these runs, and report new alerts.

    Returns the alerts that fail the runs. A locked store and a killed judging process are only
    logged: `hud detect` judges later. Raises RunInterrupted after a stop.
    """
    progress = new_progress(workspace)
    try:
        planner = make_planner(workspace, is_held=workspace.config.has_confirmation)
        with unless_stopped() as check:
            report = detect(
                workspace.store(), timetable=timetable_of(workspace), planner=planner, check=check
            )
        for item in report.unjudged:
            progress(LogMessage(text=f"not judged: {item.text}", is_warning=True))
        confirmed = _confirm(documents, report, workspace=workspace, notify=progress)
    except (StoreError, JudgeProcessKilled) as error:
        progress(
            LogMessage(text=f"not judged: {error}. `hud detect` does it later", is_warning=True)
        )
        return []
    queue_searches_safely(workspace, notify=progress)
    now = workspace.dependencies.now()
    regressions = [
        alert
        for alert in reportable_alerts(report.new, confirmed=confirmed)
        if any(regressions_of(document.run, [alert]) for document in documents)
        and not is_muted(alert, at=now)
    ]
    for text in texts_of(regressions, report, has_places=len(documents) > 1):
        progress(LogMessage(text=f"regression: {text}"))
    send_waiting(workspace, notify=progress)
    return [alert for alert in not_the_machines(regressions) if fails_run(alert)]


def texts_of(alerts: Sequence[Alert], report: DetectReport, *, has_places: bool) -> Iterator[str]:
    """Yield a line for each event of several alerts, and for each alert that stands alone."""
    by_event: dict[str, list[Alert]] = defaultdict(list)
    for alert in alerts:
        by_event[alert.event_id or alert.id].append(alert)
    for event_id, together in by_event.items():
        if len(together) > 1 and event_id in report.events:
            yield f"{report.events[event_id].title}; {counted(len(together), 'alert')}"
            continue
        for alert in together:
            toolchain = f" in {alert.toolchain}" if has_places else ""
            subject = subject_text(alert.metric, kind=alert.kind, verdict=alert.verdict)
            yield f"{alert.case.key} {subject}{toolchain}: {alert.cause_text}"


def _confirm(
    documents: Sequence[RunDocument],
    report: DetectReport,
    *,
    workspace: Workspace,
    notify: Notify,
) -> list[Alert]:
    """Return the suspects of these runs with the results of their confirmation."""
    if not workspace.config.has_confirmation:
        return []
    alerts: list[Alert] = []
    for document in documents:
        confirmed = confirm_run(
            document,
            alerts=report.alerts,
            workspace=workspace,
            notify=notify,
            planner=make_planner(workspace),
        )
        alerts += confirmed.alerts
        if confirmed.is_interrupted:
            raise RunInterrupted("stopped during confirmation; the run and its alerts are stored")
    return alerts


def reportable_alerts(new: Sequence[Alert], *, confirmed: Sequence[Alert]) -> list[Alert]:
    """Return the alerts to report: the confirmed ones, and new ones that were not refuted.

    `confirmed` are all re-measured alerts, with any result.
    """
    measured = {alert.id: alert for alert in confirmed}
    known = [measured.get(alert.id, alert) for alert in new]
    ids = {alert.id for alert in known}
    others = [alert for alert in confirmed if alert.is_confirmed and alert.id not in ids]
    return [alert for alert in known if not is_refuted(alert)] + others


def not_the_machines(alerts: Sequence[Alert]) -> list[Alert]:
    """Return the alerts that machine drift does not explain; only these fail a run."""
    return [alert for alert in alerts if alert.cause_kind != MACHINE]


def regressions_of(run: Run, alerts: Sequence[Alert]) -> list[Alert]:
    """Return the regressions among `alerts` on the run's machine in its toolchain.

    The first bad run does not matter: a step is detected on its third night.
    """
    return [
        alert
        for alert in alerts
        if (alert.machine, alert.toolchain) == (run.machine, run.toolchain)
        and alert.verdict is Verdict.REGRESSION
    ]


def next_commands(documents: Sequence[RunDocument], *, alerts: Sequence[Alert]) -> list[str]:
    """Return the commands that show the first regression, and the first case to look at.

    That is a case that failed, else one with warnings.
    """
    shown = [hud("alerts", "show", alert.id[:SHOWN_ID_LENGTH]) for alert in alerts[:1]]
    results = [
        (document.run.id, result)
        for document in documents
        for result in document.results
        if not result.case.is_reference and result.outcome is not Outcome.SKIPPED
    ]
    failed = [item for item in results if not item[1].outcome.is_expected]
    warned = [item for item in results if item[1].warnings]
    cases = [hud("show", run_id, result.case.key) for run_id, result in (*failed, *warned)]
    return shown + cases[:1]
