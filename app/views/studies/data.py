"""Read a study: the tables and charts of its newest runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compile_hud.app.components.result_matrix import common_dimensions
from compile_hud.app.data.cache import StoreVersion, cached_read
from compile_hud.app.ui.format import metric_label
from compile_hud.app.ui.urls import DEFAULT_SERIES_METRIC
from compile_hud.app.views.studies.charts import (
    INTERVALS_TEXT,
    SCATTER_TEXT,
    intervals_spec,
    scatter_spec,
)
from compile_hud.app.views.studies.records import StudyPage, StudySection
from compile_hud.app.views.studies.tables import (
    cases_part,
    gaps_part,
    grid_part,
    interval_points,
    outcomes_text,
    published_part,
    scatter_points,
    table_part,
)
from compile_hud.db.queries.results import load_result_summaries
from compile_hud.db.queries.runs import load_suite_runs
from compile_hud.db.records.results import Run
from compile_hud.db.store import Store
from compile_hud.runner.analysis.studies.catalog import STUDIES
from compile_hud.runner.analysis.studies.study import (
    Seen,
    Study,
    StudyRun,
    runs_to_show,
    section_titles,
    seen_in_summaries,
)
from compile_hud.runner.analysis.studies.tables import (
    StudyTable,
    compare_published,
    gaps,
    study_tables,
)

TITLES: Mapping[str, str] = {study.name: study.title for study in STUDIES.values()}


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
    seen = seen_in_summaries(load_result_summaries(store, run.id))
    study_run = StudyRun(run=run, seen=seen)
    tables = study_tables(study, seen)
    grids = [grid_part(table, run_id=run.id) for table in tables]
    drawn = [table for table, grid in zip(tables, grids, strict=True) if grid is not None]
    chart, text = _chart(study, seen, tables=tables)
    return StudySection(
        run=run,
        title=title,
        outcomes=outcomes_text(study_run),
        common=common_dimensions(item.case for item in seen),
        chart=chart,
        chart_text=text,
        has_picks=study.chart == "scatter",
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
    study: Study, seen: Sequence[Seen], *, tables: Sequence[StudyTable]
) -> tuple[Mapping[str, Any] | None, str]:
    if study.chart == "scatter":
        clock = tables[0].metrics[0] if tables else DEFAULT_SERIES_METRIC
        points = scatter_points(seen, metric=clock)
        title = f"{metric_label(clock)} (ms)"
        return (scatter_spec(points, title=title), SCATTER_TEXT) if points else (None, "")
    first = [table for table in tables if table.spec == study.tables[0]]
    points = interval_points(first) if study.chart == "intervals" else ()
    return (intervals_spec(points), INTERVALS_TEXT) if points else (None, "")
