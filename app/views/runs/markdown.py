"""A run, and a case of it, as Markdown for an issue or a message. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from compile_hud.app.data.page_records import RunPage
from compile_hud.app.ui.format import estimate, moment, outcome_label, quantity
from compile_hud.app.ui.share import code, summary_text
from compile_hud.app.ui.urls import OVERVIEW_METRICS
from compile_hud.db.records.findings import Finding
from compile_hud.db.records.metrics import metric_label
from compile_hud.db.records.summaries import ResultSummary
from compile_hud.db.shared.text import counted_of, first_line, shortened

# A message is no list of everything; its link leads to one.
_MAX_FAILED = 10
_REASON_LENGTH = 160
_MAX_FINDINGS = 3


def run_markdown(page: RunPage, *, case: str, command: str) -> str:
    """Return the state of a run and its cases that are not ok; that with the key `case` comes
    first.

    HERE stands for the address.
    """
    run = page.run
    title = (
        f"Run {code(run.id)} of suite {code(run.suite)} on {code(run.machine)}, toolchain"
        f" {code(run.toolchain)}, {code(run.revision)}"
    )
    return summary_text(title, lines=_lines(page, case=case), command=command)


def _lines(page: RunPage, *, case: str) -> Iterator[str]:
    run = page.run
    for result in page.results:
        if result.case.key == case:
            yield from _case_lines(result)
            yield from map(_finding_line, page.findings.get(result.id, ())[:_MAX_FINDINGS])
    num_done, num_planned = len(page.results), len(run.plan)
    num_ok = sum(result.outcome.is_expected for result in page.results)
    yield (
        f"{run.state}, started {moment(run.started_at)}:"
        f" {counted_of(num_done, num_planned, 'case')},"
        f" {num_ok} ok"
    )
    failed = [
        item for item in page.results if not item.outcome.is_expected and item.case.key != case
    ]
    for result in failed[:_MAX_FAILED]:
        yield _outcome_line(result)
    if len(failed) > _MAX_FAILED:
        yield f"{len(failed) - _MAX_FAILED} more did not end ok"


def _case_lines(result: ResultSummary) -> Iterator[str]:
    yield _outcome_line(result)
    for name in OVERVIEW_METRICS:
        if measurement := result.measurements.get(name):
            value = estimate(
                measurement.median,
                low=measurement.low,
                high=measurement.high,
                unit=measurement.unit,
            )
            yield f"{metric_label(name)}: {value}"


def _finding_line(finding: Finding) -> str:
    cost = "" if finding.cost_s is None else f" {quantity(finding.cost_s, 's')}"
    text = shortened(first_line(finding.text), limit=_REASON_LENGTH)
    return f"finding {finding.code}{cost}: {code(text)}"


def _outcome_line(result: ResultSummary) -> str:
    line = f"{code(result.case.key)}: {outcome_label(result.outcome)}"
    if not result.reason:
        return line
    return f"{line}, {code(shortened(first_line(result.reason), limit=_REASON_LENGTH))}"
