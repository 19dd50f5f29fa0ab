"""The differences of two commits, in a sentence for each case."""

from __future__ import annotations

from collections.abc import Sequence

from compile_hud.db.records.results import Outcome, Verdict
from compile_hud.db.shared.text import counted, first_line, signed
from compile_hud.runner.analysis.comparison.measurements import CHANGED, Comparison, is_beyond
from compile_hud.runner.analysis.comparison.paired import main_metric
from compile_hud.runner.analysis.comparison.resolution import launches_to_settle
from compile_hud.runner.analysis.comparison.runs import CaseComparison
from compile_hud.runner.analysis.kernels.cause_text import cause_text
from compile_hud.runner.analysis.stats.rounds import Pair
from compile_hud.runner.bisect.commit_comparison import CaseChange
from compile_hud.runner.format import quantity

MEMORY, WALL = "peak_bytes", "latency_s"


def change_sentence(change: CaseChange, *, floor: float) -> str:
    """Return the latency with its interval, the cause, and the peak memory of one case.

    `floor` is the smallest change that counts, 0.05 for 5 %.
    """
    case = change.pair.baseline.case
    scope = f"{case.phase}/{case.shape}"
    outcomes = (change.pair.baseline.outcome, change.pair.candidate.outcome)
    if outcomes != (Outcome.OK, Outcome.OK):
        reason = first_line(change.pair.candidate.reason or change.pair.baseline.reason)
        return f"{outcomes[0]} -> {outcomes[1]} at {scope}{f': {reason}' if reason else ''}"
    row = main_row(change)
    if row is None or row.comparison.ratio is None:
        return f"no latency on both sides at {scope}"
    clock = "" if row.metric == WALL else " of CPU time"
    parts = [f"latency {_change(row.comparison)} at {scope}, {_levels(row)}{clock}"]
    parts.append(_verdict_text(change, row, floor=floor))
    memory = _row(change, MEMORY)
    if memory is not None and memory.comparison.verdict in CHANGED:
        parts.append(f"peak memory {_percent(memory.comparison.ratio)}")
    return "; ".join(part for part in parts if part)


def resolution_text(changes: Sequence[CaseChange]) -> str:
    """Return above which size changes would have been seen, empty where nothing was measured."""
    rows = [main_row(change) for change in changes]
    sizes = [
        row.comparison.change.resolution()
        for row in rows
        if row is not None and row.comparison.change is not None
    ]
    return f"could have seen changes above {100 * max(sizes):.1f} %" if sizes else ""


def main_row(change: CaseChange) -> CaseComparison | None:
    """Return the row of the time that decides, None where a side has none."""
    pair = Pair(change.pair.baseline, change.pair.candidate)
    return _row(change, main_metric(pair))


def has_inconclusive(changes: Sequence[CaseChange]) -> bool:
    """Return whether the time of some case is inconclusive."""
    rows = [main_row(change) for change in changes]
    return any(row is not None and row.comparison.verdict is Verdict.INCONCLUSIVE for row in rows)


def _row(change: CaseChange, metric: str) -> CaseComparison | None:
    return next((row for row in change.pair.rows if row.metric == metric), None)


def _verdict_text(change: CaseChange, row: CaseComparison, *, floor: float) -> str:
    verdict = row.comparison.verdict
    if verdict in CHANGED:
        causes = [] if change.code is None else [change.code.text]
        if change.kernels is not None:
            is_slower = (row.comparison.ratio or 1) > 1
            causes.append(cause_text(change.kernels, is_slower=is_slower))
        return f"cause: {'; '.join(causes)}" if causes else ""
    if verdict is not Verdict.INCONCLUSIVE:
        return str(verdict)
    more = launches_to_settle(row, fail_above=floor)
    if more is None or row.comparison.change is None:
        return f"inconclusive: {row.comparison.reason}"
    reason = f"not shown to be within {100 * floor:g} %"
    if is_beyond(row.comparison.change, floor=floor):
        limit = row.comparison.reason.partition(":")[0]
        reason = f"the change is beyond {100 * floor:g} %, but {limit}"
    return f"inconclusive: {reason}; about {counted(more, 'more pair')} of launches would settle it"


def _change(comparison: Comparison) -> str:
    text = _percent(comparison.ratio)
    if comparison.low is None or comparison.high is None:
        return text
    return f"{text} [{signed(100 * (comparison.low - 1))}, {signed(100 * (comparison.high - 1))}]"


def _levels(row: CaseComparison) -> str:
    levels = (row.baseline, row.candidate)
    return " -> ".join(quantity(level, unit=row.unit) for level in levels)


def _percent(ratio: float | None) -> str:
    return "" if ratio is None else f"{signed(100 * (ratio - 1))} %"
