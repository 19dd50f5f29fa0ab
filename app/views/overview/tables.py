"""The alerts that need no attention, and the rows of the trend. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial

from markupsafe import Markup

from compile_hud.app.components.alert_rows import (
    ALERT_COLUMNS,
    IMPROVEMENT_COLUMNS,
    alert_row,
    is_by_machine,
    lets_through,
    open_alerts,
)
from compile_hud.app.data.latest_results import NUM_BASELINE_RUNS
from compile_hud.app.data.runs import MAX_RUNS
from compile_hud.app.ui.format import moment
from compile_hud.app.ui.html import collapsible, table
from compile_hud.app.ui.urls import OVERVIEW_TRENDS, OverviewState
from compile_hud.app.views.overview.charts import Lane, TrendLine, TrendPlot
from compile_hud.app.views.trends.tables import metric_scale, point_rows, time_text
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.results import Outcome, Verdict
from compile_hud.db.records.summaries import LatestCell, RunSummary
from compile_hud.db.records.triage import is_muted
from compile_hud.db.shared.text import counted, one_line, shortened
from compile_hud.runner.analysis.trends.records import MarkKind, ModeTrend, ModeTrends, TrendMark

# The lanes of events below a trend, and the kinds of marks in each.
_LANES = (
    ("alerts", MarkKind.ALERT),
    ("torch", MarkKind.REVISION),
    ("driver", MarkKind.ENVIRONMENT),
    ("code", MarkKind.MODEL_CODE),
    ("notes", MarkKind.ANNOTATION),
)
_TEXT_LENGTH = 90


def alert_sections(
    state: OverviewState, alerts: Sequence[Alert], *, now: datetime, names_toolchain: bool = False
) -> list[Markup]:
    """Return the open alerts that need no attention, each kind behind a fold.

    These are muted regressions, changes of the machine, and improvements. `names_toolchain` adds
    the toolchain of an alert to its row.
    """
    open_regressions = open_alerts(alerts, verdict=Verdict.REGRESSION)
    draw = partial(_alert_table, now=now, names_toolchain=names_toolchain)
    kinds = (
        (
            "Muted",
            "muted regressions",
            [
                alert
                for alert in open_regressions
                if is_muted(alert, at=now) and not is_by_machine(alert)
            ],
        ),
        ("Attributed to the machine", "machine side", filter(is_by_machine, open_regressions)),
        ("Improvements", "improvements", open_alerts(alerts, verdict=Verdict.IMPROVEMENT)),
    )
    return [
        collapsible(f"{title}: {len(own)}", draw(own, label=label))
        for title, label, selected in kinds
        if (own := [alert for alert in selected if _concerns(state, alert)])
    ]


def learning_text(runs: Sequence[RunSummary], *, machine: str, toolchain: str) -> str:
    """Return the number of runs that make the baseline, "" if there are enough to judge one."""
    num = sum(
        (summary.run.machine, summary.run.toolchain) == (machine, toolchain)
        and bool(summary.num_by_outcome.get(Outcome.OK))
        for summary in runs
    )
    # Runs beyond the newest ones are not counted.
    if num >= NUM_BASELINE_RUNS or len(runs) >= MAX_RUNS:
        return ""
    return f"Learning: {num} of {counted(NUM_BASELINE_RUNS, 'run')}"


def unwatched_text(cells: Sequence[LatestCell], *, alerts: Sequence[Alert]) -> str:
    """Return the number of results that are not ok and have no open alert, "" for none."""
    regressions = open_alerts(alerts, verdict=Verdict.REGRESSION)
    watched = {(alert.case.key, alert.machine, alert.toolchain) for alert in regressions}
    num = sum(
        not cell.summary.outcome.is_expected
        and (cell.summary.case.key, cell.machine, cell.toolchain) not in watched
        for cell in cells
    )
    if not num:
        return ""
    return (
        f"{counted(num, 'case')} not ok and without an open alert: not ok since the first night,"
        " triaged, or not judged yet."
    )


def _concerns(state: OverviewState, alert: Alert) -> bool:
    # The reference cases are those of the machine, whatever the filters select.
    return alert.case.is_reference or lets_through(state, alert.case)


def _alert_table(
    alerts: Sequence[Alert], *, now: datetime, names_toolchain: bool, label: str
) -> Markup:
    is_better = all(alert.verdict is Verdict.IMPROVEMENT for alert in alerts)
    columns = IMPROVEMENT_COLUMNS if is_better else ALERT_COLUMNS
    rows = [alert_row(alert, now=now, names_toolchain=names_toolchain) for alert in alerts]
    return table(columns, rows, label=label)


def dead_letter_notice(counts: Mapping[str, int]) -> str:
    """Return the banner of failed notifications, by receiver; "" without any."""
    if not counts:
        return ""
    text = ", ".join(f"{number} to {name}" for name, number in sorted(counts.items()))
    return (
        f"Failed notifications: {text}. `hud alerts outbox` says why, `hud alerts"
        " resend` sends them again."
    )


def trend_plots(trends: ModeTrends, *, metric: str) -> list[TrendPlot]:
    """Return a plot of `metric` for each phase and device, none without two runs."""
    own = [trend for trend in trends.trends if trend.metric == metric]
    if not own or len(trends.runs) < 2:
        return []
    scale = metric_scale(own)
    labels = list(dict.fromkeys(trend.label for trend in own))
    return [
        TrendPlot(
            title=label,
            unit=scale.unit,
            lines=[
                TrendLine(
                    mode=trend.mode,
                    text=f"{trend.mode} {scale.text(trend.points[-1].value)}",
                    points=point_rows(trend, scale=scale),
                )
                for trend in own
                if trend.label == label
            ],
            lanes=list(_lanes(trends.marks, [trend for trend in own if trend.label == label])),
            time=(time_text(trends.runs[0].at), time_text(trends.runs[-1].at)),
        )
        for label in labels
    ]


def _lanes(marks: Sequence[TrendMark], trends: Sequence[ModeTrend]) -> Iterator[Lane]:
    for name, kind in _LANES:
        events = [
            {
                "at": time_text(mark.at),
                "when": moment(mark.at),
                "text": shortened(one_line(mark.text), limit=_TEXT_LENGTH),
                "verdict": mark.verdict,
            }
            for mark in marks
            if mark.kind is kind
            and (kind is not MarkKind.ALERT or any(map(mark.belongs_to, trends)))
        ]
        if events:
            yield Lane(name=name, events=events)


def trend_metrics(trends: ModeTrends, *, chosen: str) -> list[str]:
    """Return the metrics that have a trend, and the chosen one."""
    present = {trend.metric for trend in trends.trends} | {chosen}
    return [name for name in OVERVIEW_TRENDS if name in present]
