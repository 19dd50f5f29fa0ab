"""Links to the kernel diff on the pages of a case, a series and an alert. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

from compile_hud.app.components.matrix.result_matrix import DIMENSIONS
from compile_hud.app.components.table.columns import Link
from compile_hud.app.data.page_records import RunPage
from compile_hud.app.ui.html import Cell, HtmlColumn, table
from compile_hud.app.ui.theme import VERDICT_STYLES
from compile_hud.app.ui.urls import KernelDiffState, kernel_diff_url, kernels_url
from compile_hud.app.views.kernel_diff.records import AlertKernels, class_words
from compile_hud.db.records.kernels import KernelRun
from compile_hud.db.records.results import Case
from compile_hud.db.records.summaries import ResultSummary, TrendPoint
from compile_hud.db.shared.text import signed_us

_EAGER = "eager"
_COLUMNS = (
    HtmlColumn(
        label="contributes (us)", title="an iteration, first bad less last good", is_number=True
    ),
    HtmlColumn(label="class"),
    HtmlColumn(label="kernel", title="opens it in the diff"),
    HtmlColumn(label="why"),
)


def kernel_links(
    page: RunPage, result: ResultSummary, *, runs: Sequence[KernelRun]
) -> list[tuple[str, str]]:
    """Return label and URL of the kernels of a result, and of their diffs with eager and before.

    `runs` are those that have kernels of its case, the oldest first.
    """
    case, run = result.case, page.run
    links = [("Kernels", kernels_url(run.id, case_key=case.key))]
    if eager := next((item for item in page.results if _is_eager_of(item, case)), None):
        against = KernelDiffState(
            baseline_run=run.id,
            baseline_case=eager.case.key,
            candidate_run=run.id,
            candidate_case=case.key,
        )
        links.append(("Kernels against eager", kernel_diff_url(against)))
    here = (run.machine, run.toolchain)
    before = [
        item for item in runs if (item.machine, item.toolchain) == here and item.at < run.started_at
    ]
    if before:
        since = KernelDiffState(
            baseline_run=before[-1].run_id, baseline_case=case.key, candidate_run=run.id
        )
        links.append(("Kernels since the run before", kernel_diff_url(since)))
    return links


def point_link(
    points: Sequence[TrendPoint], number: int, *, case_key: str, profiled: Collection[str]
) -> Link | None:
    """Return the link from a point of a series to its diff with the previous point.

    `profiled` are the ids of the runs that have kernels of the case.
    """
    if number == 0 or not all(points[index].run_id in profiled for index in (number - 1, number)):
        return None
    state = KernelDiffState(
        baseline_run=points[number - 1].run_id,
        baseline_case=case_key,
        candidate_run=points[number].run_id,
    )
    return Link("diff", kernel_diff_url(state))


def alert_kernel_table(kernels: AlertKernels) -> str:
    """Return the kernels behind an alert, each a link to its row of the diff; "" for none."""
    rows = [
        (
            Cell(text=signed_us(row.contribution_s), style=VERDICT_STYLES.get(row.verdict, "")),
            Cell(text=class_words(row.kind)),
            Cell(
                text=row.label,
                href=kernel_diff_url(dataclasses.replace(kernels.state, row=str(row.number))),
                title=row.label,
                style="symbol",
            ),
            Cell(text=row.text, title=row.text, style="prose whole"),
        )
        for row in kernels.rows
    ]
    return table(_COLUMNS, rows, label="kernels behind the alert") if rows else ""


def _is_eager_of(result: ResultSummary, case: Case) -> bool:
    other = result.case
    same = ("model", *DIMENSIONS)
    return (
        other.variant == _EAGER != case.variant
        and all(getattr(other, name) == getattr(case, name) for name in same)
        and has_kernels(result)
    )


def has_kernels(result: ResultSummary) -> bool:
    """Return whether kernels of a case result were recorded."""
    # The worker writes the time breakdown together with the kernels, or neither.
    return "profile" in result.details
