"""Alerts, their changes and the settings of series, as people read them in a terminal."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from compile_hud.db.records.alerts import Alert, AlertState, began, bound_labels, subject_text
from compile_hud.db.records.triage import (
    SETTING_NAMES,
    AlertChange,
    ChangedField,
    SeriesSettings,
    fits,
    holder_of,
    is_muted,
    is_set,
)
from compile_hud.db.shared.model_sources import ModelCodeDiff
from compile_hud.db.shared.text import (
    counted,
    one_line,
    percent_interval,
    short_revision,
    signed_us,
)
from compile_hud.runner.alerting.alert_kernels import CauseKernels
from compile_hud.runner.analysis.confirmation.confirmation import conclusion_text
from compile_hud.runner.analysis.confirmation.verdict import Method
from compile_hud.runner.analysis.repro import repro_command
from compile_hud.runner.cli.help.next_steps import hud, print_next
from compile_hud.runner.cli.tables import Column, print_table, stdout
from compile_hud.runner.format import percent, quantity

# Enough to be unique among many thousands of alerts; commands take the start of an id.
SHOWN_ID_LENGTH = 8
_INTERVAL = "95 % interval"
# The line about a decision names no more alerts; the table has all.
MAX_NAMED = 5


def state_text(alert: Alert, *, at: datetime) -> str:
    """Return the state of `alert`, and until when it is muted at `at`."""
    if alert.muted_until is None or not is_muted(alert, at=at):
        return str(alert.state)
    return f"{alert.state}, muted until {_moment(alert.muted_until)}"


def verdict_text(alert: Alert) -> str:
    """Return the verdict on `alert`, with that of its confirmation if there was one."""
    confirmation = alert.confirmation
    if not confirmation or confirmation.get("method", Method.NONE) == Method.NONE:
        return str(alert.verdict)
    return f"{alert.verdict}, {confirmation['verdict']}"


def print_alerts(alerts: Sequence[Alert], *, at: datetime) -> None:
    """Print a row for each alert as it is at `at`."""
    has_machines = len({alert.machine for alert in alerts}) > 1
    has_toolchains = len({alert.toolchain for alert in alerts}) > 1
    has_owners = any(alert.owner for alert in alerts)
    rows = [
        (
            alert.id[:SHOWN_ID_LENGTH],
            alert.case.key,
            *([alert.machine] if has_machines else []),
            *([alert.toolchain] if has_toolchains else []),
            _subject(alert),
            state_text(alert, at=at),
            *([alert.owner] if has_owners else []),
            verdict_text(alert),
            quantity(alert.baseline, unit=alert.unit),
            quantity(alert.candidate, unit=alert.unit),
            percent(alert.change_pct),
            _interval(alert),
            short_revision(began(alert).revision),
            alert.cause_text,
        )
        for alert in alerts
    ]
    names = (
        *("id", "case", *(["machine"] if has_machines else [])),
        *(*(["toolchain"] if has_toolchains else []), "metric", "state"),
        *(*(["owner"] if has_owners else []), "verdict"),
    )
    columns = [
        *(Column(name=name) for name in names),
        *(Column(name=name, is_number=True) for name in ("level before", "level after", "change")),
        Column(name=_INTERVAL),
        Column(name="since"),
        Column(name="what", is_prose=True),
    ]
    print_table(columns, rows=rows, spare=(_INTERVAL,))


def print_next_decision(alerts: Sequence[Alert]) -> None:
    """Print the commands that show and acknowledge the first open alert."""
    ids = [alert.id[:SHOWN_ID_LENGTH] for alert in alerts if alert.state is AlertState.OPEN]
    if ids:
        print_next([hud("alerts", "show", ids[0]), hud("alerts", "ack", ids[0])])


def _interval(alert: Alert) -> str:
    """Return the 95 % interval of the change, `-` without one."""
    return "-" if alert.interval_pct is None else percent_interval(alert.interval_pct)


def print_alert(
    alert: Alert,
    *,
    at: datetime,
    kernels: CauseKernels,
    fails_now: str = "",
    last: str = "",
) -> None:
    """Print one alert in its state at `at`, with the `kernels` behind it.

    `fails_now` is the current failure of its case, if that differs. `last` is the value before an
    alert without levels.
    """
    good = alert.last_good
    good_name, bad_name = bound_labels(alert.kind)
    facts = [
        ("alert", alert.id),
        ("state", state_text(alert, at=at)),
        ("owner", alert.owner or "-"),
        ("note", alert.note or "-"),
        ("series", alert.series_key),
        ("metric", _subject(alert)),
        ("where", f"{alert.machine}, toolchain {alert.toolchain}"),
        ("verdict", f"{verdict_text(alert)}, {_what_changed(alert, last=last)}"),
        (good_name, "-" if good is None else f"{good.run_id} of {_moment(good.at)}"),
        (bad_name, f"{alert.first_bad.run_id} of {_moment(alert.first_bad.at)}"),
        ("last seen", _moment(alert.last_seen)),
        ("what", alert.cause_text or "-"),
        *_kernel_facts(kernels),
        *([("fails now", fails_now)] if fails_now else []),
        ("again", conclusion_text(alert) if alert.confirmation else "-"),
        *([("bisect", str(alert.bisection["text"]))] if alert.bisection else []),
        ("repro", repro_command(alert.case, toolchain=alert.toolchain)),
    ]
    console = stdout()
    for name, value in facts:
        console.print(f"{name:10} {one_line(value)}", markup=False)


def _kernel_facts(kernels: CauseKernels) -> Iterator[tuple[str, str]]:
    """Yield a line for each kernel, for their share of the change, and for its uncertainty."""
    names = itertools.chain(["kernels"], itertools.repeat(""))
    for name, row in zip(names, kernels.rows, strict=False):
        yield name, f"{signed_us(1e-6 * row['contribution_us'])} us {row['label']}: {row['text']}"
    for text in filter(None, (kernels.share, kernels.noise if kernels.rows else "")):
        yield "", text


def _what_changed(alert: Alert, *, last: str) -> str:
    """Return the levels and their change; without levels, the kind, its start and last value."""
    if alert.baseline is None and alert.candidate is None:
        since = f"{_subject(alert)} since {_moment(alert.first_bad.at)}"
        return f"{since}, last {last}" if last else since
    levels = [quantity(value, unit=alert.unit) for value in (alert.baseline, alert.candidate)]
    change = " -> ".join(levels)
    if alert.change_pct is not None:
        change += f", {percent(alert.change_pct)}"
    if alert.interval_pct is not None:
        change += f" {percent_interval(alert.interval_pct)}"
    return change


def _subject(alert: Alert) -> str:
    return subject_text(alert.metric, kind=alert.kind, verdict=alert.verdict)


def print_code_diff(item: ModelCodeDiff) -> None:
    """Print the change of a model's code and the diff of its files."""
    console = stdout()
    console.print(f"{item.change.text}:", markup=False, soft_wrap=True)
    for line in (*item.lines, *([item.note] if item.note else [])):
        console.print(f"  {line}", markup=False, soft_wrap=True, highlight=False)


def changed_line(alerts: Sequence[Alert], *, word: str) -> str:
    """Return a line that names the alerts which a decision changed; `word` says how."""
    if not alerts:
        return "nothing to change"
    names = list(map(_name, alerts))
    num_left = len(names) - MAX_NAMED
    more = f" and {num_left} more" if num_left > 0 else ""
    named = one_line(", ".join(names[:MAX_NAMED]))
    return f"{counted(len(alerts), 'alert')} {word}: {named}{more}"


def unmuted_lines(before: Sequence[Alert], *, at: datetime) -> list[str]:
    """Return a line for each mute in force at `at` that a decision ended."""
    return [
        f"no longer muted: {_name(alert)} (was until {_moment(alert.muted_until)})"
        for alert in before
        if alert.muted_until is not None and is_muted(alert, at=at)
    ]


def still_muted_lines(alerts: Sequence[Alert], *, at: datetime) -> list[str]:
    """Return a line for each alert that is muted at `at`, with the command that ends the mute."""
    return [
        f"still muted until {_moment(alert.muted_until)}: {_name(alert)};"
        f" `hud alerts mute {alert.id[:SHOWN_ID_LENGTH]} --until none` ends it"
        for alert in alerts
        if alert.muted_until is not None and is_muted(alert, at=at)
    ]


def _name(alert: Alert) -> str:
    return f"{alert.case.model} {alert.case.variant} {_subject(alert)}"


def print_changes(changes: Sequence[AlertChange]) -> None:
    """Print a row for each change, in this order."""
    names = ("when (UTC)", "who", "of", "what", "was", "is", "why")
    rows = [
        (
            f"{change.at:%Y-%m-%d %H:%M:%S}",
            change.by,
            change.alert_id[:SHOWN_ID_LENGTH] or change.pattern,
            str(change.field).replace("_", " "),
            _value(change, change.old),
            _value(change, change.new),
            change.why,
        )
        for change in changes
    ]
    print_table([Column(name=name) for name in names], rows=rows)


def print_settings(settings: Sequence[SeriesSettings]) -> None:
    """Print a row for each pattern that has settings."""
    names = ("series", "floor", "muted until", "owner", "baseline from run")
    rows = [
        (
            item.pattern,
            _value_text(item, ChangedField.FLOOR),
            _value_text(item, ChangedField.MUTED_UNTIL),
            _value_text(item, ChangedField.OWNER),
            _value_text(item, ChangedField.BASELINE_RUN_ID),
        )
        for item in settings
    ]
    print_table([Column(name=name) for name in names], rows=rows)


def inherited_lines(
    field: ChangedField,
    patterns: Sequence[str],
    *,
    keys: Iterable[str],
    settings: Sequence[SeriesSettings],
    at: datetime,
) -> list[str]:
    """Return a line for each pattern that still sets a value for series of `patterns`.

    The value was removed from `patterns`. `keys` are those of all series, `settings` are all
    settings, `at` is the current time.
    """
    fitting = [key for key in keys if any(fits(item, series_key=key) for item in patterns)]
    counts = Counter(holder_of(str(field), key, settings=settings) for key in fitting)
    # An expired mute stays in the settings.
    ended = {item.pattern for item in settings if item.muted_until and item.muted_until <= at}
    over = {"", *(ended if field is ChangedField.MUTED_UNTIL else ())}
    values = {item.pattern: _value_text(item, field) for item in settings}
    return [
        f"the {SETTING_NAMES[field]} of {pattern!r}, {values[pattern]}, holds for {counts[pattern]}"
        " of these series: change it there, or give another one here"
        for pattern in sorted(counts.keys() - over)
    ]


def _value_text(settings: SeriesSettings, field: ChangedField) -> str:
    """Return one of the `settings` for people, `-` where it is not set."""
    value = getattr(settings, str(field))
    if not is_set(value):
        return "-"
    if isinstance(value, datetime):
        return _moment(value)
    return f"{value:.2%}" if isinstance(value, float) else str(value)


def _value(change: AlertChange, text: str) -> str:
    if not text:
        return "-"
    if change.field is ChangedField.MUTED_UNTIL:
        return _moment(datetime.fromisoformat(text))
    return f"{float(text):.2%}" if change.field is ChangedField.FLOOR else text


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M}"
