"""The tables of the page that compares two runs, and its CSV file. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import timedelta

from markupsafe import Markup

from compile_hud.app.components.matrix.result_matrix import DIMENSIONS
from compile_hud.app.ui.csv import csv_text
from compile_hud.app.ui.format import local_moment, moment, percent
from compile_hud.app.ui.html import (
    Cell,
    HtmlColumn,
    Note,
    collapsible,
    key_values,
    metric_tiles,
    table,
    time_cell,
)
from compile_hud.app.ui.theme import VERDICT_STYLES
from compile_hud.app.ui.urls import (
    OVERVIEW_METRICS,
    CompareState,
    compare_url,
    run_url,
)
from compile_hud.app.views.compare.records import (
    ComparedRow,
    ComparePage,
    ComparisonTally,
    Mean,
)
from compile_hud.db.records.metrics import METRICS, Direction, metric_label
from compile_hud.db.records.results import Case, Run, RunState, Verdict
from compile_hud.db.records.summaries import RunSummary
from compile_hud.db.shared.text import counted, counted_of, plain, short_revision

# Rows that need a person's eye come first; inside each verdict the worst does.
_ORDER = (
    Verdict.REGRESSION,
    Verdict.IMPROVEMENT,
    Verdict.INCONCLUSIVE,
    Verdict.UNCHANGED,
    Verdict.IDENTICAL,
)
# Some screens of the cases that one run alone has.
_SHOWN_ROWS = 150
# More names would fill the line of a choice.
_MAX_NAMED = 2
_NEAR_ONE = 0.0005
# The age of a baseline before the candidate; nights begin within hours of each other.
_SPANS = {
    "the previous run": timedelta(0),
    "a week before": timedelta(days=6, hours=12),
    "a month before": timedelta(days=29, hours=12),
}
_SIDE_COLUMNS = (
    HtmlColumn(label=""),
    HtmlColumn(label="run"),
    HtmlColumn(label="started"),
    HtmlColumn(label="revision"),
    HtmlColumn(label="toolchain"),
    HtmlColumn(label="machine"),
    HtmlColumn(label="suite", is_spare=True),
)
_CSV_COLUMNS = (
    *("model", "family", "phase", "shape", "dtype", "device"),
    *("baseline_variant", "candidate_variant", "metric", "unit", "baseline", "candidate"),
    *("ratio", "machine_ratio", "low", "high", "verdict", "significant", "relevant", "reason"),
    *("baseline_run", "baseline_revision", "candidate_run", "candidate_revision"),
)


def run_label(summary: RunSummary) -> str:
    """Return a run as one line of a choice: its time, revision, toolchain and machine."""
    run = summary.run
    places = (short_revision(run.revision), run.toolchain, run.machine, run.id)
    parts = [local_moment(run.started_at), *places]
    going = " (going)" if run.state is RunState.RUNNING else ""
    return "  ".join(parts) + going


def revision_label(name: str, *, models: Sequence[str], newest: Run, num_runs: int) -> str:
    """Return a revision as one line of a choice, with its newest run.

    `models` are the own models of a commit; none for a build of torch.
    """
    own = ", ".join(models) if len(models) <= _MAX_NAMED else counted(len(models), "model")
    what = " ".join(filter(None, (own, short_revision(name))))
    runs = counted(num_runs, "run")
    return f"{newest.started_at:%Y-%m-%d}  {what}  ({runs}, {newest.toolchain})"


def shown_rows(page: ComparePage, state: CompareState) -> list[ComparedRow]:
    """Return the rows that pass the filters."""
    return [
        row
        for row in page.rows
        if state.metric in ("", row.metric)
        and state.model in ("", row.candidate_case.model)
        and state.verdict in ("", row.verdict)
    ]


def worst_first(rows: Iterable[ComparedRow]) -> list[ComparedRow]:
    """Return `rows` in the order of the page: those that need a person's eye, the worst first."""
    return sorted(rows, key=_rank)


def models_of(page: ComparePage) -> list[str]:
    """Return the models of both runs, by name."""
    rows = [row.candidate_case.model for row in page.tally.by_case.values()]
    return sorted({*rows, *(pair.candidate_case.model for pair in page.levels)})


def metrics_of(page: ComparePage) -> list[str]:
    """Return the metrics that have a row, in their order in the table of metrics."""
    present = page.tally.metrics
    known = [name for name in METRICS if name in present]
    return [*known, *sorted(present - set(known))]


def headline(page: ComparePage) -> str:
    """Return the result in one line: the number of common cases with a change.

    A case can be faster and need more memory, so both numbers may count it.
    """
    tally = page.tally
    if not tally.common:
        return "Compare"
    numbers = (
        f"{len(tally.worse) or 'none'} with a regression,"
        f" {len(tally.better) or 'none'} with an improvement"
    )
    return f"{counted(len(tally.common), 'case')} in both runs: {numbers}"


def verdict_tiles(page: ComparePage) -> str:
    """Return the number of comparisons by verdict, with the number of cases."""
    title = "cases in both runs; a case in only one run has no comparison"
    common = Cell(
        text=f"{len(page.tally.common)} of {len(page.tally.by_case)}",
        title=title,
        notes=_reference_notes(page),
    )
    tiles = [(str(verdict), _verdict_cell(verdict, page.tally)) for verdict in _ORDER]
    return metric_tiles([*tiles, ("cases in both", common)])


def _reference_notes(page: ComparePage) -> tuple[Note, ...]:
    """Return the number of reference cases, which no comparison counts."""
    runs = (page.baseline, page.candidate)
    references = {case.key for run in runs for case in run.plan if case.is_reference}
    if not references:
        return ()
    return (Note(text=f"without {counted(len(references), 'reference case')}"),)


def _verdict_cell(verdict: Verdict, tally: ComparisonTally) -> Cell:
    number = tally.num_by_verdict.get(verdict, 0)
    if not number:
        return Cell(text="0", style="quiet")
    noun = "comparison" if number == 1 else "comparisons"
    cases = counted(tally.num_cases_by_verdict[verdict], "case")
    return Cell(
        text=str(number),
        style=VERDICT_STYLES.get(verdict, "quiet"),
        title="each of a metric of a case, or of its outcome",
        notes=(Note(text=f"{noun} in {cases}"),),
    )


def mean_table(means: Sequence[Mean], *, page: ComparePage) -> str:
    """Return the geometric means of candidate / baseline, variant by variant; "" without any."""
    present = {mean.metric for mean in means}
    metrics = [name for name in OVERVIEW_METRICS if name in present]
    by_column = {(mean.variant, mean.metric): mean for mean in means}
    columns = [
        HtmlColumn(label="geometric mean"),
        *(
            HtmlColumn(label=metric_label(name), title=METRICS[name].description, is_number=True)
            for name in metrics
        ),
    ]
    compared = page.tally.by_case.values()
    baselines = {row.candidate_case.variant: row.baseline_case.variant for row in compared}
    rows = [
        (
            Cell(text=_variant_text(baselines.get(variant, variant), variant), style="strong"),
            *(_mean_cell(by_column.get((variant, name))) for name in metrics),
        )
        for variant in dict.fromkeys(mean.variant for mean in means)
    ]
    return table(columns, rows, label="geometric means") if rows else ""


def suggestions(page: ComparePage, *, summaries: Sequence[RunSummary]) -> Markup:
    """Return links to further baselines of the candidate; "" for none.

    `summaries` are the newest runs, newest first.
    """
    run = page.candidate
    others = [
        item.run
        for item in summaries
        if item.num_by_outcome and item.run.id != run.id and item.run.suite == run.suite
    ]
    here = [other for other in others if (other.machine, other.toolchain) == _where(run)]
    older = [other for other in here if other.started_at < run.started_at]
    by_id: dict[str, Run] = {}
    for name, span in _SPANS.items():
        if past := [other for other in older if run.started_at - other.started_at >= span]:
            by_id[name] = past[0]
    for other in others:
        if other.machine != run.machine:
            by_id.setdefault(f"machine {other.machine}", other)
        elif other.toolchain != run.toolchain:
            by_id.setdefault(f"toolchain {other.toolchain}", other)
    cells = [
        (
            name,
            Cell(
                text=short_revision(other.revision),
                href=_against(other, run),
                title=moment(other.started_at),
            ),
        )
        for name, other in by_id.items()
        if other.id != page.baseline.id
    ]
    return key_values(cells) if cells else Markup()


def _where(run: Run) -> tuple[str, str]:
    return run.machine, run.toolchain


def _against(baseline: Run, candidate: Run) -> str:
    return compare_url(CompareState(baseline=baseline.id, candidate=candidate.id))


def side_table(page: ComparePage) -> str:
    """Return the facts of the two runs."""
    rows = [
        (
            Cell(text=name, style="quiet"),
            Cell(text=run.id, href=run_url(run.id)),
            time_cell(run.started_at),
            Cell(text=run.revision, style="revision"),
            Cell(text=run.toolchain),
            Cell(text=run.machine),
            Cell(text=run.suite),
        )
        for name, run in (("baseline", page.baseline), ("candidate", page.candidate))
    ]
    return table(_SIDE_COLUMNS, rows, label="sides")


def compared_csv(rows: Iterable[ComparedRow], *, page: ComparePage) -> str:
    """Return `rows` as a CSV file, numbers in the units of the store."""
    ends = (page.baseline.id, page.baseline.revision, page.candidate.id, page.candidate.revision)
    return csv_text(
        _CSV_COLUMNS,
        (
            (
                *(
                    str(getattr(row.candidate_case, name))
                    for name in ("model", "family", *DIMENSIONS)
                ),
                row.baseline_case.variant,
                row.candidate_case.variant,
                row.metric,
                row.unit,
                row.baseline,
                row.candidate,
                row.ratio,
                row.machine_ratio,
                row.low,
                row.high,
                str(row.verdict),
                row.is_significant,
                row.is_relevant,
                row.reason,
                *ends,
            )
            for row in rows
        ),
    )


def one_sided_text(page: ComparePage) -> Markup:
    """Return a folded list of the cases that only one of the runs has; "" without any."""
    rows = [row for row in page.rows if row.is_one_sided]
    if not rows:
        return Markup()
    cells = [
        (Cell(text=row.candidate_case.key, style="prose"), Cell(text=row.reason)) for row in rows
    ]
    columns = (HtmlColumn(label="case"), HtmlColumn(label="why there is no comparison"))
    content = table(columns, cells[:_SHOWN_ROWS], label="cases in only one run")
    more = f", the first {_SHOWN_ROWS} below" if len(rows) > _SHOWN_ROWS else ""
    return collapsible(f"Cases in only one run: {len(rows)}{more}", content)


def _rank(row: ComparedRow) -> tuple[int, float, str, str]:
    return (_ORDER.index(row.verdict), -_worse(row), row.candidate_case.key, row.metric)


def _worse(row: ComparedRow) -> float:
    """Return the log ratio by which the candidate is worse; a changed outcome precedes all else."""
    if row.ratio is None or row.ratio <= 0:
        return math.inf if row.verdict is Verdict.REGRESSION else 0.0
    is_lower = METRICS[row.metric].direction is Direction.LOWER_IS_BETTER
    return math.log(row.ratio) if is_lower else -math.log(row.ratio)


def change_of(row: ComparedRow) -> str:
    """Return the change of the candidate, in words if it is no ratio."""
    metric = METRICS.get(row.metric)
    is_count = metric is not None and metric.is_count and row.baseline != row.candidate
    if row.ratio is not None and not is_count:
        return percent(100 * (row.ratio - 1))
    if row.baseline is not None and row.candidate is not None:
        return f"{plain(row.baseline)} -> {plain(row.candidate)}"
    if row.metric not in METRICS and row.verdict is Verdict.REGRESSION:
        return "fails"
    return "passes again" if row.verdict is Verdict.IMPROVEMENT else "-"


def name_of(before: Case, after: Case) -> str:
    """Return the model with the variant, or with both if they differ."""
    return f"{after.model} {_variant_text(before.variant, after.variant)}"


def _variant_text(before: str, after: str) -> str:
    return after if before == after else f"{before} -> {after}"


def _mean_cell(mean: Mean | None) -> Cell:
    if mean is None:
        return Cell(text="-", style="quiet")
    is_same = abs(mean.ratio - 1) < _NEAR_ONE
    low, high = (100 * (value - 1) for value in (mean.least, mean.most))
    return Cell(
        text=percent(100 * (mean.ratio - 1)),
        style="quiet" if is_same else "",
        title=f"cases from {percent(low)} to {percent(high)}",
        notes=(Note(text=counted_of(mean.num_common, mean.num_cases, "case")),),
    )
