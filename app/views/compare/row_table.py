"""The comparisons of two runs as a table, and the levels of runs that do not compare. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from compile_hud.app.components.matrix.result_matrix import DIMENSIONS, common_dimensions
from compile_hud.app.components.table.columns import (
    ChangeColumn,
    DataTable,
    IntervalColumn,
    Link,
    LinkColumn,
    NumberColumn,
    TextColumn,
    VerdictColumn,
    data_table,
)
from compile_hud.app.ui.format import (
    Scale,
    column_scale,
    outcome_label,
    scale_for,
)
from compile_hud.app.ui.urls import KernelDiffState, kernel_diff_url, run_url, series_url
from compile_hud.app.views.compare.records import ComparedRow, ComparePage, Level, LevelPair
from compile_hud.app.views.compare.tables import change_of, name_of
from compile_hud.db.records.metrics import METRICS, metric_label
from compile_hud.db.records.results import Case, Run
from compile_hud.db.shared.text import ratio_interval

_WHY_WIDTH = 340
_CHANGE_HELP = "candidate / baseline - 1 at the same machine speed"
_MACHINE_HELP = "change of the machine itself, which the change leaves out"


def row_table(rows: Sequence[ComparedRow], *, page: ComparePage) -> DataTable:
    """Return a row for each comparison, in their order; the name opens the series.

    Levels of one unit are numbers, those of several units are texts.
    """
    varied = _varied_dimensions(row.candidate_case for row in page.tally.by_case.values())
    units = {row.unit for row in rows}
    levels_of = _level_numbers if len(units) == 1 else _level_texts
    has_words = any(_words(row) for row in rows)
    has_machine = any(row.machine_ratio is not None for row in rows)
    has_kernels = any(_has_diff(row) for row in rows)
    columns = (
        LinkColumn(label="model and variant", help="opens the series", is_pinned=True),
        VerdictColumn(label="verdict"),
        *(TextColumn(label=name) for name in varied),
        TextColumn(label="metric"),
        ChangeColumn(label="change", help=_CHANGE_HELP),
        TextColumn(label="95 % interval", help="of the change"),
        *([TextColumn(label="in words", help="of a count or an outcome")] if has_words else []),
        *_level_columns(units, rows),
        *([ChangeColumn(label="machine", help=_MACHINE_HELP)] if has_machine else []),
        *([LinkColumn(label="kernels", help="the kernel diff")] if has_kernels else []),
        TextColumn(label="why", width=_WHY_WIDTH),
    )
    values = (
        (
            _name_link(row, page=page),
            row.verdict,
            *(str(getattr(row.candidate_case, name)) for name in varied),
            metric_label(row.metric),
            None if row.ratio is None or _words(row) else 100 * (row.ratio - 1),
            ratio_interval(row.low, row.high) or None,
            *([_words(row)] if has_words else []),
            *levels_of(row),
            *([_machine_pct(row)] if has_machine else []),
            *([_diff_link(row, page=page)] if has_kernels else []),
            row.reason or None,
        )
        for row in rows
    )
    return data_table(columns, values, label="comparisons")


def _varied_dimensions(cases: Iterable[Case]) -> list[str]:
    common = common_dimensions(cases)
    return [name for name in DIMENSIONS if name not in common]


def _level_columns(units: set[str], rows: Sequence[ComparedRow]) -> tuple[TextColumn, ...]:
    if len(units) != 1:
        return (TextColumn(label="baseline"), TextColumn(label="candidate"))
    (unit,) = units
    known = [value for row in rows for value in (row.baseline, row.candidate) if value is not None]
    scale = column_scale(unit, known)
    return tuple(
        NumberColumn(label=name, unit=unit, scale=scale) for name in ("baseline", "candidate")
    )


def _level_numbers(row: ComparedRow) -> tuple[float | None, float | None]:
    return row.baseline, row.candidate


def _level_texts(row: ComparedRow) -> tuple[str | None, str | None]:
    known = [value for value in (row.baseline, row.candidate) if value is not None]
    scale = scale_for(row.unit, known)
    before, after = (
        None if value is None else scale.text(value) for value in (row.baseline, row.candidate)
    )
    return before, after


def _words(row: ComparedRow) -> str | None:
    """Return the change of a count or an outcome: `0 -> 2`, `fails`; None for a ratio."""
    text = change_of(row)
    return None if text.endswith("%") or text == "-" else text


def _machine_pct(row: ComparedRow) -> float | None:
    return None if row.machine_ratio is None else 100 * (row.machine_ratio - 1)


def _name_link(row: ComparedRow, *, page: ComparePage) -> Link:
    url = series_url(
        row.candidate_case.key,
        metric="" if row.metric not in METRICS else row.metric,
        machine=page.candidate.machine,
        toolchain=page.candidate.toolchain,
        result=row.result_id,
    )
    return Link(name_of(row.baseline_case, row.candidate_case), url)


def _has_diff(row: ComparedRow) -> bool:
    return row.has_kernels and not row.is_one_sided


def _diff_link(row: ComparedRow, *, page: ComparePage) -> Link | None:
    if not _has_diff(row):
        return None
    state = KernelDiffState(
        baseline_run=page.baseline.id,
        baseline_case=row.baseline_case.key,
        candidate_run=page.candidate.id,
        candidate_case=row.candidate_case.key,
    )
    return Link("kernel diff", kernel_diff_url(state))


def level_table(pairs: Sequence[LevelPair], *, page: ComparePage) -> DataTable:
    """Return the levels of both runs side by side, for runs that do not compare."""
    # The device is that of the environment, which the page shows above.
    varied = [
        name
        for name in _varied_dimensions(pair.candidate_case for pair in page.levels)
        if name in DIMENSIONS[:3]
    ]
    medians = [
        level.median
        for pair in pairs
        for level in (pair.baseline, pair.candidate)
        if level.median is not None
    ]
    unit = next((pair.unit for pair in pairs if pair.unit), "")
    scale = column_scale(unit, medians)
    has_outcomes = len(medians) < 2 * len(pairs)
    columns = (
        TextColumn(label="model and variant", is_pinned=True),
        *(TextColumn(label=name) for name in varied),
        *(
            column
            for side in ("baseline", "candidate")
            for column in _side_columns(side, unit, scale, has_outcomes=has_outcomes)
        ),
        NumberColumn(label="candidate / baseline", help="no verdict follows from it", unit="x"),
    )
    rows = (
        (
            name_of(pair.baseline_case, pair.candidate_case),
            *(str(getattr(pair.candidate_case, name)) for name in varied),
            *_side_values(pair.baseline, pair.baseline_case, page.baseline, has_outcomes),
            *_side_values(pair.candidate, pair.candidate_case, page.candidate, has_outcomes),
            _ratio(pair),
        )
        for pair in pairs
    )
    return data_table(columns, rows, label="levels of both runs")


def _side_columns(
    side: str, unit: str, scale: Scale, *, has_outcomes: bool
) -> tuple[TextColumn, ...]:
    return (
        NumberColumn(label=side, help="median", unit=unit, scale=scale),
        IntervalColumn(label=f"{side}, 95 %", help="95 % interval of the median", scale=scale),
        *([TextColumn(label=f"{side} outcome")] if has_outcomes else []),
        LinkColumn(label=f"{side} case", help="opens the case"),
    )


def _side_values(level: Level, case: Case, run: Run, has_outcomes: bool) -> tuple[object, ...]:
    is_known = level.low is not None and level.high is not None
    outcome = None if level.outcome is None else outcome_label(level.outcome)
    return (
        level.median,
        (level.low, level.high) if is_known else None,
        *([outcome] if has_outcomes else []),
        Link("case", run_url(run.id, case_key=case.key)),
    )


def _ratio(pair: LevelPair) -> float | None:
    before, after = pair.baseline.median, pair.candidate.median
    return None if not before or after is None else after / before
