"""Filters of lists of alerts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from compile_hud.db.errors import NotFoundError
from compile_hud.db.records.alerts import Alert, Event, subject_text
from compile_hud.db.records.triage import search_fields
from compile_hud.db.shared.text import counted, has_words, quoted
from compile_hud.runner.analysis.alerts.severity import severity_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ListFilters:
    """The filters of a list of alerts; all of them have to fit."""

    event_id: str | None
    model: str | None
    mode: str | None
    severity: str | None
    machine: str | None
    owner: str | None
    text: str | None

    def words(self) -> str:
        """Return the filters as they were typed."""
        pairs = (
            *(("--event", self.event_id), ("--model", self.model), ("--mode", self.mode)),
            *(("--severity", self.severity), ("--machine", self.machine)),
            *(("--owner", self.owner), ("--text", self.text and quoted(self.text))),
        )
        return " ".join(f"{name} {value}" for name, value in pairs if value)


def filter_alerts(
    alerts: Iterable[Alert], filters: ListFilters, *, events: Mapping[str, Event]
) -> list[Alert]:
    """Return those of `alerts` that pass `filters`; `events` have the titles to search too."""
    fitting = [
        alert
        for alert in of_event(list(alerts), filters.event_id)
        if fits_model(alert, filters.model)
        and fnmatchcase(alert.machine, filters.machine or "*")
        and filters.severity in (None, severity_of(alert))
        and filters.owner in (None, alert.owner)
        and has_words(filters.text or "", _searched(alert, events=events))
    ]
    return of_mode(fitting, filters.mode)


def _searched(alert: Alert, *, events: Mapping[str, Event]) -> list[str]:
    event = events.get(alert.event_id)
    return [
        *search_fields(alert),
        subject_text(alert.metric, kind=alert.kind, verdict=alert.verdict),
        *(str(alert.state), str(alert.verdict), event.title if event else ""),
    ]


def fits_model(alert: Alert, model: str | None) -> bool:
    """Return whether the model of `alert` fits the glob `model`, as all do without one."""
    return fnmatchcase(alert.case.model, model or "*")


def of_mode(alerts: Sequence[Alert], mode: str | None) -> list[Alert]:
    """Return the alerts of a variant, else those whose variants are of that mode."""
    if mode is None:
        return list(alerts)
    of_variant = [item for item in alerts if fnmatchcase(item.case.variant, mode)]
    return of_variant or [item for item in alerts if fnmatchcase(item.case.mode, mode)]


def of_event(alerts: Sequence[Alert], event_id: str | None) -> list[Alert]:
    """Return the alerts of the event with this id or unique start of one, all without it.

    Raises NotFoundError.
    """
    if not event_id:
        return list(alerts)
    ids = {item.event_id for item in alerts if item.event_id.startswith(event_id)}
    matches = {event_id} if event_id in ids else ids
    if len(matches) != 1:
        problem = (
            f"{counted(len(matches), 'event')} begin with" if matches else "no event has the id"
        )
        raise NotFoundError(
            f"{problem} {event_id!r}; the address of its page and `hud alerts list --json` have"
            " the whole id",
            id=event_id,
        )
    return [item for item in alerts if item.event_id in matches]
