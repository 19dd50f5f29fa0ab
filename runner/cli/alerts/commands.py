"""hud alerts: triage decisions about alerts and series, and their log."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click

from compile_hud.db.alerts.replay import check_replayable
from compile_hud.db.errors import NotFoundError, RecordError
from compile_hud.db.queries.alerts import (
    load_alerts,
    load_changes,
    load_series_settings,
)
from compile_hud.db.queries.model_sources import load_alert_diff
from compile_hud.db.queries.results import load_result_summaries
from compile_hud.db.queries.runs import load_last_ending, load_run
from compile_hud.db.queries.series import find_series
from compile_hud.db.records.alerts import OUTCOME, Alert, AlertState
from compile_hud.db.records.triage import (
    ONGOING,
    AlertChange,
    ChangedField,
    SeriesSettings,
    fits,
    is_set,
)
from compile_hud.db.shared.text import counted
from compile_hud.db.store import Store
from compile_hud.models_zoo.catalog.spec import near_names
from compile_hud.runner.alerting.alert_kernels import cause_kernels
from compile_hud.runner.alerting.payload import alerts_json
from compile_hud.runner.analysis.alerts.triage import (
    Decide,
    add_comment,
    set_muted,
    set_owner,
    set_state,
)
from compile_hud.runner.analysis.outcomes.outcomes import fails_otherwise
from compile_hud.runner.cli.alerts.case_file import export_alert, verify_alert
from compile_hud.runner.cli.alerts.options import DecisionOptions, FloorCommand, deciding
from compile_hud.runner.cli.alerts.outbox import (
    digest,
    outbox,
    resend_dead,
    send_now,
    test_receivers,
)
from compile_hud.runner.cli.alerts.selection import (
    AlertFilters,
    filtering,
    find_alert,
    no_fit_text,
    select_alerts,
    selecting,
)
from compile_hud.runner.cli.alerts.text import (
    changed_line,
    inherited_lines,
    print_alert,
    print_alerts,
    print_changes,
    print_code_diff,
    print_next_decision,
    print_settings,
    still_muted_lines,
    unmuted_lines,
)
from compile_hud.runner.cli.echo import echo
from compile_hud.runner.cli.help.examples import ExampleGroup
from compile_hud.runner.cli.option_types import (
    NONE,
    NearestChoice,
    OrNone,
    Percentage,
    StoredText,
    TimeOrDuration,
)
from compile_hud.runner.cli.output import check_exists, json_option, print_json, with_workspace
from compile_hud.runner.cli.results.regressions import ALL_STATES
from compile_hud.runner.documents.alert_filters import ListFilters
from compile_hud.runner.documents.alerts import alert_document, find_alerts
from compile_hud.runner.files.json_files import read_json
from compile_hud.runner.format import quantity
from compile_hud.runner.workspace import Workspace

# A pattern of a case and a metric has one of these signs, an id has none.
_PATTERN_SIGNS = frozenset("/#*?[")
# The states that a person has set, which can be taken back.
_SETTLED = (AlertState.ACKNOWLEDGED, AlertState.EXPECTED, AlertState.NOISE)
_STATE_WORDS = {
    AlertState.OPEN: "reopened",
    AlertState.ACKNOWLEDGED: "acknowledged",
    AlertState.EXPECTED: "expected",
    AlertState.NOISE: "marked as noise",
}
_ids_argument = click.argument("alert_ids", metavar="[ID]...", nargs=-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SeriesSetting:
    """One setting of series, with its new value."""

    field: ChangedField
    value: Any

    def apply_to(self, settings: SeriesSettings) -> SeriesSettings:
        """Return `settings` with this one among them."""
        return replace(settings, **{str(self.field): self.value})


@click.group("alerts", cls=ExampleGroup)
def alerts_group() -> None:
    """Show and triage alerts: acknowledge, expect, mute, assign."""


@alerts_group.command(
    "list",
    examples=(
        "hud alerts list",
        "hud alerts list --model vit --state fixed",
        "hud alerts list --owner ada --json",
    ),
)
@click.option(
    "--state",
    "states",
    multiple=True,
    type=NearestChoice([ALL_STATES, *(str(state) for state in AlertState)]),
    default=tuple(map(str, ONGOING)),
    show_default=True,
    help="Alerts in this state; may be repeated.",
)
@filtering
@json_option
@with_workspace
def list_alerts(
    workspace: Workspace, *, states: tuple[str, ...], filters: ListFilters, as_json: bool
) -> None:
    """List the alerts, improvements too, the worst first."""
    requested = None if ALL_STATES in states else [AlertState(state) for state in states]
    store = workspace.store()
    alerts = find_alerts(store, filters, states=requested)
    check_exists(store)
    if as_json:
        print_json(alerts_json(alerts, store=store, dashboard=workspace.config.dashboard))
    elif alerts:
        print_alerts(alerts, at=workspace.dependencies.now())
        print_next_decision(alerts)
    else:
        echo(no_fit_text(store, filters, states=requested), err=True)


@alerts_group.command(
    "show",
    examples=("hud alerts show 3f2a",),
)
@click.argument("alert_id", metavar="ID")
@json_option
@with_workspace
def show_alert(workspace: Workspace, *, alert_id: str, as_json: bool) -> None:
    """Show one alert with all its changes.

    A prefix of its id is enough.
    """
    store = workspace.store()
    alert = find_alert(store, alert_id)
    if as_json:
        print_json(alert_document(store, alert.id, dashboard=workspace.config.dashboard))
        return
    changes = load_changes(store, alert_id=alert.id)
    code = load_alert_diff(store, alert)
    print_alert(
        alert,
        at=workspace.dependencies.now(),
        kernels=cause_kernels([alert], store=store)[alert.id],
        fails_now=fails_otherwise(alert, load_last=functools.partial(load_last_ending, store)),
        last=_last_value(alert, store=store) if alert.baseline is None else "",
    )
    if code is not None:
        echo()
        print_code_diff(code)
    echo()
    print_changes(changes)


def _last_value(alert: Alert, *, store: Store) -> str:
    """Return the last value before `alert`, empty if there is none or it was pruned.

    For a case that fails or is missing it is the latency.
    """
    if alert.last_good is None:
        return ""
    name = "latency_s" if alert.metric == OUTCOME else alert.metric
    try:
        results = load_result_summaries(store, alert.last_good.run_id)
    except NotFoundError:
        return ""
    of_case = next((item for item in results if item.case.key == alert.case.key), None)
    measurement = of_case.measurements.get(name) if of_case else None
    if measurement is None:
        return ""
    return (
        f"{name} {quantity(measurement.median, unit=measurement.unit)} in {alert.last_good.run_id}"
    )


@alerts_group.command(
    examples=(
        "hud alerts ack 3f2a --why bisecting",
        "hud alerts ack --model vit --until 3d --why 'fix in review'",
    ),
)
@_ids_argument
@selecting
@click.option(
    "--until",
    type=TimeOrDuration(),
    metavar="TIME",
    help="Mute them too; they open again after that date (UTC) or duration, such as 3d.",
)
@deciding
def ack(
    workspace: Workspace,
    *,
    alert_ids: tuple[str, ...],
    selection: AlertFilters,
    until: datetime | timedelta | None,
    options: DecisionOptions,
) -> None:
    """Acknowledge alerts; they resolve when performance recovers.

    Name them by id or by filters.
    """
    end = None if until is None else _end_of(until, now=workspace.dependencies.now())
    _set_state(
        workspace, alert_ids, AlertState.ACKNOWLEDGED, options=options, selection=selection, end=end
    )


@alerts_group.command(
    examples=(
        "hud alerts expect 3f2a --why 'new layer'",
        "hud alerts expect 'bert/*#latency_s' --from latest",
    ),
)
@click.argument("targets", metavar="[ID|SERIES]...", nargs=-1)
@selecting
@click.option("--from", "run_id", metavar="RUN", help="For a series: its baseline starts here.")
@deciding
def expect(
    workspace: Workspace,
    *,
    targets: tuple[str, ...],
    selection: AlertFilters,
    run_id: str | None,
    options: DecisionOptions,
) -> None:
    """Accept a new level: it is the baseline from the first bad run on."""
    if run_id is None:
        _set_state(workspace, targets, AlertState.EXPECTED, options=options, selection=selection)
        return
    if not targets or not selection.is_empty:
        raise click.UsageError("--from is for series: name them, without filters of alerts")
    first_run_id = NONE if run_id == NONE else load_run(workspace.store(), run_id).id
    start = "" if first_run_id == NONE else first_run_id
    _set_series(
        workspace,
        targets,
        _SeriesSetting(field=ChangedField.BASELINE_RUN_ID, value=start),
        options=options,
    )


@alerts_group.command(
    examples=("hud alerts noise --event 5f1c0d --why 'machine was busy'",),
)
@_ids_argument
@selecting
@deciding
def noise(
    workspace: Workspace,
    *,
    alert_ids: tuple[str, ...],
    selection: AlertFilters,
    options: DecisionOptions,
) -> None:
    """Mark alerts as noise; they stay suppressed if they recur."""
    _set_state(workspace, alert_ids, AlertState.NOISE, options=options, selection=selection)


@alerts_group.command(
    examples=(
        "hud alerts reopen 3f2a",
        "hud alerts reopen --model vit",
    ),
)
@_ids_argument
@selecting
@deciding
def reopen(
    workspace: Workspace,
    *,
    alert_ids: tuple[str, ...],
    selection: AlertFilters,
    options: DecisionOptions,
) -> None:
    """Reopen alerts: the judge handles them again, and their mutes end."""
    _set_state(workspace, alert_ids, AlertState.OPEN, options=options, selection=selection)


@alerts_group.command(
    examples=("hud alerts comment 3f2a --why 'same as in issue 12'",),
)
@_ids_argument
@selecting
@deciding
def comment(
    workspace: Workspace,
    *,
    alert_ids: tuple[str, ...],
    selection: AlertFilters,
    options: DecisionOptions,
) -> None:
    """Comment on alerts; `--why` has the text."""
    if not options.why.strip():
        raise click.UsageError("there is no comment to keep; give it with --why")
    ids = select_alerts(workspace.store(), alert_ids, selection, states=ONGOING)
    _decide(workspace, ids, _commented, options=options, word="commented on")


def _commented(alert_ids: Sequence[str], *, why: str) -> Decide:
    return add_comment(alert_ids, why.strip())


@alerts_group.command(
    examples=(
        "hud alerts assign 3f2a ada",
        "hud alerts assign 'bert/*#*' ada",
        "hud alerts assign 3f2a none",
    ),
)
@click.argument("target", metavar="ID|SERIES")
@click.argument("owner", type=StoredText())
@deciding
def assign(workspace: Workspace, *, target: str, owner: str, options: DecisionOptions) -> None:
    """Set the owner of an alert, or of every alert of a series.

    The owner `none` removes it.
    """
    owner = "" if owner == NONE else owner
    if _is_pattern(target):
        _set_series(
            workspace,
            [target],
            _SeriesSetting(field=ChangedField.OWNER, value=owner),
            options=options,
        )
    else:
        _decide(
            workspace,
            [find_alert(workspace.store(), target).id],
            functools.partial(set_owner, owner=owner),
            options=options,
            word=f"assigned to {owner}" if owner else "without owner",
        )


@alerts_group.command(
    examples=(
        "hud alerts mute 3f2a --until 3d",
        "hud alerts mute 'bert/*#compile_cold_s' --until 2030-01-31",
        "hud alerts mute 3f2a --until none",
    ),
)
@click.argument("target", metavar="ID|SERIES")
@click.option(
    "--until",
    type=OrNone(TimeOrDuration()),
    required=True,
    metavar="TIME",
    help="A date, or a duration such as 3d; `none` ends a mute.",
)
@deciding
def mute(
    workspace: Workspace,
    *,
    target: str,
    until: datetime | timedelta | str,
    options: DecisionOptions,
) -> None:
    """Mute an alert or series until a date (UTC)."""
    end = None if isinstance(until, str) else _end_of(until, now=workspace.dependencies.now())
    if _is_pattern(target):
        _set_series(
            workspace,
            [target],
            _SeriesSetting(field=ChangedField.MUTED_UNTIL, value=end),
            options=options,
        )
    else:
        _decide(
            workspace,
            [find_alert(workspace.store(), target).id],
            functools.partial(set_muted, until=end),
            options=options,
            word="unmuted" if end is None else f"muted until {end:%Y-%m-%d %H:%M} UTC",
        )


def _end_of(until: datetime | timedelta, *, now: datetime) -> datetime:
    """Return the end of a mute; raise UsageError for one that is over or too far away."""
    try:
        # The end is a whole minute, as it is shown.
        exact = until if isinstance(until, datetime) else now + until
        end = exact.replace(second=0, microsecond=0)
    except OverflowError as error:
        raise click.UsageError(f"--until is too far away: {until}") from error
    if end <= now:
        raise click.UsageError(
            f"--until {end:%Y-%m-%d %H:%M} is in the past; name a later time, or a duration like 3d"
        )
    return end


@alerts_group.command(
    cls=FloorCommand,
    examples=(
        "hud alerts floor 'resnet/*#compile_cold_s' 20% --why 'the disk is shared'",
        "hud alerts floor 'resnet/*#compile_cold_s' none",
    ),
)
@click.argument("series", metavar="SERIES")
@click.argument("least", metavar="PCT", type=OrNone(Percentage()))
@deciding
def floor(
    workspace: Workspace, *, series: str, least: float | str, options: DecisionOptions
) -> None:
    """Set the smallest relevant change of a series.

    `none` restores that of the metric.
    """
    value = least if isinstance(least, float) else None
    _set_series(
        workspace, [series], _SeriesSetting(field=ChangedField.FLOOR, value=value), options=options
    )


@alerts_group.command(
    "series",
    examples=("hud alerts series",),
)
@json_option
@with_workspace
def list_series(workspace: Workspace, *, as_json: bool) -> None:
    """List the settings of series: floors, mutes, owners and baselines."""
    store = workspace.store()
    settings = load_series_settings(store)
    check_exists(store)
    if as_json:
        print_json([item.to_json() for item in settings])
    elif settings:
        print_settings(settings)
    else:
        echo("nothing is set for any series", err=True)


@alerts_group.command(
    examples=(
        "hud alerts log",
        "hud alerts log 3f2a",
        "hud alerts log --json > log.json",
    ),
)
@click.argument("alert_id", metavar="[ID]", required=False)
@json_option
@with_workspace
def log(workspace: Workspace, *, alert_id: str | None, as_json: bool) -> None:
    """Show the decisions about one alert, or about all.

    Each has an author, a change, a time and a reason.
    """
    store = workspace.store()
    full_id = None if alert_id is None else find_alert(store, alert_id).id
    changes = load_changes(store, alert_id=full_id)
    check_exists(store)
    if as_json:
        print_json([change.to_json() for change in changes])
    elif changes:
        print_changes(changes)
    else:
        echo("nothing was changed yet", err=True)


@alerts_group.command(
    "replay",
    examples=("hud alerts replay log.json",),
)
@click.argument("path", metavar="FILE", type=click.Path(exists=True, path_type=Path))
@json_option
@with_workspace
def replay_log(workspace: Workspace, *, path: Path, as_json: bool) -> None:
    """Re-apply the triage decisions of a log to a rebuilt store."""
    content = read_json(path)
    if not isinstance(content, list):
        raise RecordError(
            f"{path} is no list of changes. `hud alerts log --json` writes one", path=path
        )
    changes = [
        _change(item, location=f"{path}, change {number}") for number, item in enumerate(content, 1)
    ]
    store = workspace.store()
    num_new = store.replay_changes(changes)
    known = {alert.id for alert in load_alerts(store)}
    num_left_out = sum(bool(item.alert_id) and item.alert_id not in known for item in changes)
    if as_json:
        print_json({"replayed": num_new, "left_out": num_left_out})
        return
    echo(f"{counted(num_new, 'change')} replayed, {num_left_out} of unknown alerts")
    if num_left_out:
        echo("`hud detect` first, where the results are all in", err=True)


def _change(document: Any, *, location: str) -> AlertChange:
    try:
        change = AlertChange.from_json(document)
        check_replayable(change)
    except RecordError as error:
        raise RecordError(f"{location}: {error}", location=location, reason=str(error)) from error
    return change


def _is_pattern(target: str) -> bool:
    return not _PATTERN_SIGNS.isdisjoint(target)


def _set_state(
    workspace: Workspace,
    alert_ids: Sequence[str],
    state: AlertState,
    *,
    options: DecisionOptions,
    selection: AlertFilters,
    end: datetime | None = None,
) -> None:
    eligible = _SETTLED if state is AlertState.OPEN else ONGOING
    ids = select_alerts(workspace.store(), alert_ids, selection, states={*eligible, state})
    _decide(
        workspace,
        ids,
        functools.partial(set_state, state=state, until=end),
        options=options,
        word=_STATE_WORDS[state] + (f" until {end:%Y-%m-%d %H:%M} UTC" if end else ""),
    )


def _decide(
    workspace: Workspace,
    alert_ids: Sequence[str],
    decision: Callable[..., Decide],
    *,
    options: DecisionOptions,
    word: str,
) -> None:
    store = workspace.store()
    decided = store.revise_alerts(decision(alert_ids, why=options.why), by=options.by)
    if options.as_json:
        print_json(alerts_json(decided.alerts, store=store, dashboard=workspace.config.dashboard))
        return
    if decided.alerts:
        print_alerts(decided.alerts, at=workspace.dependencies.now())
    echo(changed_line([item.alert for item in decided.revisions], word=word), err=True)
    now = workspace.dependencies.now()
    for line in unmuted_lines(decided.unmuted, at=now):
        echo(line, err=True)
    if word == _STATE_WORDS[AlertState.OPEN]:
        for line in still_muted_lines(decided.alerts, at=now):
            echo(line, err=True)


def _set_series(
    workspace: Workspace,
    patterns: Sequence[str],
    setting: _SeriesSetting,
    *,
    options: DecisionOptions,
) -> None:
    store = workspace.store()
    keys = {header.key for header in find_series(store)}
    keys |= {alert.series_key for alert in load_alerts(store)}
    for pattern in patterns:
        if not any(fits(pattern, series_key=key) for key in keys):
            model = re.split("[/#]", pattern)[0]
            models = {re.split("[/#]", key)[0] for key in keys}
            near = "" if model in models else near_names(model, sorted(models))
            hint = f" Did you mean the model {near}?" if near else ""
            raise NotFoundError(
                f"no series fits {pattern!r}.{hint} Give the key of one, as `hud alerts show` has"
                " it, or a glob of case#metric, for example 'bert/*#latency_s'",
                pattern=pattern,
                near=near,
            )
    num_changed = sum(
        len(store.revise_settings(pattern, setting.apply_to, by=options.by, why=options.why))
        for pattern in patterns
    )
    every = load_series_settings(store)
    known = {item.pattern: item for item in every}
    settings = [known.get(pattern, SeriesSettings(pattern=pattern)) for pattern in patterns]
    if options.as_json:
        print_json([item.to_json() for item in settings])
    else:
        print_settings(settings)
        _say_changed(num_changed)
        if num_changed:
            echo("`hud detect`, like every run, judges by this from now on", err=True)
    if not is_set(setting.value):
        for line in inherited_lines(
            setting.field, patterns, keys=keys, settings=every, at=workspace.dependencies.now()
        ):
            echo(line, err=True)


def _say_changed(num_changed: int) -> None:
    echo(f"{num_changed} changed" if num_changed else "nothing to change", err=True)


for _command in (
    digest,
    outbox,
    resend_dead,
    send_now,
    test_receivers,
    export_alert,
    verify_alert,
):
    alerts_group.add_command(_command)
