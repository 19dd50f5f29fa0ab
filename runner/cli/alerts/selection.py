"""The alerts that a decision is about: named by their ids, or selected by what they have."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, TypeVar

import click

from compile_hud.db.errors import NotFoundError
from compile_hud.db.queries.alerts import load_alert, load_alerts
from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.store import Store
from compile_hud.models_zoo.catalog.spec import near_names
from compile_hud.runner.cli.output import gather_options

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertFilters:
    """The filters of a command that decides about alerts; all of them have to fit."""

    event_id: str | None
    model: str | None
    mode: str | None
    all_open: bool = False

    @property
    def is_empty(self) -> bool:
        """Return whether the command selects nothing."""
        return not (self.event_id or self.model or self.mode or self.all_open)

    def words(self) -> str:
        """Return the filters as they were typed."""
        pairs = (("--event", self.event_id), ("--model", self.model), ("--mode", self.mode))
        typed = [f"{name} {value}" for name, value in pairs if value]
        return " ".join([*typed, *(["--all-open"] if self.all_open else [])])


selecting = gather_options(
    AlertFilters,
    name="selection",
    options=(
        click.option("--event", "event_id", metavar="ID", help="All alerts of this event."),
        click.option("--model", metavar="GLOB", help="Alerts of these models."),
        click.option("--mode", metavar="GLOB", help="Alerts of these modes or variants."),
        click.option("--all-open", is_flag=True, help="Alerts that are open."),
    ),
)


def select_alerts(
    store: Store, ids: Sequence[str], selection: AlertFilters, *, states: Collection[AlertState]
) -> list[str]:
    """Return the ids of the alerts named by `ids`, else of the selected ones in one of `states`.

    Raises UsageError for both or neither, and NotFoundError if no alert fits.
    """
    if bool(ids) is not selection.is_empty:
        problem = "give either ids or filters" if ids else "no alert is named or selected"
        raise click.UsageError(
            f"{problem}: ID..., or --event ID, --model GLOB, --mode GLOB, --all-open"
        )
    if ids:
        return [load_alert(store, alert_id).id for alert_id in ids]
    states = {AlertState.OPEN} if selection.all_open else set(states)
    alerts = _of_event(load_alerts(store), selection.event_id)
    alerts = [item for item in alerts if selection.model is None or _fits_model(item, selection)]
    alerts = [item for item in _of_mode(alerts, selection.mode) if item.state in states]
    if not alerts and selection.words() != "--all-open":
        names = ", ".join(sorted(states))
        raise NotFoundError(
            f"no alert in state {names} fits {selection.words()}; `hud alerts list` shows the"
            f" ongoing ones{_hint(load_alerts(store), selection)}",
            filters=selection.words(),
        )
    return [item.id for item in alerts]


def _hint(alerts: Sequence[Alert], selection: AlertFilters) -> str:
    """Return the names of alerts that are like those of the filters."""
    cases = [alert.case for alert in alerts]
    typed = [
        (selection.model, {case.model for case in cases}),
        (selection.mode, {name for case in cases for name in (case.variant, case.mode)}),
    ]
    near = [
        near_names(name, sorted(known))
        for name, known in typed
        if name and not any(fnmatchcase(item, name) for item in known)
    ]
    return f". Did you mean {', '.join(filter(None, near))}?" if any(near) else ""


def _fits_model(alert: Alert, selection: AlertFilters) -> bool:
    return fnmatchcase(alert.case.model, selection.model or "*")


def _of_mode(alerts: Sequence[Alert], mode: str | None) -> list[Alert]:
    """Return the alerts of a variant, else those whose variants are of that mode."""
    if mode is None:
        return list(alerts)
    of_variant = [item for item in alerts if fnmatchcase(item.case.variant, mode)]
    return of_variant or [item for item in alerts if fnmatchcase(item.case.mode, mode)]


def _of_event(alerts: Sequence[Alert], event_id: str | None) -> list[Alert]:
    if not event_id:
        return list(alerts)
    ids = {item.event_id for item in alerts if item.event_id.startswith(event_id)}
    matches = {event_id} if event_id in ids else ids
    if len(matches) != 1:
        problem = f"{len(matches)} events begin with" if matches else "no event has the id"
        raise NotFoundError(
            f"{problem} {event_id!r}; the address of its page and `hud alerts list --json` have"
            " the whole id",
            id=event_id,
        )
    return [item for item in alerts if item.event_id in matches]
