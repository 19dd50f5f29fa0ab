"""The events that a trend marks: alerts, annotations, and changes of torch, machine and models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, Protocol

from compile_hud.db.records.alerts import Alert, AlertState, subject_text
from compile_hud.db.records.results import Case, Verdict
from compile_hud.db.records.summaries import HistoryRun
from compile_hud.db.records.triage import fits
from compile_hud.db.shared.model_code import ZOO
from compile_hud.db.shared.text import listed, short_revision, signed
from compile_hud.runner.analysis.comparison.runs import baseline_differences
from compile_hud.runner.analysis.trends.records import MarkKind, TrendMark

# A mark names so many facts or models; the others are counted.
_NUM_NAMED = 3


class Remark(Protocol):
    """A text about a date and the series that a pattern names."""

    @property
    def id(self) -> str:
        """Return the identity of the remark."""

    @property
    def at(self) -> datetime:
        """Return the date that the text is about."""

    @property
    def pattern(self) -> str:
        """Return the glob of `case#metric`."""

    @property
    def text(self) -> str:
        """Return the text."""


def trend_marks(
    runs: Sequence[HistoryRun],
    *,
    alerts: Iterable[Alert],
    remarks: Iterable[Remark],
    environments: Mapping[str, Mapping[str, Any]],
    cases: Sequence[Case],
    is_selected: Callable[[Case], bool],
) -> tuple[TrendMark, ...]:
    """Return the marks between the first and the last of `runs`, oldest first.

    `environments` has the facts of the two runs at each change of the environment. An alert counts
    if its case is selected, a remark if it concerns a selected one of `cases`.
    """
    if not runs:
        return ()
    marks = [
        *_run_marks(runs, environments=environments),
        *(_alert_mark(alert) for alert in alerts if is_selected(alert.case) and _is_shown(alert)),
        *_remark_marks(remarks, [case for case in cases if is_selected(case)]),
    ]
    inside = (mark for mark in marks if runs[0].at <= mark.at <= runs[-1].at)
    return tuple(sorted(inside, key=lambda mark: (mark.at, mark.kind, mark.id)))


def _run_marks(
    runs: Sequence[HistoryRun], *, environments: Mapping[str, Mapping[str, Any]]
) -> Iterator[TrendMark]:
    for before, after in pairwise(runs):
        if before.revision != after.revision:
            text = f"{short_revision(before.revision)} -> {short_revision(after.revision)}"
            yield TrendMark(kind=MarkKind.REVISION, at=after.at, text=text, run_id=after.id)
        if before.fingerprint != after.fingerprint:
            sides = (environments.get(before.id, {}), environments.get(after.id, {}))
            text = _environment_text(*sides) or "other environment"
            yield TrendMark(kind=MarkKind.ENVIRONMENT, at=after.at, text=text, run_id=after.id)
        if text := _code_text(before.model_commits, after.model_commits):
            yield TrendMark(kind=MarkKind.MODEL_CODE, at=after.at, text=text, run_id=after.id)


def _environment_text(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    texts = [
        f"{item.name} {_fact_text(item.baseline)} -> {_fact_text(item.candidate)}"
        for item in baseline_differences(before, after=after)
    ]
    return listed(texts, limit=_NUM_NAMED)


def _fact_text(value: Any) -> str:
    return "none" if value is None else str(value)


def _code_text(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    texts = [
        f"{name} {before[name]} -> {after[name]}"
        for name in sorted({*before} & {*after} - {ZOO})
        if before[name] != after[name]
    ]
    return listed(texts, limit=_NUM_NAMED)


def _is_shown(alert: Alert) -> bool:
    """Return whether an alert is of a model, and neither noise nor refuted by a re-measurement."""
    is_change = alert.verdict in (Verdict.REGRESSION, Verdict.IMPROVEMENT)
    is_refuted = alert.is_confirmed is False or alert.state is AlertState.NOISE
    return is_change and not is_refuted and not alert.case.is_reference


def _alert_mark(alert: Alert) -> TrendMark:
    change = "" if alert.change_pct is None else f" {signed(alert.change_pct)} %"
    subject = subject_text(alert.metric, kind=alert.kind, verdict=alert.verdict)
    return TrendMark(
        kind=MarkKind.ALERT,
        at=alert.first_bad.at,
        text=f"{alert.case.model} / {alert.case.variant}: {subject}{change} ({alert.state})",
        run_id=alert.first_bad.run_id,
        case=alert.case,
        metric=alert.metric,
        verdict=str(alert.verdict),
        id=alert.id,
    )


def _remark_marks(remarks: Iterable[Remark], cases: Sequence[Case]) -> Iterator[TrendMark]:
    for remark in remarks:
        # A pattern names a metric as well, which a trend of many cases ignores.
        pattern = f"{remark.pattern.partition('#')[0]}#*"
        if any(fits(pattern, series_key=f"{case.key}#@") for case in cases):
            yield TrendMark(kind=MarkKind.ANNOTATION, at=remark.at, text=remark.text, id=remark.id)
