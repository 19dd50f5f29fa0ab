"""The memory at the peak of an iteration by holder, and its changes, as HTML. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from compile_hud.app.ui.format import Scale, quantity, scale_for
from compile_hud.app.ui.html import Cell, HtmlColumn, table
from compile_hud.app.views.memory.records import MemoryChanges
from compile_hud.db.errors import RecordError
from compile_hud.db.records.memory.peak import MemoryHolder, PeakHolders, memory_peak_of
from compile_hud.db.records.summaries import ResultSummary
from compile_hud.db.shared.text import plural

PEAK_CAPTION = (
    "The rows add up to the peak of one iteration under the profiler, to the byte."
    " An operator has the memory that it wrote first."
)
NO_HOLDERS = (
    "This result does not say which operators have the memory. Runs with `[run] kernels = true`,"
    " the default, record it."
)
_HOLDER_COLUMNS = (
    HtmlColumn(label="holder", title="the operator or kernel that first writes the memory"),
    HtmlColumn(label="module"),
    HtmlColumn(label="line"),
)


def peak_of(result: ResultSummary) -> tuple[PeakHolders | None, str]:
    """Return the holders of a result, None without any, and the reason why they are unreadable."""
    try:
        return memory_peak_of(result.details), ""
    except RecordError as error:
        return None, f"The memory of this result cannot be read: {error}."


def peak_text(peak: PeakHolders, result: ResultSummary) -> str:
    """Return the peak in a sentence, with the measured one where the two differ."""
    text = f"{quantity(peak.num_bytes, 'B')} are alive at the peak."
    measured = result.measurements.get("peak_bytes")
    if measured is None or round(measured.median) == peak.num_bytes:
        return text
    return (
        f"{text} The measured peak memory of another iteration is {quantity(measured.median, 'B')}."
    )


def holder_table(peak: PeakHolders) -> str:
    """Return a row for each holder, the largest first; the bytes are in one unit."""
    scale = _scale(item.num_bytes for item in peak.holders)
    columns = (
        HtmlColumn(label=f"memory ({scale.unit})", is_number=True),
        HtmlColumn(label="share", is_number=True),
        HtmlColumn(label="allocations", is_number=True),
        *_HOLDER_COLUMNS,
    )
    rows = [
        (
            Cell(
                text=_number(item.num_bytes, scale),
                title=f"{item.num_bytes:,} {plural(item.num_bytes, 'byte')}",
            ),
            Cell(text=f"{100 * peak.share(item):.1f} %"),
            Cell(text=_count(item)),
            *_holder_cells(item.label, item.module, item.short_line, title=item.line),
        )
        for item in peak.holders
    ]
    return table(columns, rows, label="memory at the peak")


def _holder_cells(label: str, module: str, line: str, *, title: str = "") -> tuple[Cell, ...]:
    return (
        Cell(text=label, title=label, style="symbol"),
        Cell(text=module or "-", style="prose"),
        Cell(text=line or "-", title=title, style="prose"),
    )


def _scale(sizes: Iterable[int]) -> Scale:
    """Return the scale of the largest size: it says most, and its unit suits no 8 bytes."""
    return scale_for("B", [max((abs(size) for size in sizes), default=0)])


def _number(size: int, scale: Scale) -> str:
    least = scale.factor / 100
    return "<0.01" if 0 < abs(size) < least else scale.number(abs(size))


def _count(item: MemoryHolder) -> str:
    return f"{item.count:,}" if item.is_counted else "-"


def memory_sentence(changes: MemoryChanges) -> str:
    """Return both peaks and, if any holder changed, the one that changed most."""
    before, after = (
        quantity(number, "B") for number in (changes.baseline_bytes, changes.candidate_bytes)
    )
    text = f"{before} -> {after} at the peak."
    if not changes.rows:
        return text
    first = changes.rows[0]
    where = f" in {first.module}" if first.module else ""
    more = "more" if first.change_bytes > 0 else "less"
    size = quantity(abs(first.change_bytes), "B")
    return f"{text} {first.label}{where} has {size} {more}."


def change_table(changes: MemoryChanges) -> str:
    """Return a row for each holder that changed, the largest change first; "" without any."""
    if not changes.rows:
        return ""
    scale = _scale(row.change_bytes for row in changes.rows)
    columns = (
        HtmlColumn(label=f"change ({scale.unit})", is_number=True),
        HtmlColumn(label="baseline", is_number=True),
        HtmlColumn(label="candidate", is_number=True),
        *_HOLDER_COLUMNS,
        HtmlColumn(label="why"),
    )
    rows = [
        (
            Cell(
                text=f"{'+' if row.change_bytes > 0 else '-'}{_number(row.change_bytes, scale)}",
                title=f"{row.change_bytes:+,} {plural(abs(row.change_bytes), 'byte')}",
            ),
            *(
                Cell(text="-" if number is None else _number(number, scale))
                for number in (row.baseline_bytes, row.candidate_bytes)
            ),
            *_holder_cells(row.label, row.module, row.line),
            Cell(text=row.text, style="prose"),
        )
        for row in changes.rows
    ]
    return table(columns, rows, label="changes of memory at the peak")
