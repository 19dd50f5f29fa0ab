"""A series as Markdown for an issue or a message, and as a table for a spreadsheet. Pure."""

from __future__ import annotations

from compile_hud.app.components.trend.rows import alerts_of, point_note, unit_of
from compile_hud.app.data.page_records import SeriesPage
from compile_hud.app.ui.csv import CsvValue, csv_text
from compile_hud.app.ui.format import estimate, moment
from compile_hud.app.ui.share import code, summary_text
from compile_hud.app.views.series.tables import alert_notices
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.metrics import metric_label
from compile_hud.db.shared.text import counted

_COLUMNS = (
    "run_started_utc",
    "median",
    "low",
    "high",
    "unit",
    "at_one_pace",
    "samples",
    "revision",
    "run",
    "result",
    "environment",
    "note",
)


def series_markdown(page: SeriesPage, *, metric: str, command: str) -> str:
    """Return the case, its newest value and its changes; HERE stands for the address."""
    lines = []
    if page.points:
        last = page.points[-1]
        unit = unit_of(page, metric=metric)
        value = estimate(last.median, low=last.low, high=last.high, unit=unit)
        when = f"{moment(last.at)}, {code(last.revision)}"
        lines.append(f"latest: {value} of {counted(last.num_samples, 'sample')} ({when})")
    lines += [code("; ".join(parts)) for parts in alert_notices(page, metric=metric)]
    title = f"{code(metric_label(metric))} of {code(page.case.key)} on {code(page.machine)}"
    return summary_text(title, lines=lines, command=command)


def series_csv(page: SeriesPage, *, metric: str) -> str:
    """Return every point as a row of a CSV file, oldest first, in the units of the store."""
    judged = {alert.first_bad.run_id: alert for alert in alerts_of(page, metric=metric)}
    unit = unit_of(page, metric=metric)
    rows: list[tuple[CsvValue, ...]] = [
        (
            f"{point.at:%Y-%m-%dT%H:%M:%SZ}",
            point.median,
            point.low,
            point.high,
            unit,
            page.normalised[index].median if page.normalised else None,
            point.num_samples,
            point.revision,
            point.run_id,
            point.result_id,
            point.fingerprint,
            _note(page, index, judged.get(point.run_id)),
        )
        for index, point in enumerate(page.points)
    ]
    return csv_text(_COLUMNS, rows)


def _note(page: SeriesPage, index: int, alert: Alert | None) -> str:
    """Return the note on a point, and the annotations since the previous point."""
    after = page.points[index - 1].at if index else None
    annotated = [
        f"annotation: {item.text}"
        for item in page.annotations
        if (after is None or after < item.at) and item.at <= page.points[index].at
    ]
    return ", ".join(filter(None, [point_note(page.points, index, alert), *annotated]))
