"""The look-ups of a case in the caches of compiled graphs, launch by launch. Pure."""

from __future__ import annotations

from compile_hud.app.ui.html import Cell, HtmlColumn, table
from compile_hud.app.ui.urls import series_url
from compile_hud.db.records.metrics import CACHE_EVENTS, cache_metric
from compile_hud.db.records.results import Run
from compile_hud.db.records.summaries import ResultSummary
from compile_hud.db.shared.compile_caches import CacheLookups, cache_lookups

_COLUMNS = (
    HtmlColumn(label="launch"),
    HtmlColumn(label="cache"),
    *(HtmlColumn(label=name, is_number=True) for name in CACHE_EVENTS),
    HtmlColumn(label="reason"),
    HtmlColumn(label="remedy"),
)


def cache_table(result: ResultSummary, *, run: Run) -> str:
    """Return a row for each launch and cache; "" if the launches looked nothing up.

    The counts of cold and warm launches lead to their series.
    """
    lookups = cache_lookups(result.details)
    rows = [_row(item, result=result, run=run) for item in lookups]
    return table(_COLUMNS, rows, label="compile caches") if rows else ""


def _row(item: CacheLookups, *, result: ResultSummary, run: Run) -> tuple[Cell, ...]:
    numbers = (item.num_hits, item.num_misses, item.num_bypasses)
    remedies = dict.fromkeys(reason.remedy for reason in item.reasons)
    return (
        Cell(text=f"{item.launch} {item.state}"),
        Cell(text=item.title),
        *(
            Cell(
                text=str(number),
                href=_series(
                    cache_metric(item.cache, state=item.state, event=event), result=result, run=run
                ),
            )
            for event, number in zip(CACHE_EVENTS, numbers, strict=True)
        ),
        Cell(text=item.reasons_text or "-", style="prose"),
        Cell(text="; ".join(remedies) or "-", style="prose"),
    )


def _series(metric: str, *, result: ResultSummary, run: Run) -> str:
    if metric not in result.measurements:
        return ""
    return series_url(
        result.case.key,
        metric=metric,
        machine=run.machine,
        toolchain=run.toolchain,
        result=result.id,
    )
