"""The memory at the peak of two results as a table: a line for each holder that changed."""

from __future__ import annotations

from compile_hud.db.shared.text import counted
from compile_hud.runner.analysis.memory_peak.diff import MemoryChange, MemoryDiff
from compile_hud.runner.cli.echo import echo
from compile_hud.runner.cli.tables import Column, print_table
from compile_hud.runner.format import quantity

_COLUMNS = (
    *(Column(name=name, is_number=True) for name in ("change", "baseline", "candidate")),
    *(Column(name=name) for name in ("holder", "module", "line")),
    Column(name="why", is_prose=True),
)
_SPARE = ("baseline", "why", "line")
# `--json` has every row.
_NUM_SHOWN = 12


def print_memory_diff(diff: MemoryDiff, *, title: str = "memory at the peak") -> None:
    """Print a line for each holder that changed, the largest change first."""
    before, after = (
        quantity(number, unit="B") for number in (diff.baseline_bytes, diff.candidate_bytes)
    )
    echo(f"\n{title}: {before} -> {after} ({_signed(diff.change_bytes)})")
    changed = diff.changed
    if not changed:
        echo("the same holders with the same bytes")
        return
    print_table(_COLUMNS, rows=[_row(row) for row in changed[:_NUM_SHOWN]], spare=_SPARE)
    if len(changed) > _NUM_SHOWN:
        echo(f"{counted(len(changed) - _NUM_SHOWN, 'smaller change')}; --json has all")


def _row(row: MemoryChange) -> tuple[str, ...]:
    before, after = (
        "-" if item is None else quantity(item.num_bytes, unit="B")
        for item in (row.baseline, row.candidate)
    )
    holder = row.holder
    return (
        _signed(row.change_bytes),
        before,
        after,
        holder.label,
        holder.module or "-",
        holder.short_line or "-",
        row.text,
    )


def _signed(num_bytes: int) -> str:
    text = quantity(num_bytes, unit="B")
    return f"+{text}" if num_bytes > 0 else text
