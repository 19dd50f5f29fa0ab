"""Two commits as Markdown, for a CI job: three lines, the changes, and the rest folded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

from compile_hud.db.records.metrics import metric_label
from compile_hud.db.shared.text import (
    counted,
    markdown_code,
    ratio_interval,
    signed_percent,
    signed_us,
)
from compile_hud.runner.analysis.comparison.measurements import CHANGED
from compile_hud.runner.analysis.comparison.runs import CaseComparison, has_failure
from compile_hud.runner.analysis.kernels.change_classes import ChangeKind
from compile_hud.runner.analysis.kernels.diff import KernelDiff
from compile_hud.runner.bisect.commit_comparison import CommitComparison
from compile_hud.runner.cli.compare.sentences import (
    change_sentence,
    has_inconclusive,
    resolution_text,
)
from compile_hud.runner.cli.compare.table import candidate_text
from compile_hud.runner.format import quantity

_HEAD = ("case", "metric", "baseline", "candidate", "change", "95 % interval", "verdict")
_KERNEL_HEAD = ("us", "class", "kernel", "why")
# GitHub takes 65,536 characters in a comment; each of the three tables has a share of them.
_MAX_TABLE = 18_000
_MAX_KERNELS = 20
_MAX_SENTENCE, _MAX_KERNEL_TEXT = 400, 300
_LINK_VARIABLES = ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID")


def commit_markdown(comparison: CommitComparison, *, floor: float, link: str) -> str:
    """Return the result of `comparison`; `link` leads to the job, and may be empty."""
    changed = [row for row in comparison.rows if row.comparison.verdict in CHANGED]
    others = [row for row in comparison.rows if row.comparison.verdict not in CHANGED]
    lines = [f"### Compile HUD: {_outcome(comparison)}", "", *_head(comparison, floor, link)]
    if changed:
        lines += ["", *_table(_HEAD, [_cells(row) for row in changed])]
    if others:
        lines += _folded(
            counted(len(others), "more row"), _table(_HEAD, [_cells(row) for row in others])
        )
    for change in comparison.changes:
        if change.kernels is not None and (rows := _kernel_rows(change.kernels)):
            title = f"kernels of {markdown_code(change.pair.baseline.case.key)}"
            lines += _folded(title, _table(_KERNEL_HEAD, rows))
    return "\n".join(lines) + "\n"


def job_link(env: Mapping[str, str]) -> str:
    """Return the address of the CI job that `env` is of, empty outside of GitHub and GitLab."""
    server, repository, run_id = (env.get(name, "") for name in _LINK_VARIABLES)
    if server and repository and run_id:
        return f"{server}/{repository}/actions/runs/{run_id}"
    return env.get("CI_JOB_URL", "")


def _outcome(comparison: CommitComparison) -> str:
    if has_failure(comparison.rows):
        return "failed"
    return "could not tell" if has_inconclusive(comparison.changes) else "passed"


def _head(comparison: CommitComparison, floor: float, link: str) -> list[str]:
    """Return three paragraphs: the sentences, both commits, and what would have been seen."""
    sentences = [
        f"{markdown_code(change.pair.baseline.case.model)}:"
        f" {markdown_code(change_sentence(change, floor=floor), limit=_MAX_SENTENCE)}"
        for change in comparison.changes
    ]
    sides = (comparison.baseline.run.revision, comparison.candidate.run.revision)
    last = resolution_text(comparison.changes) or "nothing was measured on both sides"
    return [
        "<br>".join(sentences),
        "",
        f"{markdown_code(sides[1])} against {markdown_code(sides[0])}, interleaved on one machine",
        "",
        f"{last}{f' - [job]({link})' if link else ''}",
    ]


def _cells(row: CaseComparison) -> tuple[str, ...]:
    comparison = row.comparison
    verdict = str(comparison.verdict)
    return (
        markdown_code(row.case.key),
        markdown_code(metric_label(row.metric)),
        quantity(row.baseline, unit=row.unit),
        candidate_text(row),
        "-" if comparison.ratio is None else signed_percent(comparison.ratio - 1),
        ratio_interval(comparison.low, comparison.high) or "-",
        f"**{verdict}**" if comparison.is_failure else verdict,
    )


def _kernel_rows(diff: KernelDiff) -> list[tuple[str, ...]]:
    changed = [row for row in diff.rows if row.kind is not ChangeKind.UNCHANGED]
    return [
        (
            signed_us(row.contribution_s),
            str(row.kind),
            markdown_code(row.label),
            markdown_code(row.text, limit=_MAX_KERNEL_TEXT),
        )
        for row in changed[:_MAX_KERNELS]
    ]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [_line(row) for row in rows]
    ends = accumulate(len(line) for line in lines)
    num_fitting = sum(end <= _MAX_TABLE for end in ends)
    shown = [_line(head), _line(["---"] * len(head)), *lines[:num_fitting]]
    if num_fitting < len(lines):
        shown += ["", f"{counted(len(lines) - num_fitting, 'more row')} not shown."]
    return shown


def _folded(title: str, lines: Sequence[str]) -> list[str]:
    return ["", f"<details><summary>{title}</summary>", "", *lines, "", "</details>"]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
