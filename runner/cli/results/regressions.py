"""hud regressions: the alerts, the worst first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import click

from compile_hud.db.queries.judge_state import load_events
from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.results import Verdict
from compile_hud.db.shared.text import counted
from compile_hud.db.store import Store
from compile_hud.runner.alerting.payload import alerts_json
from compile_hud.runner.cli.alerts.selection import (
    filtering,
    no_fit_text,
)
from compile_hud.runner.cli.alerts.text import print_alerts, print_next_decision
from compile_hud.runner.cli.echo import echo
from compile_hud.runner.cli.help.examples import ExampleCommand
from compile_hud.runner.cli.option_types import NearestChoice
from compile_hud.runner.cli.output import json_option, print_json, say_when_empty, with_workspace
from compile_hud.runner.cli.tables import stdout
from compile_hud.runner.documents.alert_filters import ListFilters
from compile_hud.runner.documents.alerts import find_alerts
from compile_hud.runner.workspace import Workspace

ALL_STATES = "all"


@click.command(
    cls=ExampleCommand,
    examples=(
        "hud regressions",
        "hud regressions --severity severe --machine lab-2",
        "hud regressions --state all --text 'vit training'",
    ),
)
@click.option(
    "--state",
    "states",
    multiple=True,
    type=NearestChoice([ALL_STATES, *(str(state) for state in AlertState)]),
    default=(str(AlertState.OPEN),),
    show_default=True,
    help="Alerts in this state; all includes improvements.",
)
@filtering
@json_option
@with_workspace
def regressions(
    workspace: Workspace, *, states: tuple[str, ...], filters: ListFilters, as_json: bool
) -> None:
    """List the alerts, the worst first."""
    has_all = ALL_STATES in states
    requested = None if has_all else [AlertState(state) for state in states]
    store = workspace.store()
    alerts = [
        alert
        for alert in find_alerts(store, filters, states=requested)
        if has_all or alert.verdict is Verdict.REGRESSION
    ]
    if not alerts and not say_when_empty(store) and not as_json:
        echo(no_fit_text(store, filters, states=requested), err=True)
    if as_json:
        print_json(alerts_json(alerts, store=store, dashboard=workspace.config.dashboard))
    if as_json or not alerts:
        return
    print_alerts(alerts, at=workspace.dependencies.now())
    for line in _event_lines(alerts, store=store):
        stdout().print(line, markup=False, soft_wrap=True)
    print_next_decision(alerts)


def _event_lines(alerts: Sequence[Alert], *, store: Store) -> list[str]:
    """Return a line for each event that several of `alerts` belong to, the largest first."""
    counts = Counter(alert.event_id for alert in alerts if alert.event_id)
    events = load_events(store, ids=counts)
    return [
        f"{counted(count, 'alert')} are one event: {events[event_id].title}"
        for event_id, count in counts.most_common()
        if count > 1 and event_id in events
    ]
