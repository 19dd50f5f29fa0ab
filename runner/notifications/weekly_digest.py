"""The weekly digest: open alerts, fixed alerts, and noisy series. Pure.

The noise of a series is the share of its alerts that users marked as noise.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from compile_hud.db.records.alerts import Alert, AlertState, subject_text
from compile_hud.db.records.json_fields import time_to_json
from compile_hud.db.records.metrics import metric_label
from compile_hud.db.records.notifications import AlertChangeKind, Notification, Severity, stable_id
from compile_hud.db.records.triage import ONGOING, AlertChange, ChangedField, is_muted
from compile_hud.db.shared.text import counted_of, plural
from compile_hud.runner.analysis.confirmation.confirmation import is_refuted
from compile_hud.runner.format import levels, percent

# The limit is per list; further entries are only counted.
MAX_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseShare:
    """The number of alerts of a series, and how many of them were noise."""

    series: str
    num_noise: int
    num_alerts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WeeklyDigest:
    """The open alerts, oldest first, the ones fixed from `since` to `until`, and the noisy series.

    `url` leads to the alerts of the dashboard.
    """

    since: datetime
    until: datetime
    open: tuple[Alert, ...]
    fixed: tuple[Alert, ...]
    noise: tuple[NoiseShare, ...]
    url: str

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is open and nothing was fixed."""
        return not (self.open or self.fixed)

    def to_json(self) -> dict[str, Any]:
        """Return the digest as a JSON object; alerts are named by their ids."""
        return {
            "since": time_to_json(self.since),
            "until": time_to_json(self.until),
            "open": [alert.id for alert in self.open],
            "fixed": [alert.id for alert in self.fixed],
            "noise": [asdict(item) for item in self.noise],
            "url": self.url,
        }

    def title(self) -> str:
        """Return the digest in a line."""
        days = f"{self.since:%Y-%m-%d} to {self.until:%Y-%m-%d}"
        return f"{len(self.open)} open, {len(self.fixed)} fixed, {days}"

    def lines(self) -> list[str]:
        """Return the digest in words."""
        days = [(self.until - alert.first_bad.at).days for alert in self.open]
        return [
            *_listed(
                "open",
                [
                    f"{age} {plural(age, 'day')}: {_text(alert)}, {alert.state}{_owned(alert)}"
                    for age, alert in zip(days, self.open, strict=True)
                ],
            ),
            *_listed("fixed", [_text(alert) for alert in self.fixed]),
            *_listed(
                "noisy series",
                [
                    f"{_series_text(item.series)}:"
                    f" {counted_of(item.num_noise, item.num_alerts, 'alert')} marked as noise"
                    for item in self.noise
                ],
            ),
        ]


def relevant_alerts(alerts: Sequence[Alert], *, fixed_ids: Collection[str]) -> list[Alert]:
    """Return the alerts that a digest may show or count."""
    noisy = {_series(alert) for alert in alerts if alert.state is AlertState.NOISE}
    return [
        alert
        for alert in alerts
        if alert.state in ONGOING or alert.id in fixed_ids or _series(alert) in noisy
    ]


def make_weekly(
    alerts: Sequence[Alert],
    *,
    fixed_ids: Collection[str],
    since: datetime,
    until: datetime,
    url: str,
) -> WeeklyDigest:
    """Return the digest of `alerts`; the ones with `fixed_ids` were fixed in that week."""
    still_open = [
        alert
        for alert in alerts
        if alert.state in ONGOING and not is_muted(alert, at=until) and not is_refuted(alert)
    ]
    return WeeklyDigest(
        since=since,
        until=until,
        open=tuple(sorted(still_open, key=lambda alert: (alert.first_bad.at, alert.id))),
        fixed=tuple(
            alert for alert in alerts if alert.id in fixed_ids and alert.state is AlertState.FIXED
        ),
        noise=_noise(alerts),
        url=url,
    )


def fixed_between(changes: Sequence[AlertChange], *, since: datetime, until: datetime) -> set[str]:
    """Return the ids of the alerts that became fixed after `since`, up to `until`."""
    return {
        change.alert_id
        for change in changes
        if change.field is ChangedField.STATE
        and change.new == AlertState.FIXED
        and since < change.at <= until
    }


def weekly_notification(receiver: str, *, due: datetime, at: datetime) -> Notification:
    """Return the digest of the week of `due`, made `at`; one of that week has the same id."""
    year, week, _ = due.isocalendar()
    return Notification(
        id=stable_id("weekly", receiver, f"{year}-W{week:02}"),
        receiver=receiver,
        subject="weekly",
        kind=AlertChangeKind.WEEKLY,
        severity=Severity.MINOR,
        title=f"what is open and what was fixed, {due:%Y-%m-%d}",
        alert_ids=(),
        created_at=due,
        due_at=at,
    )


def _noise(alerts: Sequence[Alert]) -> tuple[NoiseShare, ...]:
    by_series: dict[str, list[Alert]] = defaultdict(list)
    for alert in alerts:
        by_series[_series(alert)].append(alert)
    shares = [
        NoiseShare(
            series=series,
            num_noise=sum(alert.state is AlertState.NOISE for alert in series_alerts),
            num_alerts=len(series_alerts),
        )
        for series, series_alerts in by_series.items()
    ]
    noisy = [item for item in shares if item.num_noise]
    return tuple(sorted(noisy, key=lambda item: (-item.num_noise / item.num_alerts, item.series)))


def _series(alert: Alert) -> str:
    return f"{alert.case.key} {alert.metric}"


def _series_text(series: str) -> str:
    case_key, _, metric = series.rpartition(" ")
    return f"{case_key} {metric_label(metric)}"


def _listed(name: str, texts: Sequence[str]) -> list[str]:
    more = [f"and {len(texts) - MAX_SHOWN} more"] if len(texts) > MAX_SHOWN else []
    return [f"{name}: {len(texts) or 'nothing'}", *texts[:MAX_SHOWN], *more]


def _text(alert: Alert) -> str:
    change = levels(alert.baseline, alert.candidate, unit=alert.unit)
    if alert.change_pct is not None:
        change = percent(alert.change_pct)
    subject = subject_text(alert.metric, kind=alert.kind, verdict=alert.verdict)
    return f"{alert.case.key} {subject} {change}".rstrip()


def _owned(alert: Alert) -> str:
    return f", {alert.owner}" if alert.owner else ""
