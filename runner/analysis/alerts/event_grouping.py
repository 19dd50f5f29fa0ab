"""Group alerts into events: a change that shows in many series at once is one change.

Method: no statistics. Alerts of one machine and toolchain belong together if one run can have made
them all: the ranges from the last good to the first bad run overlap. Those that start at one
revision within a run of each other belong together as well. The run with the most of them is the
onset, then the next. Drifts, noise and missing series have no exact start. Among these, alerts of
one kind of metric in one direction in two models or more are one event. It is the revision's, or
the environment's if the revision did not change or the machine is the cause. The remaining alerts
form events of single models, with all metrics of a case together. A drift that contains steps
belongs to the event of the last of them.
Assumptions: two changes of one night in one direction and kind are one event at first sight.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from compile_hud.db.records.alerts import (
    DRIFT,
    FAILING,
    MASKED,
    MISSING_WORDS,
    OUTCOME,
    VANISHED,
    Alert,
    Event,
    EventKind,
    began,
    leading,
    onset_of,
)
from compile_hud.db.records.metrics import metric_label
from compile_hud.db.records.results import Verdict
from compile_hud.db.records.summaries import PlannedRun
from compile_hud.db.records.triage import size_pct
from compile_hud.db.shared.text import counted, counted_of, short_revision
from compile_hud.runner.analysis.detection.series_changes import STEP
from compile_hud.runner.analysis.judging.attribution import MACHINE

# Runs between two alerts of one event: noise may show a step of a revision a run late.
NUM_RUNS_APART = 1
# Models of an event of the revision or the environment: one model may have any reason, two in one
# night have one.
MIN_MODELS = 2

MISSING = "missing"
_KINDS = {OUTCOME: OUTCOME, **dict.fromkeys(MISSING_WORDS, MISSING)}
# The first bad run of such an alert is the first one with the change.
_DATED_KINDS = (STEP, OUTCOME, MASKED)
_TOPICS = {
    "latency": "time",
    "speedup": "time",
    "compile": "compile time",
    "peak": "memory",
    "graph": "graphs",
    "graphs": "graphs",
    "recompiles": "graphs",
    "max": "accuracy",
    "rmse": "accuracy",
    "cosine": "accuracy",
}
# The order of topics in the title of an event that has several.
_MOST_TELLING = (OUTCOME, "accuracy", "time", "drift", "memory", "compile time", "graphs")
_WORDS = {
    (OUTCOME, Verdict.REGRESSION): FAILING,
    ("time", Verdict.REGRESSION): "slower",
    ("time", Verdict.IMPROVEMENT): "faster",
    ("compile time", Verdict.REGRESSION): "slower to compile",
    ("compile time", Verdict.IMPROVEMENT): "faster to compile",
    ("memory", Verdict.REGRESSION): "more memory",
    ("memory", Verdict.IMPROVEMENT): "less memory",
    ("accuracy", Verdict.REGRESSION): "less accurate",
    ("accuracy", Verdict.IMPROVEMENT): "more accurate",
    ("noise", Verdict.INCONCLUSIVE): "noisier",
    (MASKED, Verdict.REGRESSION): "slower in a kernel",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _AlertGroup:
    """Alerts of one event; `subject` distinguishes it from others with its onset."""

    onset: str
    subject: str
    alerts: Sequence[Alert]


def events_of(alerts: Iterable[Alert], *, runs: Sequence[PlannedRun]) -> dict[str, Event]:
    """Return the event of each alert, by the alert's id; `runs` are all runs, oldest first."""
    by_scope: dict[tuple[str, str], list[Alert]] = defaultdict(list)
    for alert in alerts:
        by_scope[alert.machine, alert.toolchain].append(alert)
    known = {run.id: run for run in runs}
    events = {}
    for scope, scope_alerts in by_scope.items():
        order = [run.id for run in runs if run.scope == scope]
        drifts = _drifts_by_step(scope_alerts)
        joining = {drift.id for groups in drifts.values() for drift in groups}
        apart = [alert for alert in scope_alerts if alert.id not in joining]
        for onset, groups in _by_onset(apart, order=order).items():
            for group in _groups(onset, groups):
                with_drifts = [
                    each for alert in group.alerts for each in (alert, *drifts[alert.id])
                ]
                event = _event(scope, group, known.get(onset), alerts=with_drifts)
                events.update(dict.fromkeys((alert.id for alert in with_drifts), event))
    return events


def topic_of(alert: Alert) -> str:
    """Return the topic of an alert: time, compile time, memory, drift, ..."""
    if alert.kind in _KINDS:
        return _KINDS[alert.kind]
    if alert.kind != STEP:
        return {"variance": "noise"}.get(alert.kind, alert.kind)
    return _metric_topic(alert)


def _metric_topic(alert: Alert) -> str:
    return _TOPICS.get(alert.metric.split("_", maxsplit=1)[0], alert.metric)


def _drifts_by_step(alerts: Sequence[Alert]) -> Mapping[str, Sequence[Alert]]:
    """Return the drifts that contain steps, by the id of the last step.

    A step after the first sight of a drift is an event of its own.
    """
    steps: dict[tuple[str, Verdict], list[Alert]] = defaultdict(list)
    for alert in alerts:
        if alert.kind == STEP:
            steps[alert.series_key, alert.verdict].append(alert)
    drifts: dict[str, list[Alert]] = defaultdict(list)
    for drift in alerts:
        if drift.kind != DRIFT:
            continue
        inside = [
            step
            for step in steps[drift.series_key, drift.verdict]
            if began(drift).at < step.first_bad.at <= drift.first_bad.at
        ]
        if inside:
            last = max(inside, key=lambda step: (step.first_bad.at, step.id))
            drifts[last.id].append(drift)
    return drifts


def _by_onset(alerts: Sequence[Alert], *, order: Sequence[str]) -> dict[str, list[Alert]]:
    """Return alerts that may be of one change, by the run in which most of them start."""
    positions = {run_id: position for position, run_id in enumerate(order)}
    starts = Counter(alert.first_bad.run_id for alert in alerts)
    free = {alert.id: alert for alert in sorted(alerts, key=_start)}
    by_onset: dict[str, list[Alert]] = {}
    # Of two runs with equal counts the earlier one counts; a pruned run stands alone.
    for run_id in sorted(starts, key=lambda item: (-starts[item], positions.get(item, -1), item)):
        members = [alert for alert in free.values() if alert.first_bad.run_id == run_id]
        if not members:
            continue
        if run_id in positions:
            members += _neighbours(members, free.values(), positions=positions)
        joined = {alert.id for alert in members}
        by_onset[run_id] = [alert for alert in alerts if alert.id in joined]
        for alert_id in joined:
            del free[alert_id]
    return by_onset


def _neighbours(
    members: Sequence[Alert], others: Iterable[Alert], *, positions: Mapping[str, int]
) -> list[Alert]:
    """Return the alerts that start in another run than `members` and may be of the same change."""
    ranges = [_range_of(alert, positions) for alert in members]
    low, high = max(first for first, _ in ranges), positions[members[0].first_bad.run_id]
    start, revision = high, members[0].first_bad.revision
    neighbours = []
    for alert in others:
        if alert.first_bad.run_id not in positions or alert in members:
            continue
        first, last = _range_of(alert, positions)
        if max(low, first) < min(high, last):
            # One run has to explain all of them.
            low, high = max(low, first), min(high, last)
            neighbours.append(alert)
        elif alert.first_bad.revision == revision and abs(last - start) <= NUM_RUNS_APART:
            neighbours.append(alert)
    return neighbours


def _range_of(alert: Alert, positions: Mapping[str, int]) -> tuple[int, int]:
    """Return the positions of the last run before a change and of the last that may have made it.

    A case that a run did not measure may have changed in it.
    """
    last = positions[alert.first_bad.run_id]
    if alert.kind not in _DATED_KINDS:
        return last - 1 - NUM_RUNS_APART, last
    if alert.last_good is None:
        return last - 1, last
    return min(positions.get(alert.last_good.run_id, last - 1), last - 1), last


def _start(alert: Alert) -> tuple[datetime, str]:
    return alert.first_bad.at, alert.id


def _groups(onset: str, alerts: Sequence[Alert]) -> Iterator[_AlertGroup]:
    by_topic: dict[tuple[str, str], list[Alert]] = defaultdict(list)
    for alert in alerts:
        by_topic[topic_of(alert), str(alert.verdict)].append(alert)
    rest: dict[str, list[Alert]] = defaultdict(list)
    for topic, members in by_topic.items():
        if len({alert.case.model for alert in members}) >= MIN_MODELS:
            yield _AlertGroup(onset=onset, subject=" ".join(topic), alerts=members)
            continue
        for alert in members:
            rest[alert.case.model].append(alert)
    for model, members in rest.items():
        yield _AlertGroup(onset=onset, subject=f"model {model}", alerts=members)


def _event(
    scope: tuple[str, str], group: _AlertGroup, run: PlannedRun | None, *, alerts: Sequence[Alert]
) -> Event:
    text = "\n".join((*scope, group.onset, group.subject))
    # A drift belongs to the case of its step, and has no single night's revision.
    kind = _kind(group.alerts)
    return Event(
        id=hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16],
        kind=kind,
        title=_title(kind, alerts, run),
        size=len(alerts),
    )


def _kind(alerts: Sequence[Alert]) -> EventKind:
    if len({alert.case.key for alert in alerts}) == 1:
        return EventKind.CASE
    if len({alert.case.model for alert in alerts}) == 1:
        return EventKind.MODEL
    num_same = sum(
        alert.cause_kind == MACHINE
        or (alert.last_good is not None and alert.last_good.revision == alert.first_bad.revision)
        for alert in alerts
    )
    return EventKind.ENVIRONMENT if 2 * num_same > len(alerts) else EventKind.REVISION


def _title(kind: EventKind, alerts: Sequence[Alert], run: PlannedRun | None) -> str:
    leaders = leading(alerts)
    named = _named(leaders)
    parts = [_who(kind, leaders, run), _what(named), f"since {_since(named)}"]
    if kind is EventKind.ENVIRONMENT:
        parts.append("(not by the revision)")
    first = alerts[0]
    return f"{' '.join(parts)} ({first.toolchain} on {first.machine})"


def _since(alerts: Sequence[Alert]) -> str:
    """Return the revision of the onset, or the day of most alerts if nothing was measured at one.

    Among equal counts the first day counts.
    """
    if all(topic_of(alert) == MISSING and alert.metric == OUTCOME for alert in alerts):
        days = Counter(f"{alert.first_bad.at:%Y-%m-%d}" for alert in alerts)
        return min(days, key=lambda day: (-days[day], day))
    return short_revision(began(onset_of(alerts)).revision)


def _who(kind: EventKind, alerts: Sequence[Alert], run: PlannedRun | None) -> str:
    if kind is EventKind.CASE:
        return f"{alerts[0].case.key}:"
    references = {alert.case.key for alert in alerts if alert.case.is_reference}
    num_references = counted(len(references), "reference case")
    own = [alert for alert in alerts if alert.case.key not in references]
    if not own:
        return f"{num_references}:"
    cases = {alert.case.key for alert in own}
    planned = () if run is None else run.plan
    model = own[0].case.model
    models = {alert.case.model for alert in own}
    is_model = len(models) == 1
    peers = {
        case.key
        for case in planned
        if not case.is_reference and (case.model == model or not is_model)
    }
    text = counted_of(len(cases), len(peers | cases), "case")
    text += f" of {model}" if is_model else f" in {counted(len(models), 'model')}"
    return f"{text} and {num_references}:" if references else f"{text}:"


def _named(alerts: Sequence[Alert]) -> list[Alert]:
    """Return the alerts that a title names: those of the first topic and its worst verdict."""
    of_topic = _of_first_topic(alerts, topic_of)
    if topic_of(of_topic[0]) == DRIFT:
        of_topic = _of_first_topic(of_topic, _metric_topic)
    verdict = max((alert.verdict for alert in of_topic), key=_WORST.index)
    return [alert for alert in of_topic if alert.verdict is verdict]


def _of_first_topic(alerts: Sequence[Alert], name: Callable[[Alert], str]) -> list[Alert]:
    topics = {name(alert) for alert in alerts}
    ranked = [topic for topic in _MOST_TELLING if topic in topics]
    first = (ranked or sorted(topics))[0]
    return [alert for alert in alerts if name(alert) == first]


def _what(alerts: Sequence[Alert]) -> str:
    topic, verdict = topic_of(alerts[0]), alerts[0].verdict
    if topic == MISSING:
        return _what_is_missing(alerts)
    metrics = ", ".join(sorted({metric_label(alert.metric) for alert in alerts}))
    is_drift = topic == DRIFT
    key = (_metric_topic(alerts[0]) if is_drift else topic, verdict)
    word = _WORDS.get(key, f"{verdict} of {metrics}")
    kind = f" ({topic})" if topic in (DRIFT, MASKED) else ""
    changes = sorted(change for alert in alerts if (change := size_pct(alert)) is not None)
    if not changes:
        return f"{word}{kind}"
    low, high = f"{changes[0]:.1f}", f"{changes[-1]:.1f}"
    amount = low if low == high else f"{low} to {high}"
    return f"{word} by {amount} %{kind}"


def _what_is_missing(alerts: Sequence[Alert]) -> str:
    kinds = {alert.kind for alert in alerts if alert.metric == OUTCOME}
    words = [word for kind, word in MISSING_WORDS.items() if kind in kinds]
    if metrics := sorted({alert.metric for alert in alerts} - {OUTCOME}):
        words.append(f"{', '.join(map(metric_label, metrics))} {MISSING_WORDS[VANISHED]}")
    return " or ".join(words)


# The last of them is named.
_WORST = (
    Verdict.IDENTICAL,
    Verdict.UNCHANGED,
    Verdict.INCONCLUSIVE,
    Verdict.IMPROVEMENT,
    Verdict.REGRESSION,
)
