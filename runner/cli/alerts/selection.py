"""The alerts that a command lists or decides about: by their ids, or by filters."""

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
from compile_hud.runner.analysis.alerts.severity import SEVERITY_RANKS
from compile_hud.runner.cli.completion.names import MODE, MODEL
from compile_hud.runner.cli.option_types import NearestChoice
from compile_hud.runner.cli.output import check_exists, gather_options
from compile_hud.runner.documents.alert_filters import (
    ListFilters,
    fits_model,
    of_event,
    of_mode,
)

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


_SHARED = (
    click.option("--event", "event_id", metavar="ID", help="All alerts of this event."),
    click.option("--model", type=MODEL, metavar="GLOB", help="Alerts of these models."),
    click.option("--mode", type=MODE, metavar="GLOB", help="Alerts of these modes or variants."),
)
selecting = gather_options(
    AlertFilters,
    name="selection",
    options=(*_SHARED, click.option("--all-open", is_flag=True, help="Alerts that are open.")),
)
filtering = gather_options(
    ListFilters,
    name="filters",
    options=(
        *_SHARED,
        click.option(
            "--severity",
            type=NearestChoice(list(map(str, reversed(SEVERITY_RANKS)))),
            help="Alerts of this severity.",
        ),
        click.option("--machine", metavar="GLOB", help="Alerts of these machines."),
        click.option("--owner", metavar="NAME", help="Alerts owned by NAME."),
        click.option("--text", metavar="WORDS", help="Alerts that have each of these words."),
    ),
)


def no_fit_text(
    store: Store, filters: ListFilters, *, states: Collection[AlertState] | None
) -> str:
    """Return that no alert in one of `states` passes `filters`, and what to do; None for all."""
    every = load_alerts(store)
    if not every:
        return f"no alert in the store {store.name} yet"
    in_state = f" in state {', '.join(sorted(states))}" if states is not None else ""
    fits = f" fits {filters.words()}" if filters.words() else ""
    text = f"no alert{in_state}{fits} in the store {store.name}"
    if near := _hint(every, filters):
        return f"{text}{near}"
    return f"{text}; --state all lists every one" if states is not None else text


def find_alert(store: Store, alert_id: str) -> Alert:
    """Return the alert with this id or unique start of one; raise NoSuchResult without a store."""
    check_exists(store)
    return load_alert(store, alert_id)


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
        return [find_alert(store, alert_id).id for alert_id in ids]
    check_exists(store)
    states = {AlertState.OPEN} if selection.all_open else set(states)
    alerts = of_event(load_alerts(store), selection.event_id)
    alerts = [item for item in alerts if fits_model(item, selection.model)]
    alerts = [item for item in of_mode(alerts, selection.mode) if item.state in states]
    if not alerts and selection.words() != "--all-open":
        names = ", ".join(sorted(states))
        raise NotFoundError(
            f"no alert in state {names} fits {selection.words()}; `hud alerts list` shows the"
            f" ongoing ones{_hint(load_alerts(store), selection)}",
            filters=selection.words(),
        )
    return [item.id for item in alerts]


def _hint(alerts: Sequence[Alert], selection: AlertFilters | ListFilters) -> str:
    """Return the names of alerts that are like those of the filters."""
    cases = [alert.case for alert in alerts]
    typed = [
        (selection.model, {case.model for case in cases}),
        (selection.mode, {name for case in cases for name in (case.variant, case.mode)}),
    ]
    if isinstance(selection, ListFilters):
        typed.append((selection.machine, {alert.machine for alert in alerts}))
        typed.append((selection.owner, {alert.owner for alert in alerts}))
    near = [
        near_names(name, sorted(known))
        for name, known in typed
        if name and not any(fnmatchcase(item, name) for item in known)
    ]
    return f". Did you mean {', '.join(filter(None, near))}?" if any(near) else ""
