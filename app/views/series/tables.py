"""The tables and facts of the series page. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from compile_hud.app.components.matrix.result_matrix import DIMENSIONS, variants_in_order
from compile_hud.app.components.table.columns import (
    ChangeColumn,
    DataTable,
    IntervalColumn,
    Link,
    LinkColumn,
    NumberColumn,
    TextColumn,
    VerdictColumn,
    data_table,
)
from compile_hud.app.components.trend.rows import (
    alert_label,
    alerts_of,
    change_pct_from_previous,
    point_note,
    unit_of,
)
from compile_hud.app.data.page_records import SeriesPage
from compile_hud.app.ui.alert_text import alert_text
from compile_hud.app.ui.format import (
    Scale,
    estimate,
    is_interval,
    local_moment,
    moment,
    outcome_label,
    quantity,
)
from compile_hud.app.ui.html import Cell, HtmlColumn, key_values, table, time_cell
from compile_hud.app.ui.urls import FINDINGS, decide_url, kernels_url, run_url, series_url
from compile_hud.app.views.kernel_diff.links import point_link
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.findings import Finding
from compile_hud.db.records.metrics import METRICS, metric_label, metric_of
from compile_hud.db.records.results import Outcome, Verdict
from compile_hud.db.records.summaries import OutcomePoint, TrendPoint
from compile_hud.db.shared.text import short_revision

# So many of the last outcomes are shown.
_NUM_OUTCOMES = 20
# The tab Findings has the others.
_NUM_FINDINGS = 3
INTERVAL_HELP = "of the median; one sample has none"


def metrics_of(page: SeriesPage) -> list[str]:
    """Return the metrics the case has on the page's machine, as the metric table orders them."""
    names = {header.metric for header in page.headers if header.machine == page.machine}
    return [name for name in METRICS if name in names] + sorted(names - set(METRICS))


def header_facts(page: SeriesPage, *, metric: str) -> list[tuple[str, Cell]]:
    """Return the facts of the case, its newest estimate and the run of that."""
    case = page.case
    pairs = [(name, Cell(text=str(getattr(case, name)))) for name in DIMENSIONS]
    if not page.points:
        return pairs
    last = page.points[-1]
    shown = estimate(last.median, low=last.low, high=last.high, unit=unit_of(page, metric=metric))
    return [
        *pairs,
        *_direction_fact(page, metric=metric),
        (f"latest {metric_label(metric)}", Cell(text=shown)),
        *_level_fact(page, metric=metric),
        ("measured", time_cell(last.at, href=run_url(last.run_id, case_key=case.key))),
        ("revision", Cell(text=last.revision)),
        ("points", Cell(text=str(len(page.points)))),
    ]


def _direction_fact(page: SeriesPage, *, metric: str) -> list[tuple[str, Cell]]:
    """Return the better direction of an imported metric, and its source."""
    if metric in METRICS:
        return []
    key = page.points[-1].series_key
    stated = next((item.direction for item in page.headers if item.key == key), None)
    known = metric_of(metric, unit=unit_of(page, metric=metric), stated=stated)
    if known is None:
        text = "neither, as its records say" if stated else "direction unknown"
        return [("better", Cell(text=f"{text}: not judged"))]
    who = "as its records say" if stated else "by its name and unit"
    return [("better", Cell(text=f"{str(known.direction).split('_')[0]}, {who}"))]


def _level_fact(page: SeriesPage, *, metric: str) -> list[tuple[str, Cell]]:
    if not page.normalised:
        return []
    level = quantity(page.normalised[-1].median, unit_of(page, metric=metric))
    return [("normalised", Cell(text=level, title="the judged value"))]


def point_facts(
    page: SeriesPage, point: TrendPoint, *, metric: str, profiled: Collection[str] = ()
) -> list[tuple[str, Cell]]:
    """Return the estimate of a point and its basis.

    `profiled` are the ids of the runs that have kernels of the case.
    """
    unit = unit_of(page, metric=metric)
    is_single = point.num_samples == 1 and not is_interval(point.low, point.high)
    return [
        ("estimate", Cell(text=estimate(point.median, low=point.low, high=point.high, unit=unit))),
        ("samples", Cell(text="1, so no interval" if is_single else str(point.num_samples))),
        ("revision", Cell(text=point.revision)),
        *(_kernels_fact(page, point) if point.run_id in profiled else []),
    ]


def _kernels_fact(page: SeriesPage, point: TrendPoint) -> list[tuple[str, Cell]]:
    href = kernels_url(point.run_id, case_key=page.case.key)
    return [("where its time went", Cell(text="kernels", href=href))]


def sibling_table(page: SeriesPage, *, metric: str) -> str:
    """Return the other variants of the same model and case as one row, "" when there is none."""
    by_variant = {header.case.variant: header for header in page.siblings}
    if len(by_variant) < 2:
        return ""
    names = variants_in_order(header.case for header in page.siblings)
    cells = []
    for name in names:
        header = by_variant[name]
        is_this = name == page.case.variant
        href = series_url(
            header.case.key, metric=metric, machine=page.machine, toolchain=page.toolchain
        )
        cells.append(
            Cell(
                text=quantity(header.last_value, header.unit),
                href="" if is_this else href,
                style="strong" if is_this else "",
                title=f"latest {metric_label(metric)}, {moment(header.last_at)}",
            )
        )
    columns = [HtmlColumn(label=name, is_number=True) for name in names]
    return table(columns, [cells], label="the same case in other variants")


def alert_notices(page: SeriesPage, *, metric: str) -> list[tuple[str, ...]]:
    """Return the change, the bounds and the cause of each alert of the series."""
    notices = []
    for alert in alerts_of(page, metric=metric):
        text = alert_text(alert)
        change = "; ".join(filter(None, (alert_label(alert, interval=text.interval), text.values)))
        cause = f"cause: {alert.cause_text}" if alert.cause_text else ""
        notices.append(tuple(filter(None, (change, text.bounds, cause))))
    return notices


def alert_links(page: SeriesPage, *, metric: str) -> str:
    """Return a link for each alert of the series to its triage page, "" for none."""
    alerts = alerts_of(page, metric=metric)
    if not alerts:
        return ""
    return key_values(
        ("triage", Cell(text=alert_label(alert), href=decide_url(alert.id))) for alert in alerts
    )


def finding_links(findings: Sequence[Finding], *, run_id: str, case_key: str) -> str:
    """Return a row for each of the first findings of a run, which lead to all; "" for none."""
    if not findings:
        return ""
    url = run_url(run_id, case_key=case_key, tab=FINDINGS)
    texts = [
        f"{item.code}: {_finding_cost(item)}; {item.text}" for item in findings[:_NUM_FINDINGS]
    ]
    if len(findings) > _NUM_FINDINGS:
        texts.append(f"{len(findings) - _NUM_FINDINGS} more")
    return key_values(
        ("newest finding", Cell(text=text, href=url, style="coded")) for text in texts
    )


def _finding_cost(finding: Finding) -> str:
    if finding.cost_s is None:
        return finding.missing_cost_text
    return quantity(finding.cost_s, "s")


def point_table(
    page: SeriesPage, *, metric: str, scale: Scale, profiled: Collection[str] = ()
) -> DataTable:
    """Return all points, newest first.

    `profiled` are the ids of the runs that have kernels of the case.
    """
    unit = unit_of(page, metric=metric)
    judged = {alert.first_bad.run_id: alert for alert in alerts_of(page, metric=metric)}
    levels = NumberColumn(
        label="normalised", help="for machine speed; used for detection", unit=unit, scale=scale
    )
    columns = (
        LinkColumn(label="run started", help="opens the run", is_pinned=True),
        NumberColumn(label="median", unit=unit, scale=scale),
        IntervalColumn(label="95 % interval", help=INTERVAL_HELP, scale=scale),
        *([levels] if page.normalised else []),
        ChangeColumn(label="change", help="of the judged value, since the previous point"),
        NumberColumn(label="samples"),
        LinkColumn(label="single samples", help="draws them"),
        TextColumn(label="revision"),
        *([VerdictColumn(label="verdict")] if judged else []),
        TextColumn(label="note"),
        *(
            [LinkColumn(label="kernels", help="their changes since the previous point")]
            if profiled
            else []
        ),
    )
    rows = [
        (
            *_point_values(page, number, metric=metric),
            *([_verdict(judged.get(page.points[number].run_id))] if judged else []),
            point_note(page.points, number, judged.get(page.points[number].run_id)) or None,
            *(
                [point_link(page.points, number, case_key=page.case.key, profiled=profiled)]
                if profiled
                else []
            ),
        )
        for number in reversed(range(len(page.points)))
    ]
    return data_table(columns, rows, label="points")


def _point_values(page: SeriesPage, number: int, *, metric: str) -> tuple[object, ...]:
    point = page.points[number]
    samples = series_url(
        page.case.key,
        metric=metric,
        machine=page.machine,
        toolchain=page.toolchain,
        result=point.result_id,
    )
    return (
        Link(local_moment(point.at), run_url(point.run_id, case_key=page.case.key)),
        point.median,
        (point.low, point.high),
        *([page.normalised[number].median] if page.normalised else []),
        change_pct_from_previous(page.normalised or page.points, number),
        point.num_samples,
        Link("samples", samples),
        short_revision(point.revision),
    )


def _verdict(alert: Alert | None) -> Verdict | None:
    return None if alert is None else alert.verdict


def outcomes_without_value(page: SeriesPage) -> list[OutcomePoint]:
    """Return the outcomes without measurements, oldest first."""
    return [point for point in page.outcomes if point.outcome not in (None, Outcome.OK)]


def newer_outcome_notice(page: SeriesPage) -> str:
    """Return a sentence on the newest run if it has no value of the case, else ""."""
    ended = [point for point in page.outcomes if point.outcome is not None]
    if not ended or not page.points or ended[-1].outcome is Outcome.OK:
        return ""
    last = ended[-1]
    assert last.outcome is not None
    return (
        f"The newest run has no value: {outcome_label(last.outcome)} at {local_moment(last.at)}."
        f" The latest value is of {local_moment(page.points[-1].at)}."
    )


def outcome_table(points: Sequence[OutcomePoint], *, case_key: str) -> str:
    """Return the newest of these outcomes of a case, newest first; "" for none."""
    columns = (
        HtmlColumn(label="run started"),
        HtmlColumn(label="outcome"),
        HtmlColumn(label="revision"),
    )
    rows = [
        (
            time_cell(point.at, href=run_url(point.run_id, case_key=case_key)),
            Cell(text=outcome_label(point.outcome) if point.outcome else "no result"),
            Cell(text=short_revision(point.revision), style="revision"),
        )
        for point in reversed(points[-_NUM_OUTCOMES:])
    ]
    return table(columns, rows, label="outcomes") if rows else ""
