"""A comparison as Markdown, for the summary of a CI job and for a comment on a pull request.

Names of models are user-defined. Every sign of a name that could be markup is a character reference
within `<code>`. GitHub and GitLab parse no mentions, issues or links there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from compile_hud.db.records.metrics import metric_label
from compile_hud.db.records.results import Run
from compile_hud.db.shared.model_code import code_changes
from compile_hud.db.shared.text import counted, markdown_code, ratio_interval
from compile_hud.runner.analysis.comparison.measurements import CALM
from compile_hud.runner.analysis.comparison.runs import CaseComparison
from compile_hud.runner.cli.compare.table import (
    VERDICT_ORDER,
    candidate_text,
    change_text,
    verdict_counts,
)
from compile_hud.runner.format import quantity, sparkline

# GitHub takes 65,536 characters in a comment; a row of the longest names has 3,500.
MAX_CHARS = 60_000
MAX_WHY = 200
_HEAD = ("case", "metric", "baseline", "candidate", "change", "interval", "trend", "verdict", "why")

# The values of a row's series, oldest first, by the key of its case and its metric.
Trends = Mapping[tuple[str, str], Sequence[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The content of a report: both runs, the rows of their comparison and the trends."""

    baseline: Run
    candidate: Run
    rows: Sequence[CaseComparison]
    machine: str
    trends: Trends = field(default_factory=dict)


def comparison_markdown(compared: Compared) -> str:
    """Return the comparison as a title, both runs and a table of the changed rows."""
    counts_text = verdict_counts(row.comparison.verdict for row in compared.rows)
    shown = [row for row in compared.rows if row.comparison.verdict not in CALM]
    shown.sort(key=lambda row: VERDICT_ORDER.index(row.comparison.verdict))
    lines = [
        f"### Compile HUD: {counts_text}",
        "",
        f"{markdown_code(_side(compared.baseline))} against"
        f" {markdown_code(_side(compared.candidate))}, machine {markdown_code(compared.machine)}",
    ]
    models = {row.case.model for row in compared.rows}
    for change in code_changes(compared.baseline, candidate=compared.candidate, models=models):
        lines += ["", markdown_code(f"{change.model}: {change.text}")]
    if shown:
        lines += ["", _line(_HEAD), _line(["---"] * len(_HEAD))]
    rows = [_line(_cells(row, compared.trends)) for row in shown]
    ends = accumulate(len(line) for line in rows)
    num_fitting = sum(end <= MAX_CHARS for end in ends)
    lines += rows[:num_fitting]
    if num_fitting < len(rows):
        lines += ["", f"{counted(len(rows) - num_fitting, 'more row')} not shown."]
    return "\n".join(lines) + "\n"


def _side(run: Run) -> str:
    return f"{run.id} {run.revision}"


def _cells(row: CaseComparison, trends: Trends) -> tuple[str, ...]:
    comparison = row.comparison
    verdict = str(comparison.verdict)
    return (
        markdown_code(row.case.key),
        markdown_code(metric_label(row.metric)),
        quantity(row.baseline, unit=row.unit),
        candidate_text(row),
        change_text(row),
        ratio_interval(comparison.low, comparison.high) or "-",
        sparkline(trends.get((row.case.key, row.metric), ())),
        f"**{verdict}**" if comparison.is_failure else verdict,
        markdown_code(comparison.reason, limit=MAX_WHY) if comparison.reason else "",
    )


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
