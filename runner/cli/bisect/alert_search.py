"""Queue the searches of confirmed alerts, execute them, and store their results in the alerts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compile_hud.db.errors import RecordError, StoreError
from compile_hud.db.jobs.queue import suite_of_search
from compile_hud.db.queries.alerts import load_alert, load_alerts
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.triage import JUDGE, ONGOING, Revision, is_muted, worst_first
from compile_hud.models_zoo.catalog.errors import UnknownNameError
from compile_hud.runner.alerting.notifier import make_planner
from compile_hud.runner.bisect.alert_answer import (
    immediate_answer,
    is_ended,
    queued_answer,
    refused_answer,
    search_answer,
)
from compile_hud.runner.bisect.alert_search import (
    ListVersions,
    SearchPlan,
    begin_search,
    plan_search,
    wants_search,
)
from compile_hud.runner.bisect.record import Bisection
from compile_hud.runner.bisect.search import BisectDependencies
from compile_hud.runner.bisect.search import bisect as search
from compile_hud.runner.cli.bisect.setup import open_revisions
from compile_hud.runner.cli.bisect.stored import alone_in
from compile_hud.runner.errors import BisectError, LockUnavailable, SearchImpossible
from compile_hud.runner.events import LogMessage, Notify
from compile_hud.runner.files.stored_searches import read_searches, write_search
from compile_hud.runner.toolchains.torch_releases import list_versions
from compile_hud.runner.workspace import Workspace

TRIGGER = "alert"


@dataclass(frozen=True, slots=True)
class _Answered:
    """The alerts to be saved with the state of their search."""

    revisions: tuple[Revision, ...]


def bisect_folder(workspace: Workspace) -> Path:
    """Return the folder with the bisections of this state directory."""
    return workspace.config.state_dir / "bisect"


@contextmanager
def bisecting_alone(
    workspace: Workspace, *, error: Callable[[str], Exception] = BisectError
) -> Iterator[None]:
    """Lock all bisections of this state directory."""
    activity = f"bisecting in {workspace.config.state_dir}"
    with alone_in(bisect_folder(workspace), activity, error=error):
        yield


def queue_searches(
    workspace: Workspace, *, notify: Notify, versions_of: ListVersions = list_versions
) -> None:
    """Queue a search for each confirmed regression that had none, the worst first.

    An alert without revisions to search gets the reason at once. Raises the errors of the store.
    """
    config = workspace.config
    if not config.bisects_alerts:
        return
    store, now = workspace.store(), workspace.dependencies.now()
    alerts = [
        alert
        for alert in load_alerts(store, states=ONGOING)
        if wants_search(alert, machine=config.machine) and not is_muted(alert, at=now)
    ]
    answers: dict[str, dict[str, Any]] = {}
    for alert in worst_first(alerts):
        try:
            plan = plan_search(alert, workspace=workspace, list_versions=versions_of)
        except SearchImpossible as error:
            answers[alert.id] = refused_answer(str(error), at=now)
        except BisectError as error:
            # An index that does not answer today may do so after the next run.
            notify(LogMessage(text=f"alert {alert.id} is not bisected: {error}", is_warning=True))
        else:
            answers[alert.id] = _queue(alert, plan, workspace=workspace)
    for alert in alerts:
        if alert.id in answers:
            notify(LogMessage(text=f"alert {alert.id}: {answers[alert.id]['text']}"))
    save_answers(answers, workspace=workspace)


def _queue(alert: Alert, plan: SearchPlan, *, workspace: Workspace) -> dict[str, Any]:
    """Return the state of the search, which is queued unless the answer is known."""
    now = workspace.dependencies.now()
    if plan.is_decided:
        return immediate_answer(plan, at=now)
    suite = suite_of_search(alert.id)
    is_new = workspace.store().enqueue_job(
        dedupe_key=suite,
        suite=suite,
        toolchain=alert.toolchain,
        trigger=TRIGGER,
        machine=alert.machine,
    )
    if is_new:
        return queued_answer(plan, at=now)
    return refused_answer(
        f"this alert was searched before; `hud bisect --alert {alert.id}` searches again", at=now
    )


def save_answers(
    answers: Mapping[str, Mapping[str, Any]], *, workspace: Workspace, replaces_ended: bool = True
) -> None:
    """Store the state of searches by the ids of their alerts, with the due notifications.

    Unless it `replaces_ended`, the result of an ended search stays.
    """
    if not answers:
        return
    planner = make_planner(workspace)

    def decide(stored: Iterable[Alert]) -> _Answered:
        return _Answered(
            tuple(
                Revision(alert=dataclasses.replace(alert, bisection=answers[alert.id]))
                for alert in stored
                if alert.id in answers and (replaces_ended or not is_ended(alert.bisection))
            )
        )

    workspace.store().revise_alerts(
        decide,
        by=JUDGE,
        tell=lambda before, made: planner.notifications(before, made.revisions, events={}),
    )


def begin_alert(
    alert: Alert, *, workspace: Workspace, versions_of: ListVersions = list_versions
) -> Bisection:
    """Return a search by hand for `alert`; raise BisectError where there is nothing to search."""
    if alert.machine != workspace.config.machine:
        raise BisectError(
            f"alert {alert.id} is of machine {alert.machine}: search it there", alert=alert.id
        )
    plan = plan_search(alert, workspace=workspace, list_versions=versions_of)
    return begin_search(alert, plan, workspace=workspace, budget_s=workspace.config.bisect_s)


def save_search(known: Bisection, *, workspace: Workspace, reason: str = "") -> None:
    """Store the result of a search in its alert; a search without an alert has none."""
    if known.alert_id:
        document = search_answer(known, at=workspace.dependencies.now(), reason=reason)
        save_answers({known.alert_id: document}, workspace=workspace)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSearches:
    """Executes the queued searches on this machine."""

    workspace: Workspace
    notify: Notify
    versions_of: ListVersions = list_versions

    def search(self, alert_id: str, *, is_run_due: Callable[[], bool]) -> bool:
        """Search the revision behind an alert, and store the result; return whether it has ended.

        It has not if a run became due: the next call continues. Raises LockUnavailable while
        another search runs, ExecutorError, ToolchainError, the errors of the store, and
        RunInterrupted.
        """
        alert = load_alert(self.workspace.store(), alert_id)
        if is_ended(alert.bisection):
            return True
        if alert.state not in ONGOING:
            self._refuse(alert.id, f"the alert is {alert.state}")
            return True
        with bisecting_alone(self.workspace, error=LockUnavailable):
            try:
                return self._continue(self._known(alert), is_run_due=is_run_due)
            except (BisectError, UnknownNameError) as error:
                # An end that cannot be measured stays so; the reason is the answer.
                self.give_up(alert.id, reason=str(error))
                return True

    def give_up(self, alert_id: str, *, reason: str) -> None:
        """Store in the alert why its search failed, unless one by hand ended; raise StoreError."""
        self._refuse(alert_id, reason, replaces_ended=False)

    def _refuse(self, alert_id: str, reason: str, *, replaces_ended: bool = True) -> None:
        answer = refused_answer(reason, at=self.workspace.dependencies.now())
        save_answers({alert_id: answer}, workspace=self.workspace, replaces_ended=replaces_ended)

    def _known(self, alert: Alert) -> Bisection:
        """Return the search of `alert` that was interrupted, or a new one."""
        try:
            known = read_searches(Bisection, folder=bisect_folder(self.workspace))
        except (OSError, RecordError):
            known = []
        started = [item for item in known if item.alert_id == alert.id and not item.is_complete]
        if started:
            return started[0]
        return begin_alert(alert, workspace=self.workspace, versions_of=self.versions_of)

    def _continue(self, known: Bisection, *, is_run_due: Callable[[], bool]) -> bool:
        workspace, budget_s = self.workspace, self.workspace.config.bisect_s
        has_yielded = False

        def is_paused(item: Bisection) -> bool:
            nonlocal has_yielded
            is_over = item.spent_s >= budget_s
            has_yielded = not is_over and is_run_due()
            return is_over or has_yielded

        folder = bisect_folder(workspace)
        dependencies = BisectDependencies(
            keep=lambda item: write_search(item, folder=folder),
            lock_dir=workspace.lock_dir(),
            now=workspace.dependencies.now,
            notify=self.notify,
            is_paused=is_paused,
        )
        revisions = open_revisions(known, workspace=workspace, folder=folder, notify=self.notify)
        known = search(known, revisions=revisions, dependencies=dependencies)
        if has_yielded:
            return False
        reason = (
            f"the budget of {budget_s / 60:g} min ended; `hud bisect --resume {known.id}` continues"
        )
        save_search(known, workspace=workspace, reason=reason)
        return True


def queue_searches_safely(workspace: Workspace, *, notify: Notify) -> None:
    """Queue the searches of confirmed alerts; a store that refuses them gets them later."""
    try:
        queue_searches(workspace, notify=notify)
    except StoreError as error:
        text = f"alerts are not bisected: {error}. The next run queues their searches"
        notify(LogMessage(text=text, is_warning=True))
