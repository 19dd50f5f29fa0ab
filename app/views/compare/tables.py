"""The tables of the page that compares two runs, and its CSV file. Pure."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Sequence
from datetime import timedelta

from compile_hud.app.components.result_matrix import DIMENSIONS, common_dimensions
from compile_hud.app.ui.csv import csv_text
from compile_hud.app.ui.format import (
    Scale,
    metric_label,
    moment,
    outcome_label,
    percent,
    percent_interval,
    scale_for,
)
from compile_hud.app.ui.html import (
    Cell,
    HtmlColumn,
    Note,
    banner,
    collapsible,
    interval_notes,
    key_values,
    metric_tiles,
    table,
)
from compile_hud.app.ui.theme import VERDICT_STYLES
from compile_hud.app.ui.urls import (
    OVERVIEW_METRICS,
    CompareState,
    KernelDiffState,
    compare_url,
    kernel_diff_url,
    run_url,
    series_url,
)
from compile_hud.app.views.compare.records import (
    ComparedRow,
    ComparePage,
    ComparisonTally,
    Level,
    LevelPair,
    Mean,
)
from compile_hud.db.records.metrics import METRICS, Direction
from compile_hud.db.records.results import Case, Run, RunState, Verdict
from compile_hud.db.records.summaries import RunSummary
from compile_hud.db.shared.text import counted, short_revision

# Rows that need a person's eye come first; inside each verdict the worst does.
_ORDER = (
    Verdict.REGRESSION,
    Verdict.IMPROVEMENT,
    Verdict.INCONCLUSIVE,
    Verdict.UNCHANGED,
    Verdict.IDENTICAL,
)
# Some screens; the filters narrow the table, and the file has all rows.
SHOWN_ROWS = 150
# A folded section is shorter; the filter of its verdict shows more of it.
_FOLDED_ROWS = 40
_NEAR_ONE = 0.0005
# The age of a baseline before the candidate; nights begin within hours of each other.
_SPANS = {
    "the previous run": timedelta(0),
    "a week before": timedelta(days=6, hours=12),
    "a month before": timedelta(days=29, hours=12),
}
_ROW_COLUMNS = (
    HtmlColumn(
        label="change",
        title="candidate / baseline - 1 at the same machine speed, with its 95 % interval",
        is_number=True,
    ),
    HtmlColumn(label="model and variant"),
    HtmlColumn(label="metric"),
    HtmlColumn(label="baseline", is_number=True),
    HtmlColumn(label="candidate", is_number=True),
    HtmlColumn(label="verdict"),
    HtmlColumn(label="why", is_brief=True),
)
_LEVEL_COLUMNS = (
    HtmlColumn(label="model and variant"),
    HtmlColumn(label="baseline", title="median with its 95 % interval", is_number=True),
    HtmlColumn(label="candidate", title="median with its 95 % interval", is_number=True),
    HtmlColumn(label="candidate / baseline", title="no verdict follows from it", is_number=True),
)
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
    parts = [f"{run.started_at:%Y-%m-%d %H:%M}", *places]
    going = " (going)" if run.state is RunState.RUNNING else ""
    return "  ".join(parts) + going


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
    common = Cell(text=f"{len(page.tally.common)} of {len(page.tally.by_case)}", title=title)
    tiles = [(str(verdict), _verdict_cell(verdict, page.tally)) for verdict in _ORDER]
    return metric_tiles([*tiles, ("cases in both", common)])


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


def row_sections(rows: Sequence[ComparedRow], *, page: ComparePage) -> list[str]:
    """Return the tables of `rows`: changes, and behind a fold everything else.

    Without changes, or with a single verdict, nothing is folded. A verdict shows its first
    SHOWN_ROWS, a folded one its first _FOLDED_ROWS.
    """
    common = common_dimensions(row.candidate_case for row in page.tally.by_case.values())
    draw = functools.partial(
        _row_table, page=page, varied=[name for name in DIMENSIONS if name not in common]
    )
    changed = [row for row in rows if row.verdict in VERDICT_STYLES]
    calm = {
        verdict: [row for row in rows if row.verdict is verdict]
        for verdict in _ORDER
        if verdict not in VERDICT_STYLES
    }
    if len({row.verdict for row in rows}) == 1:
        return [draw(rows, label="comparisons", most=SHOWN_ROWS)]
    sections = []
    if changed:
        sections.append(draw(changed, label="comparisons", most=SHOWN_ROWS))
    sections += [
        collapsible(
            f"{str(verdict).capitalize()}: {len(part)}",
            draw(part, label=verdict, most=_FOLDED_ROWS),
        )
        for verdict, part in calm.items()
        if part
    ]
    return sections


def _row_table(
    rows: Sequence[ComparedRow], *, page: ComparePage, varied: Sequence[str], label: str, most: int
) -> str:
    cells = [_row_cells(row, page=page, varied=varied) for row in rows[:most]]
    shown = table(_ROW_COLUMNS, cells, label=label)
    num_left = len(rows) - most
    more = banner(f"{num_left} further rows: the filters narrow it, the CSV file has all.")
    return shown + (more if num_left > 0 else "")


def suggestions(page: ComparePage, *, summaries: Sequence[RunSummary]) -> str:
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
    return key_values(cells) if cells else ""


def _where(run: Run) -> tuple[str, str]:
    return run.machine, run.toolchain


def _against(baseline: Run, candidate: Run) -> str:
    return compare_url(CompareState(baseline=baseline.id, candidate=candidate.id))


def level_table(pairs: Sequence[LevelPair], *, page: ComparePage) -> str:
    """Return the levels of both runs side by side, for runs that do not compare."""
    scale = _scale(pairs)
    common = common_dimensions(pair.candidate_case for pair in page.levels)
    # The device is that of the environment, which the page shows above.
    varied = [name for name in DIMENSIONS[:3] if name not in common]
    rows = [
        (
            Cell(
                text=name_of(pair.baseline_case, pair.candidate_case),
                style="strong wraps",
                title=pair.candidate_case.key,
                notes=_dimension_notes(pair.candidate_case, varied),
            ),
            _level_cell(pair.baseline, scale, run=page.baseline, case=pair.baseline_case),
            _level_cell(pair.candidate, scale, run=page.candidate, case=pair.candidate_case),
            Cell(text=_ratio_text(pair), style="quiet"),
        )
        for pair in pairs[:SHOWN_ROWS]
    ]
    return table(_LEVEL_COLUMNS, rows, label="levels of both runs")


def side_table(page: ComparePage) -> str:
    """Return the facts of the two runs."""
    rows = [
        (
            Cell(text=name, style="quiet"),
            Cell(text=run.id, href=run_url(run.id)),
            Cell(text=moment(run.started_at)),
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


def one_sided_text(page: ComparePage) -> str:
    """Return a folded list of the cases that only one of the runs has; "" without any."""
    rows = [row for row in page.rows if row.is_one_sided]
    if not rows:
        return ""
    cells = [
        (Cell(text=row.candidate_case.key, style="prose"), Cell(text=row.reason)) for row in rows
    ]
    columns = (HtmlColumn(label="case"), HtmlColumn(label="why there is no comparison"))
    content = table(columns, cells[:SHOWN_ROWS], label="cases in only one run")
    return collapsible(f"Cases in only one run: {len(rows)}", content)


def _rank(row: ComparedRow) -> tuple[int, float, str, str]:
    return (_ORDER.index(row.verdict), -_worse(row), row.candidate_case.key, row.metric)


def _worse(row: ComparedRow) -> float:
    """Return the log ratio by which the candidate is worse; a changed outcome precedes all else."""
    if row.ratio is None or row.ratio <= 0:
        return math.inf if row.verdict is Verdict.REGRESSION else 0.0
    is_lower = METRICS[row.metric].direction is Direction.LOWER_IS_BETTER
    return math.log(row.ratio) if is_lower else -math.log(row.ratio)


def _row_cells(row: ComparedRow, *, page: ComparePage, varied: Sequence[str]) -> tuple[Cell, ...]:
    numbers = [value for value in (row.baseline, row.candidate) if value is not None]
    scale = scale_for(row.unit, numbers)
    interval = ""
    if row.low is not None and row.high is not None and row.low != row.high:
        interval = percent_interval((100 * (row.low - 1), 100 * (row.high - 1)))
    before, after = (
        Cell(text="-" if value is None else scale.text(value), style="" if numbers else "quiet")
        for value in (row.baseline, row.candidate)
    )
    return (
        Cell(
            text=change_of(row),
            style=VERDICT_STYLES.get(row.verdict, ""),
            notes=(Note(text=interval),) if interval else (),
        ),
        Cell(
            text=name_of(row.baseline_case, row.candidate_case),
            href=series_url(
                row.candidate_case.key,
                metric="" if row.metric not in METRICS else row.metric,
                machine=page.candidate.machine,
                toolchain=page.candidate.toolchain,
                result=row.result_id,
            ),
            style="strong wraps",
            title=row.candidate_case.key,
            notes=_dimension_notes(row.candidate_case, varied),
        ),
        Cell(text=metric_label(row.metric)),
        before,
        dataclasses.replace(after, notes=_machine_notes(row)),
        Cell(text=str(row.verdict), notes=_row_links(row, page=page)),
        Cell(text=row.reason, style="prose", title=row.reason),
    )


def _dimension_notes(case: Case, varied: Sequence[str]) -> tuple[Note, ...]:
    dimensions = " ".join(str(getattr(case, name)) for name in varied)
    return (Note(text=dimensions),) if dimensions else ()


def _machine_notes(row: ComparedRow) -> tuple[Note, ...]:
    if row.machine_ratio is None:
        return ()
    return (Note(text=f"machine {percent(100 * (row.machine_ratio - 1))}"),)


def _row_links(row: ComparedRow, *, page: ComparePage) -> tuple[Note, ...]:
    if row.is_one_sided or not row.has_kernels:
        return ()
    state = KernelDiffState(
        baseline_run=page.baseline.id,
        baseline_case=row.baseline_case.key,
        candidate_run=page.candidate.id,
        candidate_case=row.candidate_case.key,
    )
    return (Note(text="kernel diff", href=kernel_diff_url(state)),)


def change_of(row: ComparedRow) -> str:
    """Return the change of the candidate, in words if it is no ratio."""
    metric = METRICS.get(row.metric)
    is_count = metric is not None and metric.is_exact and row.baseline != row.candidate
    if row.ratio is not None and not is_count:
        return percent(100 * (row.ratio - 1))
    if row.baseline is not None and row.candidate is not None:
        return f"{row.baseline:g} -> {row.candidate:g}"
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
        notes=(Note(text=f"{mean.num_common} of {mean.num_cases} cases"),),
    )


def _scale(pairs: Sequence[LevelPair]) -> Scale:
    values = [
        level.median
        for pair in pairs
        for level in (pair.baseline, pair.candidate)
        if level.median is not None
    ]
    return scale_for(next((pair.unit for pair in pairs if pair.unit), ""), values)


def _level_cell(level: Level, scale: Scale, *, run: Run, case: Case) -> Cell:
    href = run_url(run.id, case_key=case.key)
    if level.median is None or level.low is None or level.high is None:
        text = "-" if level.outcome is None else outcome_label(level.outcome)
        return Cell(text=text, href=href, style="quiet")
    notes = interval_notes(level.low, level.high, scale=scale)
    return Cell(text=scale.text(level.median), href=href, notes=notes)


def _ratio_text(pair: LevelPair) -> str:
    before, after = pair.baseline.median, pair.candidate.median
    return "-" if not before or after is None else f"{after / before:.2f}x"
