"""The rows of the charts of a series, in one scale. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from compile_hud.app.components.trend.chart import Trend, trend_spec
from compile_hud.app.components.trend.legend import trend_legend
from compile_hud.app.components.trend.window import thinned_indices
from compile_hud.app.data.page_records import EnvironmentChange, SeriesPage
from compile_hud.app.ui.alert_text import alert_text
from compile_hud.app.ui.charts import samples_spec
from compile_hud.app.ui.format import Scale, moment, outcome_label, scale_for
from compile_hud.app.ui.legend import LegendItem
from compile_hud.app.ui.urls import OUTCOME
from compile_hud.db.alerts.annotations import Annotation
from compile_hud.db.records.alerts import DRIFT, Alert, AlertState, began
from compile_hud.db.records.metrics import METRICS, metric_label
from compile_hud.db.records.results import Verdict
from compile_hud.db.records.summaries import MeasurementSummary, Sample, TrendPoint
from compile_hud.db.shared.text import (
    KIND_WORDS,
    counted_of,
    one_line,
    percent_interval,
    shortened,
)

_LABEL_LENGTH = 60
# There may be many, and the list below has the whole text of each.
_ANNOTATION_LENGTH = 40
_TOOLTIP_LENGTH = 240
# The title of a chart of samples has little room: its plot is some 160 pixels high.
_LINE_LENGTH = 24
# Labels of neighbouring changes alternate between rows.
_NUM_LABEL_ROWS = 3
# Further right, a label goes to the left of its line.
_RIGHT_PART = 0.6
_NAMED_DIFFERENCES = 2
# Today's annotation is later than the last night.
_MARGIN = timedelta(days=1)


def unit_of(page: SeriesPage, *, metric: str) -> str:
    """Return the unit of `metric`, from the table of metrics or as it was stored."""
    if metric in METRICS:
        return METRICS[metric].unit
    return next((item.unit for item in page.headers if item.metric == metric), "1")


def scale_of(page: SeriesPage, *, metric: str) -> Scale:
    """Return the one scale of a series' charts and tables."""
    return scale_for(unit_of(page, metric=metric), [point.median for point in page.points])


def trend_chart(
    *_key: object,
    metric: str,
    _page: SeriesPage,
    _samples: Mapping[str, Sequence[Sample]] | None = None,
) -> dict[str, Any]:
    """Return the trend for a picture, in UTC; `_key` identifies the page for a cache.

    `_samples` are the single samples to draw, by result.
    """
    trend = trend_of(_page, metric=metric, samples=_samples or {})
    return trend_spec(dataclasses.replace(trend, is_utc=True))


def trend_with_legend(
    *_key: object, metric: str, _page: SeriesPage, _samples: Mapping[str, Sequence[Sample]]
) -> tuple[dict[str, Any], tuple[LegendItem, ...], str]:
    """Return the trend in the time of the browser, its legend and its note, else as `trend_chart`.

    A page shows the note below the chart, where it wraps.
    """
    trend = trend_of(_page, metric=metric, samples=_samples)
    return trend_spec(dataclasses.replace(trend, note="")), trend_legend(trend), trend.note


def trend_of(page: SeriesPage, *, metric: str, samples: Mapping[str, Sequence[Sample]]) -> Trend:
    """Return the rows of the trend of `metric`; `samples` are those to draw, by result."""
    scale = scale_of(page, metric=metric)
    points = point_rows(page, metric=metric, scale=scale)
    drawn = drawn_indices(page, metric=metric)
    return Trend(
        title=_axis_title(metric, scale),
        points=[points[index] for index in drawn],
        bands=band_rows(page, scale=scale),
        marks=mark_rows(page, metric=metric, scale=scale),
        failures=failure_rows(page),
        samples=raw_rows(page, samples, scale=scale),
        note=thinned_note(len(drawn), of=len(points)),
    )


def drawn_indices(page: SeriesPage, *, metric: str) -> list[int]:
    """Return the indices of the points to draw: extremes of a long series, and every change.

    The extremes are those of the normalised values, if there are any, since the detector judges
    these.
    """
    judged = {alert.first_bad.run_id for alert in alerts_of(page, metric=metric)}
    judged |= {item.last_good.run_id for item in alerts_of(page, metric=metric) if item.last_good}
    changed = judged | {change.run_id for change in page.environment_changes}
    always = [index for index, point in enumerate(page.points) if point.run_id in changed]
    return thinned_indices(
        [point.median for point in page.normalised or page.points], always=always
    )


def thinned_note(num_drawn: int, *, of: int) -> str:
    """Return the caption of a chart that draws only some of its points, else ""."""
    if num_drawn == of:
        return ""
    return (
        f"{counted_of(num_drawn, of, 'run')} are drawn: the least and the largest of each stretch,"
        " and every"
        " change. A shorter part shows all runs."
    )


def raw_rows(
    page: SeriesPage, samples: Mapping[str, Sequence[Sample]], *, scale: Scale
) -> list[dict[str, Any]]:
    """Return a row for each sample of each point, without warm-ups."""
    return [
        {"at": _time(point.at), "value": sample.value / scale.factor}
        for point in page.points
        for sample in samples.get(point.result_id, ())
        if not sample.is_warmup
    ]


def samples_chart(
    *_key: object, metric: str, result_id: str, _page: SeriesPage, _samples: Sequence[Sample]
) -> dict[str, Any]:
    """Return the specification of the samples of the point of a result, in the scale of its series.

    `_key` identifies the page for a cache.
    """
    scale = scale_of(_page, metric=metric)
    point = next(item for item in _page.points if item.result_id == result_id)
    return samples_spec(
        samples=sample_rows(_samples, scale=scale),
        median=point.median / scale.factor,
        low=point.low / scale.factor,
        high=point.high / scale.factor,
        title=_title_lines(metric, scale),
    )


def result_samples_chart(
    measured: MeasurementSummary, *, samples: Sequence[Sample]
) -> dict[str, Any]:
    """Return the specification of the samples of one measurement of a case result."""
    scale = scale_for(measured.unit, [measured.median])
    return samples_spec(
        samples=sample_rows(samples, scale=scale),
        median=measured.median / scale.factor,
        low=measured.low / scale.factor,
        high=measured.high / scale.factor,
        title=_title_lines(measured.metric, scale),
    )


def point_rows(page: SeriesPage, *, metric: str, scale: Scale) -> list[dict[str, Any]]:
    """Return a row for each point, oldest first; the first of a new level has its verdict.

    The points of a drift have no verdict.
    """
    judged = {alert.first_bad.run_id: alert for alert in alerts_of(page, metric=metric)}
    changed = {change.run_id for change in page.environment_changes}
    rows = []
    segment = 0
    for number, point in enumerate(page.points):
        segment += point.run_id in changed
        alert = judged.get(point.run_id)
        level = page.normalised[number].median if page.normalised else None
        rows.append(
            {
                "at": _time(point.at),
                "value": point.median / scale.factor,
                "low": point.low / scale.factor,
                "high": point.high / scale.factor,
                "segment": str(segment),
                "verdict": str(
                    alert.verdict if alert and alert.kind != DRIFT else Verdict.UNCHANGED
                ),
                "shown": scale.estimate(point.median, low=point.low, high=point.high),
                "num_samples": point.num_samples,
                "revision": shortened(point.revision, limit=_LABEL_LENGTH),
                "when": moment(point.at),
                "text": point_note(page.points, number, alert),
                "is_new_revision": has_new_revision(page.points, number),
                "run_id": point.run_id,
                "result_id": point.result_id,
                **({} if level is None else _level_values(level, scale)),
            }
        )
    return rows


def _level_values(level: float, scale: Scale) -> dict[str, Any]:
    return {"level": level / scale.factor, "level_shown": scale.text(level)}


def point_note(points: Sequence[TrendPoint], number: int, alert: Alert | None) -> str:
    """Return the note on a point: a verdict, a new environment; "" for none."""
    notes = [alert_label(alert)] if alert else []
    if number and points[number - 1].fingerprint != points[number].fingerprint:
        notes.append("new baseline: the environment changed")
    return ", ".join(notes)


def has_new_revision(points: Sequence[TrendPoint], number: int) -> bool:
    """Return whether the revision differs from that of the previous point."""
    return number > 0 and points[number - 1].revision != points[number].revision


def band_rows(page: SeriesPage, *, scale: Scale) -> list[dict[str, Any]]:
    """Return a row for each noise band."""
    return [
        {
            "start": _time(band.start),
            "end": _time(band.end),
            "level": band.level / scale.factor,
            "low": band.low / scale.factor,
            "high": band.high / scale.factor,
        }
        for band in page.bands
    ]


def mark_rows(page: SeriesPage, *, metric: str, scale: Scale) -> list[dict[str, Any]]:
    """Return a row for each alert, change of the environment and annotation, oldest first.

    Annotations long before or after the points are left out: they would compress the points.

    The row of an alert also has its last good run, its cause and its note. The row of a drift has
    its levels and times. If a part of the series does not have the run where a drift was first
    seen, the row has the nearest point and `is_elsewhere`.
    """
    marks: list[tuple[datetime, str, str, dict[str, Any]]] = [
        _alert_mark(alert, page, scale) for alert in alerts_of(page, metric=metric)
    ]
    marks += [(change.at, change_label(change), "", {}) for change in page.environment_changes]
    times = [point.at for point in page.points] or [at for at, *_ in marks]
    marks += [
        (item.at, annotation_label(item), "", {"said": _annotation_text(item)})
        for item in page.annotations
        if times and min(times) - _MARGIN <= item.at <= max(times) + _MARGIN
    ]
    rows = []
    for number, (at, text, verdict, more) in enumerate(sorted(marks, key=lambda item: item[:3])):
        width = max(times) - min(times)
        is_right = bool(width) and (at - min(times)) / width > _RIGHT_PART
        rows.append(
            {
                "at": _time(at),
                "text": text,
                "verdict": verdict,
                "row": number % _NUM_LABEL_ROWS,
                "side": "left" if is_right else "right",
                **more,
            }
        )
    return rows


def _alert_mark(
    alert: Alert, page: SeriesPage, scale: Scale
) -> tuple[datetime, str, str, dict[str, Any]]:
    """Return the moment of an alert, its label, its verdict, and further fields of its row."""
    at, text, about = alert.first_bad.at, _mark_text(alert), _about(alert, page, scale)
    is_inside = not page.points or page.points[0].at <= at <= page.points[-1].at
    if alert.kind == DRIFT and not is_inside:
        text += f", first seen {moment(at)}"
        at = min(max(at, page.points[0].at), page.points[-1].at)
        about["is_elsewhere"] = True
    return at, text, str(alert.verdict), about


def _mark_text(alert: Alert) -> str:
    """Return the label at an alert's line, with the interval of its change and its note."""
    text = alert_label(alert)
    if alert.interval_pct:
        text += f", {percent_interval(alert.interval_pct)}"
    return (
        shortened(f'{text}: "{one_line(alert.note)}"', limit=_LABEL_LENGTH) if alert.note else text
    )


def _about(alert: Alert, page: SeriesPage, scale: Scale) -> dict[str, Any]:
    about: dict[str, Any] = {
        "cause": shortened(one_line(alert.cause_text), limit=_TOOLTIP_LENGTH),
        "said": shortened(one_line(alert.note), limit=_TOOLTIP_LENGTH),
    }
    if alert.last_good is not None and alert.kind != DRIFT:
        about["after"] = _time(alert.last_good.at)
        about["between"] = f"{moment(alert.last_good.at)} and {moment(alert.first_bad.at)}"
    return {**about, **_slope(alert, page, scale)}


def _slope(alert: Alert, page: SeriesPage, scale: Scale) -> dict[str, Any]:
    """Return the line of a drift, cut to the points that are shown."""
    if alert.kind != DRIFT or alert.baseline is None or alert.candidate is None:
        return {}
    ends = began(alert).at, alert.last_seen
    since = max([ends[0], *(point.at for point in page.points[:1])])
    until = min([ends[1], *(point.at for point in page.points[-1:])])
    if since >= until:
        return {}
    rise = (alert.candidate - alert.baseline) / (ends[1] - ends[0]).total_seconds()
    first, last = (alert.baseline + rise * (at - ends[0]).total_seconds() for at in (since, until))
    return {
        "since": _time(since),
        "until": _time(until),
        "from": first / scale.factor,
        "to": last / scale.factor,
    }


def failure_rows(page: SeriesPage) -> list[dict[str, Any]]:
    """Return a row for each run in which the case was planned and gave no number."""
    return [
        {
            "at": _time(point.at),
            "text": outcome_label(point.outcome) if point.outcome else "no result",
            "revision": shortened(point.revision, limit=_LABEL_LENGTH),
            "when": moment(point.at),
            "run_id": point.run_id,
        }
        for point in page.outcomes
        if not (point.outcome is not None and point.outcome.is_expected)
        and (point.outcome or str(point.run_state) != "running")
    ]


def sample_rows(samples: Sequence[Sample], *, scale: Scale) -> list[dict[str, Any]]:
    """Return a row for each sample; launches are counted from 1."""
    counts: dict[tuple[int, bool], int] = {}
    num_warmups = {sample.launch: 0 for sample in samples}
    for sample in samples:
        num_warmups[sample.launch] += sample.is_warmup
    rows = []
    for sample in samples:
        key = (sample.launch, sample.is_warmup)
        counts[key] = counts.get(key, 0) + 1
        before = 0 if sample.is_warmup else num_warmups[sample.launch]
        rows.append(
            {
                "launch": sample.launch + 1,
                "position": counts[key] + before,
                "value": sample.value / scale.factor,
                "kind": "warm-up" if sample.is_warmup else "sample",
                "shown": scale.text(sample.value),
            }
        )
    return rows


def alerts_of(page: SeriesPage, *, metric: str) -> list[Alert]:
    """Return the alerts to mark in the chart of `metric`: its own and those about outcomes."""
    return [alert for alert in page.alerts if alert.metric in (metric, OUTCOME)]


def alert_label(alert: Alert, *, interval: str = "") -> str:
    """Return the label at an alert's line: `regression: +21.3 %`, `drift: +4 %, noise`.

    `interval` goes after the change.
    """
    state = "" if alert.state is AlertState.OPEN else f", {alert.state}"
    name = KIND_WORDS.get(alert.kind, alert.verdict)
    return f"{name}: {alert_text(alert).named_change}{interval and f' {interval}'}{state}"


def change_label(change: EnvironmentChange) -> str:
    """Return the label at a new environment, `new baseline: driver_version 550 -> 560`."""
    named = [f"{name} {old} -> {new}" for name, old, new in change.differences[:_NAMED_DIFFERENCES]]
    more = len(change.differences) - len(named)
    text = ", ".join(named) + (f" and {more} more" if more > 0 else "")
    return shortened(f"new baseline: {text or 'environment changed'}", limit=_LABEL_LENGTH)


def annotation_label(annotation: Annotation) -> str:
    """Return the label at an annotation, `annotation: new driver`."""
    return shortened(f"annotation: {one_line(annotation.text)}", limit=_ANNOTATION_LENGTH)


def _annotation_text(annotation: Annotation) -> str:
    text = f"{one_line(annotation.by)}: {one_line(annotation.text)}"
    return shortened(text, limit=_TOOLTIP_LENGTH)


def change_pct_from_previous(points: Sequence[TrendPoint], number: int) -> float | None:
    """Return the change from the previous point; None across a change of environment, or from 0."""
    if number == 0 or points[number - 1].fingerprint != points[number].fingerprint:
        return None
    before = points[number - 1].median
    return (points[number].median / before - 1) * 100 if before else None


def _time(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _axis_title(metric: str, scale: Scale) -> str:
    unit = f" ({scale.unit})" if scale.unit else ""
    return metric_label(metric) + unit


def _title_lines(metric: str, scale: Scale) -> list[str]:
    """Return the title of an axis in the lines that a chart of samples has room for."""
    whole = _axis_title(metric, scale)
    if len(whole) <= _LINE_LENGTH or not scale.unit:
        return [whole]
    return [metric_label(metric), f"({scale.unit})"]
