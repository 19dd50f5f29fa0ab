"""Triage decisions about alerts and series, and the record of every change.

Only the standard library is needed; the rules that use these are in
runner/analysis/alerts/lifecycle.py.
"""

from __future__ import annotations

import dataclasses
import math
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from unicodedata import normalize

from compile_hud.db.records.alerts import MASKED, MISSING_WORDS, OUTCOME, Alert, AlertState
from compile_hud.db.records.codec import JsonRecord, Name
from compile_hud.db.records.json_fields import time_to_json
from compile_hud.db.records.metrics import METRICS, Direction, metric_of
from compile_hud.db.records.results import Verdict
from compile_hud.db.records.string_enum import StrEnum

# An alert in one of these states is not settled: the detector continues with it.
ONGOING = (AlertState.OPEN, AlertState.ACKNOWLEDGED)
# These kinds of alerts mean that a case has no new results.
MISSING_KINDS = tuple(MISSING_WORDS)
# Percent of cost from which a regression needs attention the same day.
MAJOR_PCT = 10.0
MISSING_RATIO = 1 + MAJOR_PCT / 100
# The author of changes by the detector, which no person made.
JUDGE = "judge"


def is_reserved(name: str) -> bool:
    """Return whether no person may give `name`: it is empty, or reads as that of the judge."""
    return "".join(normalize("NFKC", name).split()).casefold() in ("", JUDGE)


class ChangedField(StrEnum):
    """The changed field."""

    STATE = "state"
    OWNER = "owner"
    MUTED_UNTIL = "muted_until"
    FLOOR = "floor"
    BASELINE_RUN_ID = "baseline_run_id"
    # A comment without a change: `old` is empty and `new` the text.
    COMMENT = "comment"


# The names of series settings in messages.
SETTING_NAMES = {
    ChangedField.OWNER: "owner",
    ChangedField.MUTED_UNTIL: "mute",
    ChangedField.FLOOR: "floor",
    ChangedField.BASELINE_RUN_ID: "baseline",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertChange(JsonRecord):
    """One change of an alert, or of a pattern's settings: author, time, values and reason.

    Either `alert_id` or `pattern` is set, the other is empty. `old` and `new` are the values of
    `field` as text, empty for none.
    """

    id: Name
    alert_id: Name
    pattern: Name
    at: datetime
    by: str
    field: ChangedField
    old: str
    new: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """Author, time and reason of a change."""

    by: str
    at: datetime
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """The new version of an alert, and its reason; `comment` is recorded with it."""

    alert: Alert
    why: str = ""
    comment: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesSettings(JsonRecord):
    """The settings of the series that match `pattern`.

    `pattern` is the key of a series, or a glob of `case#metric` (`bert/*#latency_s`). `floor` is
    the least relevant change as a fraction, None for the metric's own. A new baseline starts with
    the run `baseline_run_id`, "" for none.
    """

    pattern: str
    floor: float | None = None
    muted_until: datetime | None = None
    owner: str = ""
    baseline_run_id: str = ""


def changes_of_alert(
    old: Alert | None, new: Alert, *, signature: Signature
) -> tuple[AlertChange, ...]:
    """Return a change for each field that differs between an alert and `new`.

    A new alert (None before) has only a state: owner and mute are those of its series.
    """
    care = () if old is None else (ChangedField.OWNER, ChangedField.MUTED_UNTIL)
    changes = _changes((ChangedField.STATE, *care), old, new, signature)
    return tuple(dataclasses.replace(item, alert_id=new.id) for item in changes)


def comment_on(alert: Alert, text: str, *, signature: Signature) -> AlertChange:
    """Return the record of a comment on `alert`."""
    return AlertChange(
        id=uuid.uuid4().hex,
        alert_id=alert.id,
        pattern="",
        at=signature.at,
        by=signature.by,
        field=ChangedField.COMMENT,
        old="",
        new=text,
    )


def changes_of_settings(
    old: SeriesSettings, new: SeriesSettings, *, signature: Signature
) -> tuple[AlertChange, ...]:
    """Return a change for each setting that differs between `old` and `new`."""
    changes = _changes(SETTING_NAMES, old, new, signature)
    return tuple(dataclasses.replace(item, pattern=new.pattern) for item in changes)


def _changes(
    fields: Iterable[ChangedField], old: object, new: object, signature: Signature
) -> list[AlertChange]:
    texts = [(item, _text(getattr(old, item, None)), _text(getattr(new, item))) for item in fields]
    return [
        AlertChange(
            id=uuid.uuid4().hex,
            alert_id="",
            pattern="",
            at=signature.at,
            by=signature.by,
            field=item,
            old=before,
            new=after,
            why=signature.why,
        )
        for item, before, after in texts
        if before != after
    ]


def _text(value: object) -> str:
    if value is None:
        return ""
    return time_to_json(value) if isinstance(value, datetime) else str(value)


def is_muted(alert: Alert, *, at: datetime) -> bool:
    """Return whether notifications of `alert` are off at that time."""
    return alert.muted_until is not None and at < alert.muted_until


def fits(pattern: str, *, series_key: str) -> bool:
    """Return whether `pattern` is this series, or a glob that matches its `case#metric`."""
    subject, _, _ = series_key.rpartition("@")
    return pattern == series_key or fnmatchcase(subject, pattern)


def settings_of(series_key: str, *, settings: Iterable[SeriesSettings]) -> SeriesSettings:
    """Return the settings in force for one series: each from the most specific pattern that has it.

    The series itself is more specific than any glob, and a longer glob more than a shorter one.
    """
    result = SeriesSettings(pattern=series_key)
    for item in _fitting(series_key, settings):
        values = {
            name: value for name in map(str, SETTING_NAMES) if is_set(value := getattr(item, name))
        }
        result = dataclasses.replace(result, **values)
    return result


def holder_of(name: str, series_key: str, *, settings: Iterable[SeriesSettings]) -> str:
    """Return the pattern from which a series has its setting `name`, "" without one."""
    holders = [item for item in _fitting(series_key, settings) if is_set(getattr(item, name))]
    return holders[-1].pattern if holders else ""


def is_set(value: object) -> bool:
    """Return whether `value` is set, and no default."""
    return value not in (None, "")


def _fitting(series_key: str, settings: Iterable[SeriesSettings]) -> list[SeriesSettings]:
    """Return the settings whose patterns match a series, the most specific one last."""
    fitting = [item for item in settings if fits(item.pattern, series_key=series_key)]
    return sorted(
        fitting, key=lambda item: (item.pattern == series_key, len(item.pattern), item.pattern)
    )


def with_settings(alert: Alert, settings: Iterable[SeriesSettings]) -> Alert:
    """Return `alert` with the owner and mute of its series for those that it lacks."""
    own_settings = settings_of(alert.series_key, settings=settings)
    return dataclasses.replace(
        alert,
        owner=alert.owner or own_settings.owner,
        muted_until=alert.muted_until or own_settings.muted_until,
    )


def worsening(alert: Alert) -> float:
    """Return the factor by which the metric got worse; below 1 it got better.

    Infinite for a case that fails, which is worse than any slow one; 1 without a number.
    """
    if alert.kind == "outcome":
        return math.inf
    if alert.change_pct is None:
        return 1.0
    ratio = max(1 + alert.change_pct / 100, 1e-9)
    return 1 / ratio if is_higher_better(alert) else ratio


def is_higher_better(alert: Alert) -> bool:
    """Return whether more of the alert's metric is better.

    For an imported metric the verdict decides, since its records may have stated the direction.
    """
    is_judged = alert.verdict in (Verdict.REGRESSION, Verdict.IMPROVEMENT)
    if alert.metric not in METRICS and alert.change_pct and is_judged:
        return (alert.verdict is Verdict.REGRESSION) == (alert.change_pct < 0)
    known = metric_of(alert.metric, unit=alert.unit)
    return known is not None and known.direction is Direction.HIGHER_IS_BETTER


def _rank_ratio(alert: Alert) -> float:
    if alert.kind == MASKED:
        # The case is as fast as before, whatever its kernel takes.
        return 1.0
    is_missing = alert.kind in MISSING_KINDS and alert.verdict is Verdict.REGRESSION
    return MISSING_RATIO if is_missing else worsening(alert)


def worst_first(alerts: Iterable[Alert]) -> list[Alert]:
    """Return failures, then regressions by size, and improvements.

    A missing case stands where a regression of MISSING_RATIO does, since both are major. Masked
    alerts come after all regressions. Settled alerts come in the same order after all open and
    acknowledged ones.
    """
    return sorted(
        alerts,
        key=lambda alert: (
            alert.state not in ONGOING,
            -_rank_ratio(alert),
            alert.case.key,
            alert.metric,
            alert.id,
        ),
    )


def search_fields(alert: Alert) -> tuple[str, ...]:
    """Return the texts of `alert` in which a search looks for words, on the page and by `hud`."""
    return (
        *(alert.case.key, alert.owner, alert.note, alert.machine, alert.toolchain),
        *(alert.first_bad.revision, alert.cause_text),
    )


def missing_cases(alerts: Iterable[Alert]) -> dict[str, Alert]:
    """Return the ongoing alert of each missing or overdue case: its results are old.

    A case that is both counts as missing. A case that only lacks a metric has new results.
    """
    ongoing = [alert for alert in alerts if alert.state in ONGOING and alert.metric == OUTCOME]
    return {
        alert.case.key: alert
        for kind in reversed(MISSING_KINDS)
        for alert in ongoing
        if alert.kind == kind
    }


def size_pct(alert: Alert) -> float | None:
    """Return the change of the cost, in percent and without its sign."""
    if alert.change_pct is None:
        return None
    metric = METRICS.get(alert.metric)
    has_ideal = metric is not None and metric.ideal is not None
    if is_higher_better(alert) and not has_ideal and alert.change_pct > -100:
        return abs(100 / (1 + alert.change_pct / 100) - 100)
    return abs(alert.change_pct)
