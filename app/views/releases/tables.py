"""The tables of a release. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup

from compile_hud.app.ui.html import Cell, HtmlColumn, key_values, table, time_cell
from compile_hud.app.ui.urls import (
    CompareState,
    KernelDiffState,
    compare_url,
    kernel_diff_url,
    run_url,
)
from compile_hud.db.records.metrics import metric_label
from compile_hud.runner.analysis.comparison.runs import OUTCOME, CaseComparison
from compile_hud.runner.analysis.release.markdown import change_cells
from compile_hud.runner.analysis.release.report import NamedCluster, ReleaseReport
from compile_hud.runner.analysis.release.runs import ReleaseRuns
from compile_hud.runner.analysis.release.sign_off import JudgedPair

_COLUMNS = (
    HtmlColumn(label="case"),
    HtmlColumn(label="change", is_number=True),
    HtmlColumn(label="95 % interval"),
    HtmlColumn(label="metric"),
    HtmlColumn(label="kernels", is_spare=True),
)


def release_label(runs: ReleaseRuns) -> str:
    """Return the name of a release in a list of all."""
    before, after = runs.baseline, runs.candidate
    at = f"{after.started_at:%Y-%m-%d %H:%M}"
    return f"{before.toolchain} -> {after.toolchain}, {at} UTC, {after.machine}"


def side_table(report: ReleaseReport) -> str:
    """Return both sides of a release."""
    pairs: list[tuple[str, Cell]] = []
    for name, run in (("baseline", report.baseline), ("candidate", report.candidate)):
        pairs += [
            (name, Cell(text=run.toolchain, href=run_url(run.id))),
            (f"{name} revision", Cell(text=run.revision)),
        ]
    pairs += [
        ("machine", Cell(text=report.candidate.machine)),
        ("started", time_cell(report.candidate.started_at)),
        ("metrics", Cell(text="all comparisons", href=_compare_url(report))),
    ]
    if report.commits_url:
        pairs.append(("torch", Cell(text="commits between", href=report.commits_url)))
    return key_values(pairs)


def cluster_table(named: NamedCluster, report: ReleaseReport) -> str:
    """Return the regressions of a cluster."""
    return table(_COLUMNS, [_row(item, report) for item in named.items], label=named.text)


def open_table(items: Iterable[JudgedPair], report: ReleaseReport, *, label: str) -> str:
    """Return cases without an answer."""
    return table(_COLUMNS, [_open_row(item, report) for item in items], label=label)


def improvement_table(items: Iterable[JudgedPair], report: ReleaseReport) -> Markup:
    """Return the cases whose time improved, "" without any."""
    rows = [_time_row(item, report) for item in items]
    return table(_COLUMNS, rows, label="improvements") if rows else Markup()


def _row(item: JudgedPair, report: ReleaseReport) -> list[Cell]:
    row = item.worst
    assert row is not None
    return _cells(item, row, report)


def _time_row(item: JudgedPair, report: ReleaseReport) -> list[Cell]:
    row = item.time
    assert row is not None
    return _cells(item, row, report)


def _open_row(item: JudgedPair, report: ReleaseReport) -> list[Cell]:
    if item.time is not None:
        return _time_row(item, report)
    return [
        _case(item, report),
        Cell(text="outcome"),
        Cell(text="unknown"),
        Cell(text=""),
        Cell(text=""),
    ]


def _cells(item: JudgedPair, row: CaseComparison, report: ReleaseReport) -> list[Cell]:
    change, interval = change_cells(row)
    return [
        _case(item, report),
        Cell(text=change, style="prose" if row.metric == OUTCOME else ""),
        Cell(text=interval),
        Cell(text=metric_label(row.metric)),
        _kernels(item, report),
    ]


def _kernels(item: JudgedPair, report: ReleaseReport) -> Cell:
    if not item.pair.baseline.kernels or not item.pair.candidate.kernels:
        return Cell(text="")
    state = KernelDiffState(
        baseline_run=report.baseline.id,
        baseline_case=item.key,
        candidate_run=report.candidate.id,
        candidate_case=item.key,
    )
    return Cell(text="diff", href=kernel_diff_url(state))


def _compare_url(report: ReleaseReport) -> str:
    return compare_url(CompareState(baseline=report.baseline.id, candidate=report.candidate.id))


def _case(item: JudgedPair, report: ReleaseReport) -> Cell:
    url = run_url(report.candidate.id, case_key=item.key)
    return Cell(text=item.key, href=url, style="symbol")
