"""The texts of an alert: computed once, and shown by every table, page and message. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from compile_hud.app.ui.format import change_text, duration, moment
from compile_hud.app.ui.theme import VERDICT_STYLES
from compile_hud.app.ui.urls import DEFAULT_SERIES_METRIC, OUTCOME, series_url
from compile_hud.db.records.alerts import MASKED, VANISHED, Alert, alert_bounds, began, state_word
from compile_hud.db.records.metrics import metric_label
from compile_hud.db.records.results import Case, Verdict
from compile_hud.db.shared.text import percent_interval, short_revision, with_kind

# The title of the bounds of an alert that is no regression.
_BETTER_WORDS = {"last good": "last before", "first bad": "first better"}
_METHODS = {
    "in_turn": "in turn with toolchain {toolchain}, {num_launches} launches a side",
    "history": "against the history",
    "repeat": "repeated",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertText:
    """The texts of one alert.

    - `topic`: a metric, its drift or noise, or the word for a case without a number.
    - `change`: a short text such as `+21.3 %`, `0 -> 2`, `failing`, `missing`.
    - `named_change`: the same for texts without the metric: `+21.3 %`, `speedup missing`.
    - `mark`: a note in a cell: `latency +21.3 %`, `failing`.
    - `values`: the levels before and after in one unit, `12.3 -> 14.9 ms`; may be empty.
    - `interval`: the interval of the change; may be empty.
    - `metric`: that of the series that shows the alert, "" for one about an outcome or a kernel.
    - `shown_metric`: the same, the default one for an alert about an outcome or a kernel.
    - `url`: the relative URL of that series.
    - `bounds`: the revisions on both sides of the change, each with its time.
    - `confirmation`: the result of re-measuring the alert, "" without one.
    - `bisection`: the result of the search for its revision, "" before one.
    - `style`: the class of the change in theme.py.
    """

    title: str
    topic: str
    change: str
    named_change: str
    mark: str
    values: str
    interval: str
    metric: str
    shown_metric: str
    url: str
    bounds: str
    confirmation: str
    bisection: str
    style: str


def alert_text(alert: Alert) -> AlertText:
    """Return the texts of `alert`."""
    # No series of its own shows an outcome or a kernel.
    metric = "" if alert.metric == OUTCOME or alert.kind == MASKED else alert.metric
    state = state_word(alert.kind, verdict=alert.verdict)
    named = alert.metric if alert.kind == MASKED else metric
    topic = with_kind(metric_label(named), kind=alert.kind) or state or alert.kind
    level = change_text(
        (alert.baseline, alert.candidate),
        unit=alert.unit,
        change_pct=alert.change_pct,
        interval_pct=alert.interval_pct,
    )
    change = level.percent or level.values or state or alert.kind
    mark = topic if topic == change else f"{topic} {change}"
    named_change = mark if alert.kind == VANISHED and metric else change
    return AlertText(
        title=f"{case_title(alert.case)}: {mark}",
        topic=topic,
        change=change,
        named_change=named_change,
        mark=mark,
        values=level.values,
        interval=level.interval,
        metric=metric,
        shown_metric=metric or DEFAULT_SERIES_METRIC,
        url=series_url(
            alert.case.key, metric=metric, machine=alert.machine, toolchain=alert.toolchain
        ),
        bounds=_bounds(alert),
        confirmation=_confirmation(alert),
        bisection=str((alert.bisection or {}).get("text", "")),
        style=VERDICT_STYLES.get(alert.verdict, ""),
    )


def case_title(case: Case) -> str:
    """Return the model and the variant of a case."""
    return f"{case.model} / {case.variant}"


def event_words(title: str, alert: Alert) -> str:
    """Return the title of an event without its revision, toolchain and machine.

    For tables that have these of `alert` in cells of their own.
    """
    where = f" ({alert.toolchain} on {alert.machine})"
    if not title.endswith(where):
        return title
    since = f" since {short_revision(began(alert).revision)}"
    what, separator, more = title.removesuffix(where).rpartition(since)
    return f"{what}{more}" if separator else title.removesuffix(where)


def _bounds(alert: Alert) -> str:
    words = {} if alert.verdict is Verdict.REGRESSION else _BETTER_WORDS
    return "; ".join(
        f"{words.get(name, name)} {short_revision(run.revision)} ({moment(run.at)})"
        for name, run in alert_bounds(alert)
        if run is not None
    )


def _confirmation(alert: Alert) -> str:
    confirmation = alert.confirmation
    if not confirmation:
        return ""
    baseline = confirmation.get("baseline_side") or {}
    parts = [str(confirmation.get("verdict", ""))]
    if how := _METHODS.get(str(confirmation.get("method"))):
        parts.append(how.format_map({"toolchain": "", "num_launches": "", **baseline}))
    if confirmation.get("interval_pct"):
        low, high = confirmation["interval_pct"]
        parts.append(percent_interval((low, high)))
    if confirmation.get("seconds") is not None:
        parts.append(f"took {duration(float(confirmation['seconds']))}")
    return f"{', '.join(parts)}: {confirmation.get('reason', '')}"
