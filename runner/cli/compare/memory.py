"""The memory at the peak of two results as a table: a line for each holder that changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from compile_hud.db.errors import RecordError
from compile_hud.db.records.memory.peak import memory_peak_of
from compile_hud.db.records.results import CaseResult, RunDocument
from compile_hud.db.shared.text import counted
from compile_hud.runner.analysis.comparison.measurements import CALM
from compile_hud.runner.analysis.comparison.runs import CaseComparison
from compile_hud.runner.analysis.memory_peak.diff import MemoryChange, MemoryDiff, diff_of
from compile_hud.runner.cli.tables import Column, print_table
from compile_hud.runner.format import quantity

_METRIC = "peak_bytes"
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
    click.echo(f"\n{title}: {before} -> {after} ({_signed(diff.change_bytes)})")
    changed = diff.changed
    if not changed:
        click.echo("the same holders with the same bytes")
        return
    print_table(_COLUMNS, rows=[_row(row) for row in changed[:_NUM_SHOWN]], spare=_SPARE)
    if len(changed) > _NUM_SHOWN:
        click.echo(f"{counted(len(changed) - _NUM_SHOWN, 'smaller change')}; --json has all")


def memory_diffs(
    rows: Sequence[CaseComparison], *, baseline: RunDocument, candidate: RunDocument
) -> dict[str, MemoryDiff]:
    """Return the diff of each case whose peak memory changed, by its key, where both sides have it.

    A document that cannot be read costs its own case only.
    """
    sides = [
        {item.case.key: item for item in document.results} for document in (baseline, candidate)
    ]
    diffs = {}
    for row in rows:
        key = row.case.key
        if row.metric != _METRIC or row.comparison.verdict in CALM:
            continue
        before, after = (side.get(key) for side in sides)
        if before is not None and after is not None:
            diff = _diff(before, after)
            if diff is not None:
                diffs[key] = diff
    return diffs


def memory_json(diffs: dict[str, MemoryDiff]) -> list[dict[str, Any]]:
    """Return the diffs as a list, each with the key of its case."""
    return [{"case": key, **diff.to_json()} for key, diff in diffs.items()]


def _diff(before: CaseResult, after: CaseResult) -> MemoryDiff | None:
    try:
        return diff_of(memory_peak_of(before.details), memory_peak_of(after.details))
    except RecordError:
        return None


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
