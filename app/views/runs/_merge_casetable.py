"""The cases of a run as a table, worst first. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compile_hud.app.components.alert_rows import mark_text
from compile_hud.app.components.result_matrix import DIMENSIONS, common_dimensions, effective_note
from compile_hud.app.data.page_records import RunPage
from compile_hud.app.ui._merge_cells import WARNINGS_COLUMN, warnings_cell
from compile_hud.app.ui.format import Scale, metric_label, outcome_label, scale_for, speedup_label
from compile_hud.app.ui.html import Cell, Column, Note
from compile_hud.app.ui.urls import run_url, series_url
from compile_hud.db.records._merge_ranking import worst_first
from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.results import Alert, Case, Outcome, Run, RunState, Verdict
from compile_hud.db.records.summaries import ResultSummary
from compile_hud.db.shared.text import counted

_METRICS = (
    "latency_s",
    "speedup",
    "compile_cold_s",
    "compile_warm_s",
    "peak_bytes",
    "graph_breaks",
)
# From what needs most attention to what needs none.
_OUTCOME_ORDER = (
    Outcome.FAILED,
    Outcome.TIMEOUT,
    Outcome.OUT_OF_MEMORY,
    Outcome.INACCURATE,
    Outcome.LOST,
    Outcome.SKIPPED,
    Outcome.OK,
)
_WITH_INTERVAL = ("latency_s", "speedup")


def num_cases(page: RunPage) -> int:
    """Return how many rows the table of the cases has."""
    return sum(not result.case.is_reference for result in page.results) + len(_pending(page))


def case_table(
    page: RunPage, *, num_shown: int
) -> tuple[tuple[Column, ...], list[tuple[Cell, ...]]]:
    """Return columns and first rows: what is not ok, what regressed in this run, then the plan.

    The reference cases have a table of their own.
    """
    plan = [case for case in page.run.plan if not case.is_reference]
    dimensions = tuple(name for name in DIMENSIONS if name not in common_dimensions(plan))
    models = [result for result in page.results if not result.case.is_reference]
    scales = {name: _scale(models, metric=name) for name in _METRICS}
    regressions = _regressions(page)
    columns = (
        Column(label="model"),
        Column(label="variant"),
        *(Column(label=name) for name in dimensions),
        Column(label="outcome"),
        *(_column(name, scales[name], models) for name in _METRICS),
        WARNINGS_COLUMN,
    )
    order = {outcome: place for place, outcome in enumerate(_OUTCOME_ORDER)}
    results = sorted(
        models,
        key=lambda result: (order[result.outcome], result.case.key not in regressions),
    )
    rows = [
        _row(result, regressions=regressions, page=page, scales=scales, dimensions=dimensions)
        for result in results[:num_shown]
    ]
    pending = _pending(page)[: num_shown - len(rows)]
    return columns, rows + [_pending_row(case, page, dimensions) for case in pending]


def _pending(page: RunPage) -> list[Case]:
    """Return what is planned and has no result."""
    done = {result.case.key for result in page.results}
    return [case for case in page.run.plan if not case.is_reference and case.key not in done]


def _regressions(page: RunPage) -> dict[str, Alert]:
    """Return the worst regression of each case that this run was the first bad one of."""
    found = worst_first(
        alert
        for alert in page.alerts
        if alert.first_bad.run_id == page.run.id and alert.verdict is Verdict.REGRESSION
    )
    return {alert.case.key: alert for alert in reversed(found)}


def _scale(results: Sequence[ResultSummary], *, metric: str) -> Scale:
    medians = [
        result.measurements[metric].median for result in results if metric in result.measurements
    ]
    return scale_for(METRICS[metric].unit, medians)


def _column(metric: str, scale: Scale, results: Sequence[ResultSummary]) -> Column:
    label = (
        speedup_label(item.measurements for item in results)
        if metric == "speedup"
        else metric_label(metric)
    )
    unit = "" if scale.unit in ("", "x") else f" ({scale.unit})"
    return Column(label=label + unit, title=METRICS[metric].description, is_number=True)


def _identity(case: Case, page: RunPage, dimensions: Sequence[str]) -> tuple[Cell, ...]:
    href = run_url(page.run.id, case_key=case.key)
    return (
        Cell(text=case.model, href=href, style="strong", title=case.key),
        Cell(text=case.variant, href=href, style="wraps"),
        *(Cell(text=str(getattr(case, name)), style="quiet") for name in dimensions),
    )


def _row(
    result: ResultSummary,
    *,
    regressions: Mapping[str, Alert],
    page: RunPage,
    scales: Mapping[str, Scale],
    dimensions: Sequence[str],
) -> tuple[Cell, ...]:
    case = result.case
    notes = []
    if note := effective_note(case, result.effective_mode):
        notes.append(Note(text=note))
    if alert := regressions.get(case.key):
        notes.append(Note(text=mark_text(alert), style="note bad"))
    is_ok = result.outcome is Outcome.OK
    outcome = Cell(
        text=outcome_label(result.outcome),
        style="" if is_ok else "strong",
        title=result.reason,
        notes=tuple(notes),
    )
    values = [_value(result, metric=name, scale=scales[name], run=page.run) for name in _METRICS]
    return (*_identity(case, page, dimensions), outcome, *values, warnings_cell(result))


def _value(result: ResultSummary, *, metric: str, scale: Scale, run: Run) -> Cell:
    measured = result.measurements.get(metric)
    if measured is None:
        return Cell(text="-", style="quiet")
    text = scale.text(measured.median) if scale.unit == "x" else scale.number(measured.median)
    interval = scale.interval(measured.low, measured.high)
    spread = f"{interval} {scale.unit}, " if interval else ""
    return Cell(
        text=text,
        href=series_url(
            result.case.key,
            metric=metric,
            machine=run.machine,
            toolchain=run.toolchain,
            result=result.id,
        ),
        title=f"{spread}{counted(measured.num_samples, 'sample')}; {measured.method}",
        notes=(Note(text=interval),) if interval and metric in _WITH_INTERVAL else (),
    )


def _pending_row(case: Case, page: RunPage, dimensions: Sequence[str]) -> tuple[Cell, ...]:
    is_running = page.run.state is RunState.RUNNING
    state = Cell(text="to do" if is_running else "no result", style="quiet")
    nothing = [Cell(text="-", style="quiet") for _ in range(len(_METRICS) + 1)]
    return (*_identity(case, page, dimensions), state, *nothing)
