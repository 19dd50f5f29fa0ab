"""Reports of `hud compare` for a CI job: Markdown in a file, and a comment on a pull request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from compile_hud.db.errors import StoreError
from compile_hud.db.queries.series import load_histories_of
from compile_hud.db.records.results import RunDocument
from compile_hud.runner.analysis.comparison.runs import CaseComparison
from compile_hud.runner.analysis.stats.rounds import Pair, results_by_case
from compile_hud.runner.cli.compare.markdown import Compared, comparison_markdown
from compile_hud.runner.cli.compare.pull_request import keep_comment
from compile_hud.runner.cli.output import gather_options
from compile_hud.runner.cli.progress import new_progress
from compile_hud.runner.errors import CommentFailed, DocumentNotWritten
from compile_hud.runner.events import LogMessage
from compile_hud.runner.workspace import Workspace

# A month of nights fits into a column of a table.
_NUM_POINTS = 30
_OPTIONS = (
    click.option(
        "--markdown",
        "markdown_path",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Write the comparison to FILE as Markdown, for the summary of a CI job.",
    ),
    click.option(
        "--comment",
        "comment_name",
        metavar="NAME",
        help="Post it as comment NAME of the pull request HUD_PULL_REQUEST.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """The reports to write; None omits one."""

    markdown_path: Path | None
    comment_name: str | None


report_options = gather_options(ReportOptions, name="report", options=_OPTIONS)


def write_report(
    rows: Sequence[CaseComparison],
    *,
    sides: tuple[RunDocument, RunDocument],
    machine: str,
    options: ReportOptions,
    workspace: Workspace,
) -> None:
    """Write the reports in `options`; a failed comment is only logged.

    Raises DocumentNotWritten.
    """
    if options.markdown_path is None and options.comment_name is None:
        return
    before, after = sides
    text = comparison_markdown(
        Compared(
            baseline=before.run,
            candidate=after.run,
            rows=rows,
            machine=machine,
            trends=_trends(rows, sides=sides, workspace=workspace),
        )
    )
    publish(text, options=options, workspace=workspace)


def publish(text: str, *, options: ReportOptions, workspace: Workspace) -> None:
    """Write the Markdown `text` where `options` say; a failed comment is only logged.

    Raises DocumentNotWritten.
    """
    if options.markdown_path is not None:
        try:
            options.markdown_path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise DocumentNotWritten(
                f"cannot write {options.markdown_path}: {error.strerror}",
                path=options.markdown_path,
                reason=error.strerror,
            ) from error
    if options.comment_name is not None:
        try:
            keep_comment(text, name=options.comment_name, env=workspace.dependencies.env)
        except CommentFailed as error:
            # The measured result counts, even if the comment failed.
            new_progress(workspace)(LogMessage(text=str(error), is_warning=True))


def _trends(
    rows: Sequence[CaseComparison], *, sides: tuple[RunDocument, RunDocument], workspace: Workspace
) -> dict[tuple[str, str], Sequence[float]]:
    """Return the nights of each row until now; where the store has none, the launches of both."""
    trends: dict[tuple[str, str], Sequence[float]] = {}
    before, after = (results_by_case(side.results) for side in sides)
    for row in rows:
        key = row.case.key
        if row.baseline is not None and key in before and key in after:
            levels = Pair(before[key], after[key]).launch_levels(row.metric)
            trends[key, row.metric] = [float(value) for side in levels for value in side]
    metrics = sorted({metric for _, metric in trends})
    try:
        histories = load_histories_of(workspace.store(), sides[1].run, metrics=metrics)
    except StoreError:
        # A job may have no store; its launches serve as a trend.
        return trends
    for series in histories:
        points = [point.median for point in series.points[-_NUM_POINTS:]]
        if len(points) > 2:
            trends[series.header.case.key, series.header.metric] = points
    return trends
