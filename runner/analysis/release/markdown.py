"""The report of a release as Markdown, for an issue or the summary of a CI job. Pure.

Names are user-defined, so they are code in which nothing is markup (`markdown_code`).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from compile_hud.db.records.metrics import metric_label
from compile_hud.db.records.results import Run
from compile_hud.db.shared.text import (
    counted,
    markdown_code,
    ratio_interval,
    signed_percent,
)
from compile_hud.runner.analysis.comparison.runs import OUTCOME, CaseComparison
from compile_hud.runner.analysis.release.mean_changes import MeanChange, by_clearness
from compile_hud.runner.analysis.release.report import NamedCluster, ReleaseReport
from compile_hud.runner.analysis.release.sign_off import JudgedPair
from compile_hud.runner.analysis.repro import case_options, command_line

# The longest cluster of an issue that a person reads.
_MAX_CASES = 20
MEAN_COLUMNS = ("mode", "phase", "metric", "change", "95 % interval", "cases", "worse", "better")
MEAN_NUMBERS = frozenset(("change", "cases", "worse", "better"))
_HEAD = ("case", "metric", "change", "95 % interval")


def release_markdown(report: ReleaseReport) -> str:
    """Return the report as Markdown."""
    before, after = report.baseline, report.candidate
    machines = ", ".join(map(markdown_code, report.machines))
    lines = [
        f"### {report.sign_off.text}",
        "",
        f"Baseline {_side(before)}, candidate {_side(after)}, on {machines}."
        " The launches of both alternated.",
    ]
    if report.commits_url:
        lines += ["", f"Commits of torch between them: {report.commits_url}"]
    for number, cluster in enumerate(report.clusters, start=1):
        lines += ["", *_cluster_lines(cluster, number=number, report=report)]
    for what, items in (
        ("Not decided", report.undecided),
        ("Failed on both sides", report.failing),
        ("Faster", report.improvements),
    ):
        if items:
            keys = ", ".join(markdown_code(item.key) for item in items[:_MAX_CASES])
            more = "" if len(items) <= _MAX_CASES else f" and {len(items) - _MAX_CASES} more"
            lines += ["", f"{what}: {keys}{more}."]
    if report.means:
        lines += ["", *_mean_lines(report.means)]
    if report.environment:
        lines += ["", "What differs:", ""]
    for name, (old, new) in report.environment.items():
        lines.append(f"- {markdown_code(name)}: {_value(old)} -> {_value(new)}")
    return "\n".join(lines) + "\n"


def change_cells(row: CaseComparison) -> tuple[str, str]:
    """Return the change and its interval in percent; an outcome as its reason."""
    comparison = row.comparison
    if row.metric == OUTCOME or comparison.ratio is None:
        return comparison.reason, ""
    interval = ratio_interval(comparison.low, comparison.high)
    return signed_percent(comparison.ratio - 1), interval


def mean_cells(mean: MeanChange) -> tuple[str, ...]:
    """Return the cells of MEAN_COLUMNS."""
    return (
        mean.variant,
        str(mean.phase),
        metric_label(mean.metric),
        signed_percent(mean.change.ratio - 1),
        ratio_interval(*mean.change.interval()),
        str(mean.num_cases),
        str(mean.num_worse),
        str(mean.num_better),
    )


def other_means_text(number: int) -> str:
    """Return the text on `number` means that are not shown."""
    return f"{counted(number, 'other mean')} without a clear change"


def repro_line(report: ReleaseReport, item: JudgedPair) -> str:
    """Return the command that measures one case under both toolchains again."""
    options = [
        ("toolchain", report.baseline.toolchain),
        ("toolchain", report.candidate.toolchain),
        *case_options(item.pair.candidate.case),
    ]
    return command_line("compare", options)


def report_command(report: ReleaseReport) -> str:
    """Return the command that shows the newest release of both toolchains again."""
    names = (report.baseline.toolchain, report.candidate.toolchain)
    return f"hud release --report -- {' '.join(map(shlex.quote, names))}"


def _cluster_lines(named: NamedCluster, *, number: int, report: ReleaseReport) -> Iterator[str]:
    yield f"#### {number}. {_plain(named.text)}"
    yield ""
    if named.cause:
        yield f"Kernels: {markdown_code(named.cause, limit=400)}"
        yield ""
    yield _line(_HEAD)
    yield _line(["---"] * len(_HEAD))
    for item in named.items[:_MAX_CASES]:
        row = item.worst
        if row is not None:
            change, interval = change_cells(row)
            if row.metric == OUTCOME:
                change = markdown_code(change, limit=200)
            yield _line((markdown_code(item.key), metric_label(row.metric), change, interval))
    if len(named.items) > _MAX_CASES:
        yield ""
        yield f"{counted(len(named.items) - _MAX_CASES, 'more case')} not shown."
    yield ""
    yield f"Measure again: {markdown_code(repro_line(report, named.representative), limit=400)}"


def _mean_lines(means: Sequence[MeanChange]) -> Iterator[str]:
    shown, others = by_clearness(means)
    yield "Geometric mean of the change over all cases of a mode and phase:"
    yield ""
    if shown:
        yield _line(MEAN_COLUMNS)
        yield _line(["---:" if name in MEAN_NUMBERS else "---" for name in MEAN_COLUMNS])
    for mean in shown:
        variant, *cells = mean_cells(mean)
        yield _line((markdown_code(variant), *cells))
    if others:
        yield from ([""] if shown else [])
        yield f"{other_means_text(len(others))}."


def _side(run: Run) -> str:
    return f"{markdown_code(run.toolchain)} ({markdown_code(run.revision)})"


def _plain(text: str) -> str:
    """Return `text` so that no sign of a name in it is markup."""
    return "".join(
        sign if sign.isalnum() or sign in " ,;:.%+-/()" else f"&#{ord(sign)};" for sign in text
    )


def _value(value: Any) -> str:
    return "none" if value is None else markdown_code(str(value))


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
