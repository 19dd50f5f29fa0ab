"""The comparison of two runs as Markdown for an issue or a message. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from compile_hud.app.ui.share import code, summary_text
from compile_hud.app.ui.theme import VERDICT_STYLES
from compile_hud.app.views.compare.records import ComparedRow, ComparePage
from compile_hud.app.views.compare.tables import change_of, name_of
from compile_hud.db.records.metrics import metric_label
from compile_hud.db.records.results import Run, Verdict
from compile_hud.db.shared.text import counted, ratio_interval

_MAX_ROWS = 10


def compare_markdown(page: ComparePage, *, rows: Sequence[ComparedRow], command: str) -> str:
    """Return the two sides, the number of `rows` by verdict, and the worst changes.

    HERE stands for the address.
    """
    title = f"Comparison of {_side(page.baseline)} with {_side(page.candidate)}"
    return summary_text(title, lines=_lines(page, rows), command=command)


def _side(run: Run) -> str:
    return f"run {code(run.id)} ({code(run.revision)}, {code(run.toolchain)})"


def _lines(page: ComparePage, rows: Sequence[ComparedRow]) -> Iterator[str]:
    if page.refusal:
        yield f"no verdict: {code(page.refusal)}"
        return
    for item in page.code_changes:
        yield code(f"{item.change.model}: {item.change.text}")
    counts = Counter(row.verdict for row in rows)
    changes = (Verdict.REGRESSION, Verdict.IMPROVEMENT)
    yield ", ".join(
        counted(counts[verdict], verdict) if verdict in changes else f"{counts[verdict]} {verdict}"
        for verdict in Verdict
    )
    changed = [row for row in rows if row.verdict in VERDICT_STYLES]
    for row in changed[:_MAX_ROWS]:
        what = code(f"{name_of(row.baseline_case, row.candidate_case)} {metric_label(row.metric)}")
        yield f"{what}: {change_of(row)}{_interval(row)} ({row.verdict})"
    if len(changed) > _MAX_ROWS:
        yield f"{len(changed) - _MAX_ROWS} more changed"


def _interval(row: ComparedRow) -> str:
    interval = ratio_interval(row.low, row.high)
    return f" {interval}" if interval else ""
