"""The tables of a release. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
from compile_hud.runner.analysis.release.markdown import (
    MEAN_COLUMNS,
    MEAN_NUMBERS,
    change_cells,
    mean_cells,
)
from compile_hud.runner.analysis.release.mean_changes import MeanChange
from compile_hud.runner.analysis.release.report import NamedCluster, ReleaseReport
from compile_hud.runner.analysis.release.runs import MachinePair, ReleaseRuns
from compile_hud.runner.analysis.release.sign_off import JudgedPair

_SIDES = ("baseline", "candidate")
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
    return f"{before.toolchain} -> {after.toolchain}, {at} UTC, {', '.join(runs.machines)}"


def side_table(report: ReleaseReport) -> str:
    """Return both sides of a release."""
    is_shared = len(report.pairs) > 1
    pairs: list[tuple[str, Cell]] = []
    for name, run in zip(_SIDES, (report.baseline, report.candidate), strict=True):
        pairs += [
            (name, Cell(text=run.toolchain, href="" if is_shared else run_url(run.id))),
            (f"{name} revision", Cell(text=run.revision)),
        ]
    pairs += [
        ("machine", Cell(text=", ".join(report.machines))),
        ("started", time_cell(report.candidate.started_at)),
    ]
    if not is_shared:
        pairs.append(("metrics", Cell(text="all comparisons", href=_compare_url(report.pairs[0]))))
    if report.commits_url:
        pairs.append(("torch", Cell(text="commits between", href=report.commits_url)))
    return key_values(pairs)


def machine_table(report: ReleaseReport) -> Markup:
    """Return the runs of each machine, "" for one machine."""
    columns = [HtmlColumn(label=name) for name in ("machine", *_SIDES, "metrics")]
    rows = [
        [
            Cell(text=pair.machine),
            *(Cell(text=run.id, href=run_url(run.id)) for run in (pair.baseline, pair.candidate)),
            Cell(text="all comparisons", href=_compare_url(pair)),
        ]
        for pair in report.pairs
    ]
    return table(columns, rows, label="machines") if len(rows) > 1 else Markup()


def mean_table(means: Sequence[MeanChange]) -> Markup:
    """Return the mean changes of modes, "" without any."""
    columns = [HtmlColumn(label=name, is_number=name in MEAN_NUMBERS) for name in MEAN_COLUMNS]
    rows = [[Cell(text=text) for text in mean_cells(mean)] for mean in means]
    return table(columns, rows, label="mean changes") if rows else Markup()


def cluster_table(named: NamedCluster) -> str:
    """Return the regressions of a cluster."""
    return table(_COLUMNS, [_row(item) for item in named.items], label=named.text)


def open_table(items: Iterable[JudgedPair], *, label: str) -> str:
    """Return cases without an answer."""
    return table(_COLUMNS, [_open_row(item) for item in items], label=label)


def improvement_table(items: Iterable[JudgedPair]) -> Markup:
    """Return the cases whose time improved, "" without any."""
    rows = [_time_row(item) for item in items]
    return table(_COLUMNS, rows, label="improvements") if rows else Markup()


def _row(item: JudgedPair) -> list[Cell]:
    row = item.worst
    assert row is not None
    return _cells(item, row)


def _time_row(item: JudgedPair) -> list[Cell]:
    row = item.time
    assert row is not None
    return _cells(item, row)


def _open_row(item: JudgedPair) -> list[Cell]:
    if item.time is not None:
        return _time_row(item)
    return [
        _case(item),
        Cell(text="outcome"),
        Cell(text="unknown"),
        Cell(text=""),
        Cell(text=""),
    ]


def _cells(item: JudgedPair, row: CaseComparison) -> list[Cell]:
    change, interval = change_cells(row)
    return [
        _case(item),
        Cell(text=change, style="prose" if row.metric == OUTCOME else ""),
        Cell(text=interval),
        Cell(text=metric_label(row.metric)),
        _kernels(item),
    ]


def _kernels(item: JudgedPair) -> Cell:
    if not item.pair.baseline.kernels or not item.pair.candidate.kernels:
        return Cell(text="")
    state = KernelDiffState(
        baseline_run=item.pair.baseline.run_id,
        baseline_case=item.key,
        candidate_run=item.pair.candidate.run_id,
        candidate_case=item.key,
    )
    return Cell(text="diff", href=kernel_diff_url(state))


def _compare_url(pair: MachinePair) -> str:
    return compare_url(CompareState(baseline=pair.baseline.id, candidate=pair.candidate.id))


def _case(item: JudgedPair) -> Cell:
    url = run_url(item.pair.candidate.run_id, case_key=item.key)
    return Cell(text=item.key, href=url, style="symbol")
