"""Read and derive what the overview shows."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from compile_hud.app import clock
from compile_hud.app.components.alert_rows import (
    case_of,
    lets_through,
    needs_attention,
)
from compile_hud.app.components.case_filters import FilteredResults
from compile_hud.app.data.cache import cached_read
from compile_hud.app.data.latest_results import has_previous_run, load_schedulers
from compile_hud.app.data.page_records import Loaded, Overview
from compile_hud.app.data.store import StoreVersion
from compile_hud.app.ui.alert_text import alert_text
from compile_hud.app.ui.urls import CaseState, OverviewState, TrendsState
from compile_hud.app.views.alerts.data import load_alert_list
from compile_hud.app.views.alerts.event_table import EventGroup, cause_text, event_groups
from compile_hud.app.views.overview.news import (
    compared_runs,
    first_possible,
    happened_at,
    news_groups,
)
from compile_hud.app.views.overview.records import (
    ActionItem,
    Attention,
    AttentionItem,
    News,
    NextRun,
    NextStep,
    OverviewStatus,
    StateChange,
)
from compile_hud.app.views.overview.tables import learning_text
from compile_hud.app.views.trends.data import load_trends
from compile_hud.db.jobs.health import SchedulerState
from compile_hud.db.queries.alerts import load_alerts_with_ids, load_state_changes
from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.imported import is_imported
from compile_hud.db.records.results import Run, Verdict
from compile_hud.db.records.summaries import HistoryRun
from compile_hud.db.records.triage import worst_first
from compile_hud.db.shared.model_code import MODEL_COMMITS
from compile_hud.db.shared.settings_snapshot import SETTINGS_VARIABLE, settings_from_json
from compile_hud.runner.analysis.alerts.severity import worst_severity
from compile_hud.runner.analysis.trends.marks import trend_marks
from compile_hud.runner.analysis.trends.records import ModeTrends, TrendMark

# The panel is as high as the trend next to it.
MAX_EVENTS = 6
# A longer absence shows the changes of these days only.
_NEWS_REACH = timedelta(days=90)


def load_status(
    state: CaseState, overview: Overview, *, results: FilteredResults, now: datetime
) -> OverviewStatus:
    """Return the state of the machine and the toolchain of `results`."""
    machine, toolchain = results.machine, results.toolchain
    own = [item for item in overview.runs if item.run.machine == machine]
    run = next((item for item in own if item.run.toolchain == toolchain), None)
    items, num_hidden = open_items(state, results.alerts, now=now, newest_runs=results.newest_runs)
    others = [alert for alert in overview.alerts if alert.machine != machine]
    elsewhere, _ = open_items(CaseState(), others, now=now, newest_runs=())
    here = [item for item in load_schedulers() if item.machine == machine]
    runs = [item.run for item in overview.runs]
    return OverviewStatus(
        machine=machine,
        toolchain=toolchain,
        names_toolchain=results.has_several_toolchains or is_imported(toolchain),
        device="" if run is None else device_name(run.run),
        items=items,
        num_hidden=num_hidden,
        num_elsewhere=len(elsewhere),
        learning=learning_text(overview.runs, machine=machine, toolchain=toolchain),
        run=run,
        has_previous_run=run is not None and has_previous_run(run.run.id, runs),
        next_run=next_run([item for item in here if not item.is_silent(now=now)], now=now),
        has_scheduler=any(item.is_alive(now=now) for item in here),
    )


def load_attention(status: OverviewStatus) -> Attention:
    """Return the events of the open regressions of `status`, the worst first."""
    listed = load_alert_list("").value
    open_ids = {alert.id for item in status.items for alert in item.alerts}
    new_ids = {alert.id for item in status.items if item.is_new for alert in item.alerts}
    groups = [
        (group, tuple(alert for alert in group.alerts if alert.id in open_ids))
        for group in event_groups(listed.alerts, events=listed.events)
    ]
    ranks = [alert.id for alert in worst_first(alert for _, own in groups for alert in own)]
    groups = sorted(
        (pair for pair in groups if pair[1]), key=lambda pair: ranks.index(pair[1][0].id)
    )
    return Attention(
        items=tuple(
            _attention_item(
                group,
                own,
                new_ids=new_ids,
                values=listed.trends.get(own[0].series_key, ()),
                names_toolchain=status.names_toolchain,
            )
            for group, own in groups[:MAX_EVENTS]
        ),
        num_events=len(groups),
    )


def _attention_item(
    group: EventGroup,
    own: tuple[Alert, ...],
    *,
    new_ids: set[str],
    values: tuple[float, ...],
    names_toolchain: bool,
) -> AttentionItem:
    title = group.short_title
    toolchains = [f"toolchain {own[0].toolchain}"] if names_toolchain else []
    return AttentionItem(
        title=title.text,
        case=", ".join(filter(None, [" ".join(title.case), *toolchains])),
        url=group.url,
        severity=str(worst_severity(own)),
        alerts=own,
        owners=tuple(sorted({alert.owner for alert in own if alert.owner})),
        cause=cause_text(group),
        is_new=any(alert.id in new_ids for alert in own),
        levels=alert_text(group.title_alert).values if group.num_cases == 1 else "",
        values=values,
    )


def load_mode_trends(
    state: OverviewState, results: FilteredResults, *, now: datetime
) -> Loaded[ModeTrends]:
    """Return the trends of all modes over the range of `state`."""
    selection = TrendsState(
        device=state.device,
        phase=state.phase,
        dtype=state.dtype,
        shape=state.shape,
        model=state.model,
        range=state.range,
    )
    return load_trends(selection, machine=results.machine, toolchain=results.toolchain, now=now)


def load_news(overview: Overview, results: FilteredResults, *, since: datetime | None) -> News:
    """Return the changes on the machine and toolchain of `results` since a visit."""
    machine, toolchain = results.machine, results.toolchain
    runs = [
        item.run
        for item in overview.runs
        if (item.run.machine, item.run.toolchain) == (machine, toolchain) and item.num_by_outcome
    ]
    baseline, newest = compared_runs(runs, since=since)
    start = since or (newest.started_at if newest else None)
    changes = [] if start is None else _news_changes(machine, toolchain, runs=runs, start=start)
    marks = pair_marks(baseline, newest) if baseline and newest else ()
    return News(
        since=since,
        baseline=baseline,
        newest=newest,
        groups=tuple(news_groups(marks, changes)),
    )


def _news_changes(
    machine: str, toolchain: str, *, runs: Sequence[Run], start: datetime
) -> list[StateChange]:
    """Return the changes that were judged from `start` on, without those of older runs."""
    earliest = first_possible(runs, since=start)
    return [
        item
        for item in _load_changes(machine, toolchain).value
        if item.at >= start and happened_at(item.alert) >= earliest
    ]


def pair_marks(before: Run, after: Run) -> tuple[TrendMark, ...]:
    """Return the marks of the second of two runs: torch, machine and model code that differ."""
    runs = [
        HistoryRun(
            id=run.id,
            at=run.started_at,
            suite=run.suite,
            revision=run.revision,
            fingerprint=run.fingerprint,
            model_commits=run.environment.get(MODEL_COMMITS) or {},
        )
        for run in (before, after)
    ]
    return trend_marks(
        runs,
        alerts=(),
        remarks=(),
        environments={run.id: run.environment for run in (before, after)},
        cases=(),
        is_selected=lambda _: True,
    )


@cached_read
def _load_changes(at: StoreVersion, machine: str, toolchain: str) -> tuple[StateChange, ...]:
    """Return the fixed alerts and the improvements of the last weeks, the newest first.

    An alert counts if its state is still that of the change.
    """
    states = (AlertState.FIXED, AlertState.OPEN)
    since = clock.now() - _NEWS_REACH
    with at.store.reading():
        changes = load_state_changes(at.store, states=states, since=since)
        alerts = load_alerts_with_ids(at.store, {item.alert_id for item in changes})
    by_id = {
        alert.id: alert
        for alert in alerts
        if (alert.machine, alert.toolchain) == (machine, toolchain)
        and not alert.case.is_reference
        and (alert.state is AlertState.FIXED or alert.verdict is Verdict.IMPROVEMENT)
    }
    return tuple(
        StateChange(at=item.at, alert=by_id[item.alert_id])
        for item in reversed(changes)
        if item.alert_id in by_id and item.new == str(by_id[item.alert_id].state)
    )


def open_items(
    state: CaseState, alerts: Sequence[Alert], *, now: datetime, newest_runs: Collection[str]
) -> tuple[list[ActionItem], int]:
    """Return the cases with open regressions of the code, the worst first.

    The number is that of the cases that the filters of `state` hide. Muted alerts are left out. An
    item is new if its first bad run is among `newest_runs`.
    """
    regressions = worst_first(alert for alert in alerts if needs_attention(alert, at=now))
    items = action_items(regressions, newest_runs=newest_runs)
    shown = [item for item in items if lets_through(state, item.worst.case)]
    return shown, len(items) - len(shown)


def action_items(alerts: Sequence[Alert], *, newest_runs: Collection[str]) -> list[ActionItem]:
    """Return the cases of `alerts`, which come the worst first, in the same order."""
    by_case: dict[tuple[str, str, str], list[Alert]] = {}
    for alert in alerts:
        by_case.setdefault(case_of(alert), []).append(alert)
    return [
        ActionItem(
            alerts=tuple(own),
            is_new=any(alert.first_bad.run_id in newest_runs for alert in own),
        )
        for own in by_case.values()
    ]


def next_run(schedulers: Sequence[SchedulerState], *, now: datetime) -> NextRun | None:
    """Return the first run to come of the schedules of these schedulers."""
    upcoming = [
        NextRun(schedule=item.name, at=item.next_at)
        for scheduler in schedulers
        for item in scheduler.schedules
        if item.next_at is not None and item.next_at > now
    ]
    return min(upcoming, key=lambda item: (item.at, item.schedule), default=None)


def device_name(run: Run) -> str:
    """Return the name of the device of a run, "" if it was not recorded."""
    names = (run.environment.get(name) for name in ("device_name", "cpu_model"))
    return next((str(name) for name in names if name), "")


def next_steps(status: OverviewStatus) -> tuple[NextStep, ...]:
    """Return the steps after a first run: a schedule, a receiver and an own model."""
    settings = settings_from_json(os.environ.get(SETTINGS_VARIABLE, ""))
    sections = {item.section.partition(".")[0] for item in settings if item.is_set}
    return (
        NextStep(
            title="Measure every night",
            setting='`[schedules.night]` with `at = "02:30"` in hud.toml',
            command="hud schedule",
            is_done=status.next_run is not None,
        ),
        NextStep(
            title="Send alerts",
            setting="`[receivers.NAME]` in hud.toml: Slack, email, GitHub, webhook",
            command="hud alerts test",
            is_done="receivers" in sections,
        ),
        NextStep(
            title="Add your model",
            setting='`[models.NAME]` with `build = "FILE.py"` in hud.toml',
            command="hud run --model NAME",
            is_done="models" in sections,
        ),
    )
