"""The changes since the last visit: torch, driver, model code, fixed alerts, improvements. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from markupsafe import Markup

from compile_hud.app.ui.alert_text import alert_text
from compile_hud.app.ui.format import age, local_moment
from compile_hud.app.ui.templates.environment import render
from compile_hud.app.ui.urls import CompareState, compare_url, decide_url
from compile_hud.app.views.overview.records import News, NewsGroup, StateChange
from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.results import Run, Verdict
from compile_hud.runner.analysis.trends.records import MarkKind, TrendMark

# A group shows so many; the others are counted.
_MAX_ITEMS = 5
_LATENCY = "latency_s"
# The detector reports nine of ten steps within six nights, a return within three
# (docs/explanation/detection-measurements.md).
_DETECTION_RUNS = 6
_MARKS = (
    ("torch", MarkKind.REVISION),
    ("driver and machine", MarkKind.ENVIRONMENT),
    ("model code", MarkKind.MODEL_CODE),
)


def compared_runs(runs: Sequence[Run], *, since: datetime | None) -> tuple[Run | None, Run | None]:
    """Return the last run before the visit at `since` and the newest one.

    `runs` come newest first. Without a visit the first is the run before; it is the oldest one if
    all are newer than the visit. Both are the same if no run is newer.
    """
    if not runs:
        return None, None
    if since is None:
        return (runs[1] if len(runs) > 1 else None), runs[0]
    seen = next((run for run in runs if (run.finished_at or run.started_at) <= since), None)
    return (seen or (runs[-1] if len(runs) > 1 else None)), runs[0]


def first_possible(runs: Sequence[Run], *, since: datetime) -> datetime:
    """Return the earliest time of a change that runs from `since` on can have revealed.

    `runs` come newest first. A first judgement of an old history has many older changes, which are
    no news.
    """
    before = [run.started_at for run in runs if run.started_at < since]
    return min([since - timedelta(days=_DETECTION_RUNS), *before[:_DETECTION_RUNS]])


def happened_at(alert: Alert) -> datetime:
    """Return the time of an improvement's first run, or when a fixed alert was seen last."""
    return alert.last_seen if alert.state is AlertState.FIXED else alert.first_bad.at


def news_groups(marks: Iterable[TrendMark], changes: Iterable[StateChange]) -> list[NewsGroup]:
    """Return the groups that have something, of the marks between two runs and of alerts."""
    marks, changes = list(marks), list(changes)
    groups = [
        (title, [(mark.text, "") for mark in marks if mark.kind is kind]) for title, kind in _MARKS
    ]
    fixed = [item.alert for item in changes if item.alert.state is AlertState.FIXED]
    better = [
        item.alert
        for item in changes
        if item.alert.verdict is Verdict.IMPROVEMENT and item.alert.state is not AlertState.FIXED
    ]
    for title, alerts in (("fixed", fixed), ("improvements", better)):
        groups.append((title, [(_alert_line(own), decide_url(own.id)) for own in _by_case(alerts)]))
    return [
        NewsGroup(title=title, items=tuple(items[:_MAX_ITEMS]), num_all=len(items))
        for title, items in groups
        if items
    ]


def _by_case(alerts: Iterable[Alert]) -> list[Alert]:
    """Return one alert of each case, that of its latency if it has one."""
    firsts: dict[str, Alert] = {}
    for alert in alerts:
        known = firsts.setdefault(alert.case.key, alert)
        if alert.metric == _LATENCY and known.metric != _LATENCY:
            firsts[alert.case.key] = alert
    return list(firsts.values())


def _alert_line(alert: Alert) -> str:
    case = alert.case
    return f"{case.model} / {case.variant}, {case.phase}: {alert_text(alert).mark}"


def news_html(news: News, *, now: datetime) -> Markup:
    """Return the changes side by side, with the comparison of both runs."""
    url = ""
    baseline, newest = news.baseline, news.newest
    if baseline is not None and newest is not None and baseline.id != newest.id:
        url = compare_url(CompareState(baseline=baseline.id, candidate=newest.id))
    since = _since_text(news, now=now)
    return render("overview.html", "news", href=url, since=since, groups=news.groups)


def _since_text(news: News, *, now: datetime) -> str:
    """Return the time that the changes are of."""
    newest, nothing = news.newest, "" if news.groups else ": nothing"
    if newest is None or news.baseline is None:
        return "Changes appear with the second run."
    if news.since is None:
        return f"Since the run before, {local_moment(news.baseline.started_at)}{nothing}."
    text = f"Since your last visit {age(news.since, now=now)}"
    if news.baseline.id == newest.id:
        return f"{text}: no new run{'' if news.groups else ', nothing'}."
    return f"{text}{nothing}."
