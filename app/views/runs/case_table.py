"""The cases of a run as a table: outcomes, warnings and measurements. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compile_hud.app.components.matrix.result_matrix import DIMENSIONS, common_dimensions
from compile_hud.app.components.table.columns import (
    DataTable,
    IntervalColumn,
    Link,
    LinkColumn,
    NumberColumn,
    TextColumn,
    data_table,
)
from compile_hud.app.data.page_records import RunPage
from compile_hud.app.ui.alert_text import alert_text
from compile_hud.app.ui.format import Scale, column_scale, outcome_label, quantity, speedup_label
from compile_hud.app.ui.urls import FINDINGS, run_url, series_url
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.metrics import METRICS, column_latencies, metric_label
from compile_hud.db.records.results import Case, Outcome, RunState, Verdict
from compile_hud.db.records.summaries import ResultSummary
from compile_hud.db.records.triage import worst_first

_SPEED_METRICS = ("eager_latency_s", "latency_s", "speedup")
_OTHER_METRICS = (
    "compile_cold_s",
    "compile_warm_s",
    "peak_bytes",
    "graph_breaks",
)
# Outcomes that need most attention come first; the others have the order of the plan.
_OUTCOME_ORDER = (
    Outcome.FAILED,
    Outcome.TIMEOUT,
    Outcome.OUT_OF_MEMORY,
    Outcome.INACCURATE,
    Outcome.NODE_LOST,
    Outcome.SKIPPED,
)
# The columns of these metrics are followed by one of intervals.
_WITH_INTERVAL = ("latency_s", "speedup")
_REASON_WIDTH = 260
_FINDINGS_COLUMN = LinkColumn(
    label="findings", help="the most expensive cause of extra time, and the number of the others"
)


def case_table(page: RunPage) -> DataTable:
    """Return the cases that are not ok, those that regressed in this run, then the plan.

    The reference cases have a table of their own.
    """
    plan = [case for case in page.run.plan if not case.is_reference]
    dimensions = tuple(name for name in DIMENSIONS if name not in common_dimensions(plan))
    regressions = _regressions(page)
    results = _ordered(page, regressions)
    clocks = _clocks(results)
    has_marks = bool(regressions)
    has_own_eager = bool(page.own_eager_s)
    has_findings = any(page.findings.values())
    has_fallbacks = any(_fallback(result) for result in results)
    columns = (
        LinkColumn(label="model", help="opens the case", is_pinned=True),
        TextColumn(label="variant"),
        *(TextColumn(label=name) for name in dimensions),
        TextColumn(label="outcome"),
        *([TextColumn(label="regression", help="first seen in this run")] if has_marks else []),
        *(
            [TextColumn(label="fell back to", help="the mode that ran instead")]
            if has_fallbacks
            else []
        ),
        NumberColumn(label="warnings"),
        *(
            column
            for name in _SPEED_METRICS
            for column in _metric_columns(name, clocks.get(name, name), results)
        ),
        *([_FINDINGS_COLUMN] if has_findings else []),
        *(
            column
            for name in _OTHER_METRICS
            for column in _metric_columns(name, clocks.get(name, name), results)
        ),
        *([_own_eager_column(page)] if has_own_eager else []),
        LinkColumn(label="history", help="the latency of the case over its runs"),
        TextColumn(label="reason", help="of an outcome that is not ok", width=_REASON_WIDTH),
    )
    rows = [
        (
            *_identity(result.case, page, dimensions),
            outcome_label(result.outcome),
            *([_mark(regressions.get(result.case.key))] if has_marks else []),
            *([_fallback(result) or None] if has_fallbacks else []),
            len(result.warnings),
            *(value for name in _SPEED_METRICS for value in _values(result, name, clocks)),
            *([_first_finding(result, page)] if has_findings else []),
            *(value for name in _OTHER_METRICS for value in _values(result, name, clocks)),
            *([page.own_eager_s.get(result.case.key)] if has_own_eager else []),
            _history(result, page),
            result.reason or None,
        )
        for result in results
    ]
    num_empty = len(columns) - 3 - len(dimensions)
    rows += _pending_rows(page, dimensions, num_empty=num_empty)
    return data_table(columns, rows, label="cases of the run")


def _pending_rows(
    page: RunPage, dimensions: Sequence[str], *, num_empty: int
) -> list[tuple[object, ...]]:
    """Return a row for each case of the plan that has no result."""
    state = "to do" if page.run.state is RunState.RUNNING else "no result"
    return [
        (*_identity(case, page, dimensions), state, *(None,) * num_empty) for case in _pending(page)
    ]


def _ordered(page: RunPage, regressions: Mapping[str, Alert]) -> list[ResultSummary]:
    """Return the results of models, those that need most attention first."""
    order = {outcome: rank for rank, outcome in enumerate(_OUTCOME_ORDER)}
    return sorted(
        (result for result in page.results if not result.case.is_reference),
        key=lambda result: (
            order.get(result.outcome, len(order)),
            result.case.key not in regressions,
        ),
    )


def _own_eager_column(page: RunPage) -> NumberColumn:
    """Return the column of eager's own process, where its time differs from that of the case."""
    scale = column_scale("s", page.own_eager_s.values())
    text = "in its own process: the load differed"
    return NumberColumn(label="eager alone", help=text, unit="s", scale=scale)


def _identity(case: Case, page: RunPage, dimensions: Sequence[str]) -> tuple[object, ...]:
    link = Link(case.model, run_url(page.run.id, case_key=case.key))
    return (link, case.variant, *(str(getattr(case, name)) for name in dimensions))


def _clocks(results: Sequence[ResultSummary]) -> dict[str, str]:
    """Return the latencies on the clock of the table, by those on the wall clock."""
    taken = [result.measurements.get("speedup") for result in results]
    eager, latency = column_latencies(
        [result.measurements for result in results],
        methods=[item.method for item in taken if item is not None],
    )
    return {"eager_latency_s": eager, "latency_s": latency}


def _metric_columns(
    key: str, metric: str, results: Sequence[ResultSummary]
) -> tuple[TextColumn, ...]:
    medians = [
        result.measurements[metric].median for result in results if metric in result.measurements
    ]
    known = METRICS[metric]
    label = metric_label(metric)
    if metric == "speedup":
        label = speedup_label(item.measurements for item in results)
    scale = column_scale(known.unit, medians)
    numbers = NumberColumn(label=label, help=known.description, unit=known.unit, scale=scale)
    return (numbers, _intervals(label, scale)) if key in _WITH_INTERVAL else (numbers,)


def _intervals(label: str, scale: Scale) -> TextColumn:
    return IntervalColumn(label=f"{label}, 95 %", help="95 % interval of the median", scale=scale)


def _values(result: ResultSummary, key: str, clocks: Mapping[str, str]) -> tuple[object, ...]:
    # A result with several threads has no CPU time.
    measured = result.measurements.get(clocks.get(key, key)) or result.measurements.get(key)
    median = None if measured is None else measured.median
    interval = None if measured is None else (measured.low, measured.high)
    return (median, interval) if key in _WITH_INTERVAL else (median,)


def _pending(page: RunPage) -> list[Case]:
    """Return the planned cases that have no result."""
    done = {result.case.key for result in page.results}
    return [case for case in page.run.plan if not case.is_reference and case.key not in done]


def _regressions(page: RunPage) -> dict[str, Alert]:
    """Return the worst regression of each case for which this run was the first bad one."""
    worst = worst_first(
        alert
        for alert in page.alerts
        if alert.first_bad.run_id == page.run.id and alert.verdict is Verdict.REGRESSION
    )
    return {alert.case.key: alert for alert in reversed(worst)}


def _first_finding(result: ResultSummary, page: RunPage) -> Link | None:
    """Return the total or the most expensive finding, and the number of the others."""
    findings = page.findings.get(result.id, ())
    if not findings:
        return None
    first = findings[0]
    cost = "" if first.cost_s is None else f" {quantity(first.cost_s, 's')}"
    others = f" +{len(findings) - 1}" if len(findings) > 1 else ""
    url = run_url(page.run.id, case_key=result.case.key, tab=FINDINGS)
    return Link(f"{first.code}{cost}{others}", url)


def _mark(alert: Alert | None) -> str | None:
    return None if alert is None else alert_text(alert).mark


def _fallback(result: ResultSummary) -> str:
    mode = result.effective_mode
    return "" if mode == result.case.mode else mode


def _history(result: ResultSummary, page: RunPage) -> Link | None:
    if not result.measurements:
        return None
    url = series_url(
        result.case.key,
        machine=page.run.machine,
        toolchain=page.run.toolchain,
        result=result.id,
    )
    return Link("history", url)
