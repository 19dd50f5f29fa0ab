"""Read a study: the tables of its newest runs as cells, and the rows of its charts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from compile_hud.app.components.matrix.result_matrix import common_dimensions
from compile_hud.app.data.cache import cached_read
from compile_hud.app.data.store import StoreVersion
from compile_hud.app.ui.format import Scale, estimate, outcome_label, scale_for
from compile_hud.app.ui.html import Cell, HtmlColumn, Note, interval_notes
from compile_hud.app.ui.urls import DEFAULT_SERIES_METRIC, run_url
from compile_hud.app.views.studies.charts import (
    INTERVALS_LEGEND,
    INTERVALS_TEXT,
    SCATTER_LEGEND,
    SCATTER_TEXT,
    intervals_spec,
    scatter_spec,
)
from compile_hud.app.views.studies.records import GridPart, StudyPage, StudySection, TablePart
from compile_hud.db.queries.results import load_result_summaries
from compile_hud.db.queries.runs import load_suite_runs
from compile_hud.db.records.metrics import METRICS, metric_label
from compile_hud.db.records.results import Outcome, Run
from compile_hud.db.store import Store
from compile_hud.runner.analysis.studies.catalog import STUDIES
from compile_hud.runner.analysis.studies.study import (
    Published,
    Study,
    StudyResult,
    StudyRun,
    results_of_summaries,
    runs_to_show,
    section_titles,
)
from compile_hud.runner.analysis.studies.tables import (
    MissingNumber,
    PublishedComparison,
    StudyCell,
    StudyTable,
    compare_published,
    gaps,
    study_tables,
)

TITLES: Mapping[str, str] = {study.name: study.title for study in STUDIES.values()}
# At each of these speedups the field of a heat map becomes a shade darker.
SHADES = (1.0, 1.25, 1.5, 2.0, 3.0)
_GRID = re.compile(r"-b(?P<batch>\d+)-l(?P<length>\d+)$")
_GRID_TEXT = (
    "A stronger shade is faster: from 1x, 1.25x, 1.5x, 2x and 3x on. Below 1x there is none."
)
_SPEEDUP = "speedup"


@cached_read
def load_study_page(at: StoreVersion, name: str) -> StudyPage:
    """Return the results of the newest full run on each device for the study called `name`."""
    store = at.store
    study = STUDIES[name]
    runs = runs_to_show(study, load_suite_runs(store, study.suite))
    return StudyPage(
        name=study.name,
        title=study.title,
        question=study.question,
        sections=tuple(
            _section(study, run, title=title, store=store)
            for run, title in zip(runs, section_titles(runs), strict=True)
        ),
    )


def _section(study: Study, run: Run, *, title: str, store: Store) -> StudySection:
    seen = results_of_summaries(load_result_summaries(store, run.id))
    study_run = StudyRun(run=run, results=seen)
    tables = study_tables(study, seen)
    grids = [grid_part(table, run_id=run.id) for table in tables]
    drawn = [table for table, grid in zip(tables, grids, strict=True) if grid is not None]
    chart = _chart(study, seen, tables=tables)
    is_scatter = study.chart == "scatter"
    return StudySection(
        run=run,
        title=title,
        outcomes=outcomes_text(study_run),
        common=common_dimensions(item.case for item in seen),
        chart=chart,
        chart_text=SCATTER_TEXT if is_scatter else INTERVALS_TEXT,
        chart_legend=SCATTER_LEGEND if is_scatter else INTERVALS_LEGEND,
        has_picks=is_scatter,
        grids=tuple(grid for grid in grids if grid is not None),
        parts=tuple(
            part
            for part in (
                *(table_part(table, run_id=run.id) for table in tables if table not in drawn),
                published_part(compare_published(study, seen), device_name=study_run.device_name),
                gaps_part(gaps(study, study_run)),
                cases_part(seen, run_id=run.id),
            )
            if part.rows
        ),
    )


def _chart(
    study: Study, seen: Sequence[StudyResult], *, tables: Sequence[StudyTable]
) -> Mapping[str, Any] | None:
    if study.chart == "scatter":
        clock = tables[0].metrics[0] if tables else DEFAULT_SERIES_METRIC
        points = scatter_points(seen, metric=clock)
        title = f"{metric_label(clock)} (ms)"
        return scatter_spec(points, title=title) if points else None
    first = [table for table in tables if table.spec == study.tables[0]]
    points = interval_points(first) if study.chart == "intervals" else ()
    return intervals_spec(points) if points else None


def table_part(table: StudyTable, *, run_id: str) -> TablePart:
    """Return a table of a study; a number of a single case leads to it."""
    # One unit for all columns of one metric: readers compare them.
    by_metric = {metric: _scale(metric, table) for metric in table.metrics}
    scales = [by_metric[metric] for metric in table.metrics]
    names = [
        metric_label(name) if name == metric else name
        for name, metric in zip(table.columns, table.metrics, strict=True)
    ]
    columns = [HtmlColumn(label="rank", is_number=True)] if table.spec.is_ranked else []
    columns.append(HtmlColumn(label=table.spec.rows))
    columns += [
        HtmlColumn(label=_with_unit(name, scale), title=METRICS[metric].description, is_number=True)
        for name, metric, scale in zip(names, table.metrics, scales, strict=True)
    ]
    rows = []
    for number, (name, cells) in enumerate(table.rows.items(), start=1):
        row = [Cell(text=str(number))] if table.spec.is_ranked else []
        row.append(Cell(text=name, style="strong"))
        row += [
            study_cell(cell, scale=scale, run_id=run_id)
            for cell, scale in zip(cells, scales, strict=True)
        ]
        rows.append(row)
    return TablePart(title=table.title, columns=columns, rows=rows)


def study_cell(cell: StudyCell, *, scale: Scale, run_id: str) -> Cell:
    """Return a number over its interval and cohort, or the reason why there is none."""
    href = run_url(run_id, case_key=cell.cases[0].key) if len(cell.cases) == 1 else ""
    title = "\n".join(case.key for case in cell.cases)
    if cell.estimate is None:
        return Cell(text=cell.why, href=href, style="quiet", title=title)
    value, low, high = cell.estimate.value, cell.estimate.low, cell.estimate.high
    notes = [*interval_notes(low, high, scale=scale)]
    if cell.num_subjects > 1:
        notes.append(Note(text=f"{cell.num_common} of {cell.num_subjects}"))
    if cell.num_common > 1 and cell.least is not None and cell.most is not None:
        notes.append(Note(text=f"{_shown(cell.least, scale)} to {_shown(cell.most, scale)}"))
    notes += [Note(text=f"{number} fell back to {mode}") for mode, number in cell.ran_as]
    return Cell(text=_shown(value, scale), href=href, title=title, notes=tuple(notes))


def published_part(items: Sequence[PublishedComparison], *, device_name: str) -> TablePart:
    """Return the published figures, each with its device, its source and our figure."""
    columns = (
        HtmlColumn(label="what"),
        HtmlColumn(label="published", is_number=True),
        HtmlColumn(label="on"),
        HtmlColumn(label="by", is_spare=True),
        HtmlColumn(label=f"ours, on {device_name}"),
    )
    rows = [
        (
            Cell(text=item.published.what, style="prose"),
            Cell(text=item.published.text),
            Cell(text=item.published.device, style="prose"),
            _source(item.published),
            _ours(item),
        )
        for item in items
    ]
    return TablePart(title="Published figures, of other devices", columns=columns, rows=rows)


def gaps_part(gaps: Iterable[MissingNumber]) -> TablePart:
    """Return the missing numbers, with reasons."""
    columns = (
        HtmlColumn(label="variant"),
        HtmlColumn(label="outcome"),
        HtmlColumn(label="cases", is_number=True),
        HtmlColumn(label="why"),
        HtmlColumn(label="models", is_spare=True),
    )
    rows = [
        (
            Cell(text=gap.variant or "all", style="strong"),
            Cell(text=outcome_label(gap.outcome)),
            Cell(text=str(gap.num_cases) if gap.num_cases else "-"),
            Cell(text=gap.reason, style="prose"),
            Cell(text=", ".join(gap.models), style="prose"),
        )
        for gap in gaps
    ]
    return TablePart(title="Missing numbers", columns=columns, rows=rows)


def cases_part(seen: Sequence[StudyResult], *, run_id: str) -> TablePart:
    """Return every case of the run, each a link to all its measurements."""
    columns = (
        HtmlColumn(label="case"),
        HtmlColumn(label="outcome"),
        HtmlColumn(label="latency", is_number=True),
        HtmlColumn(label="speedup", is_number=True),
    )
    rows = [
        (
            Cell(text=item.case.key, href=run_url(run_id, case_key=item.case.key)),
            Cell(
                text=outcome_label(item.outcome),
                style="" if item.outcome is Outcome.OK else "strong",
                title=item.reason,
            ),
            Cell(text=_measured(item, "latency_s")),
            Cell(text=_measured(item, _SPEEDUP)),
        )
        for item in seen
    ]
    return TablePart(title=f"Cases: {len(rows)}", columns=columns, rows=rows, is_folded=True)


def outcomes_text(run: StudyRun) -> str:
    """Return the number of cases by outcome in a run of a study: `33 of 33: 31 ok, 2 skipped`."""
    counts = Counter(item.outcome for item in run.results)
    text = ", ".join(f"{counts[name]} {outcome_label(name)}" for name in Outcome if counts[name])
    return f"{len(run.results)} of {len(run.cases)}: {text or 'none yet'}"


def interval_points(tables: Sequence[StudyTable]) -> tuple[dict[str, Any], ...]:
    """Return a row for each speedup of `tables`, which are of one kind: a point and its bounds."""
    return tuple(
        {
            "row": f"{name}, {table.value}" if len(tables) > 1 else name,
            "variant": column,
            "value": cell.estimate.value,
            "low": cell.estimate.low,
            "high": cell.estimate.high,
            "shown": estimate(
                cell.estimate.value, low=cell.estimate.low, high=cell.estimate.high, unit="x"
            ),
            "cohort": f"{cell.num_common} of {cell.num_subjects}",
        }
        for table in tables
        if table.metrics[:1] == (_SPEEDUP,)
        for name, cells in table.rows.items()
        for column, cell in zip(table.columns, cells, strict=True)
        if cell.estimate is not None
    )


def scatter_points(seen: Iterable[StudyResult], *, metric: str) -> tuple[dict[str, Any], ...]:
    """Return `metric`, a latency (ms), and parameters (millions) of each case that has both."""
    points = []
    for item in seen:
        latency = item.values.get(metric)
        parameters = item.values.get("num_parameters")
        if latency is None or parameters is None:
            continue
        points.append(
            {
                "model": item.case.model,
                "variant": item.case.variant,
                "case": item.case.key,
                "parameters": parameters.value / 1e6,
                "value": 1e3 * latency.value,
                "low": 1e3 * latency.low,
                "high": 1e3 * latency.high,
                "shown": _measured(item, metric),
            }
        )
    return tuple(points)


def grid_part(table: StudyTable, *, run_id: str) -> GridPart | None:
    """Return a heat map of batch by length for each column of a table of speedups, else None."""
    places = [_GRID.search(name) for name in table.rows]
    if table.metrics[:1] != (_SPEEDUP,) or None in places:
        return None
    grids = [_grid(table, column, run_id=run_id) for column in range(len(table.columns))]
    return GridPart(title=table.title, grids=tuple(grids), text=_GRID_TEXT)


def shade(speedup: float) -> str:
    """Return the class of theme.py for a field of a heat map; empty below 1."""
    number = sum(speedup >= step for step in SHADES)
    return f"heat{number}" if number else ""


def _grid(table: StudyTable, number: int, *, run_id: str) -> TablePart:
    fields: dict[int, dict[int, StudyCell]] = {}
    for name, cells in table.rows.items():
        match = _GRID.search(name)
        assert match is not None
        fields.setdefault(int(match["batch"]), {})[int(match["length"])] = cells[number]
    lengths = sorted({length for row in fields.values() for length in row})
    columns = [HtmlColumn(label="batch", is_number=True)]
    columns += [HtmlColumn(label=f"length {length}", is_number=True) for length in lengths]
    rows = [
        [
            Cell(text=str(batch), style="strong"),
            *(_field(row.get(length), run_id=run_id) for length in lengths),
        ]
        for batch, row in sorted(fields.items())
    ]
    return TablePart(title=table.columns[number], columns=columns, rows=rows)


def _field(cell: StudyCell | None, *, run_id: str) -> Cell:
    if cell is None:
        return Cell(text="not measured", style="quiet")
    drawn = study_cell(cell, scale=Scale(1.0, "x"), run_id=run_id)
    style = drawn.style if cell.estimate is None else shade(cell.estimate.value)
    return Cell(text=drawn.text, href=drawn.href, title=drawn.title, notes=drawn.notes, style=style)


def _scale(metric: str, table: StudyTable) -> Scale:
    values = [
        cell.estimate.value
        for cells in table.rows.values()
        for cell, name in zip(cells, table.metrics, strict=True)
        if name == metric and cell.estimate is not None
    ]
    return scale_for(METRICS[metric].unit, values)


def _with_unit(name: str, scale: Scale) -> str:
    return name if scale.unit in ("", "x") else f"{name} ({scale.unit})"


def _shown(value: float, scale: Scale) -> str:
    if scale.unit == "x":
        return scale.text(value)
    is_count = scale.unit == "" and value >= 1000
    return f"{value:,.0f}" if is_count else scale.number(value)


def _source(figure: Published) -> Cell:
    """Return the publisher of a figure; a Markdown link becomes a link."""
    match = re.search(r"\[(?P<text>[^]]+)\]\((?P<href>https://[^)]+)\)", figure.source)
    if match is None:
        return Cell(text=figure.source, style="prose")
    return Cell(text=match["text"], href=match["href"], style="prose")


def _ours(item: PublishedComparison) -> Cell:
    if item.published.unlike:
        return Cell(text=f"none: {item.published.unlike}", style="quiet prose")
    if not item.ours:
        return Cell(text="not measured", style="quiet")
    texts = [f"{name}: {_ours_text(cell)}" for name, cell in item.ours.items()]
    first, *others = texts
    return Cell(text=first, style="prose", notes=tuple(Note(text=text) for text in others))


def _ours_text(cell: StudyCell) -> str:
    if cell.estimate is None:
        return cell.why
    estimated = cell.estimate
    text = estimate(estimated.value, low=estimated.low, high=estimated.high, unit="x")
    return f"{text}, {cell.num_common} of {cell.num_subjects}" if cell.num_subjects > 1 else text


def _measured(item: StudyResult, metric: str) -> str:
    value = item.values.get(metric)
    if value is None:
        return "-"
    return estimate(value.value, low=value.low, high=value.high, unit=METRICS[metric].unit)
