"""Print the comparison of two runs, as a table or as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from compile_hud.db.records.metrics import METRICS, metric_label
from compile_hud.db.records.results import Run, Verdict
from compile_hud.db.shared.model_code import MODEL_COMMITS, code_changes
from compile_hud.db.shared.model_sources import ModelCodeDiff
from compile_hud.db.shared.text import (
    counted,
    one_line,
    plain,
    ratio_interval,
    shortened,
    signed_percent,
)
from compile_hud.runner.analysis.comparison.measurements import CALM, CHANGED
from compile_hud.runner.analysis.comparison.resolution import (
    noise_text,
    resolution_text,
    resolutions,
)
from compile_hud.runner.analysis.comparison.runs import (
    CaseComparison,
    FactDifference,
    environment_differences,
)
from compile_hud.runner.cli.echo import echo
from compile_hud.runner.cli.tables import MAX_CELL, Column, print_table
from compile_hud.runner.documents.comparison import models_of
from compile_hud.runner.format import quantity

# The rows that need attention come first.
VERDICT_ORDER = (
    Verdict.REGRESSION,
    Verdict.IMPROVEMENT,
    Verdict.INCONCLUSIVE,
    Verdict.UNCHANGED,
    Verdict.IDENTICAL,
)
_MACHINE = "machine"
_MACHINE_NOTE = (
    f"{_MACHINE}: how much longer the same fixed work took; the change of a time is without it"
)
# They are part of the revision, which is printed before.
_HEADER_FACTS = ("torch_version", "torch_git")


def print_differences(
    rows: Sequence[CaseComparison],
    *,
    before: Run,
    after: Run,
    fail_above: float,
    show_all: bool,
    diffs: Sequence[ModelCodeDiff] = (),
) -> None:
    """Print both runs, the differences between their environments, and a line for each row."""
    for name, run in (("baseline ", before), ("candidate", after)):
        echo(f"{name} {run.id}  {run.revision}  {run.started_at:%Y-%m-%d %H:%M}")
    if text := resolution_text(resolutions(rows, fail_above=fail_above)):
        echo(f"undecided {text}")
    changes = code_changes(before, candidate=after, models=models_of(rows))
    changed = {row.case.model for row in rows if row.comparison.verdict in CHANGED}
    for change in changes:
        label = "cause" if change.model in changed else "differs"
        echo(f"{label:<9} {change.text} ({change.model})")
    _print_diffs(diffs)
    known = {f"{MODEL_COMMITS}.{change.model}" for change in changes}
    for item in _flat(environment_differences(before, candidate=after)):
        if item.name not in (*_HEADER_FACTS, *known):
            echo(f"differs   {item.name}: {_fact(item.baseline)} -> {_fact(item.candidate)}")
    if text := noise_text(rows):
        echo(f"noise     {text}")
    echo()
    ordered = sorted(rows, key=lambda row: VERDICT_ORDER.index(row.comparison.verdict))
    shown = [row for row in ordered if show_all or row.comparison.verdict not in CALM]
    if shown:
        is_normalised = any(row.machine_ratio is not None for row in shown)
        machine = (_MACHINE,) if is_normalised else ()
        columns = [
            *(Column(name=name) for name in ("case", "metric")),
            *(
                Column(name=name, is_number=True)
                for name in ("baseline", "candidate", *machine, "change")
            ),
            *(Column(name=name) for name in ("interval", "verdict")),
            Column(name="why", is_prose=True),
        ]
        print_table(columns, rows=[_cells(row, is_normalised=is_normalised) for row in shown])
        if is_normalised:
            echo(_MACHINE_NOTE)
        echo()
    echo(verdict_counts(row.comparison.verdict for row in rows))


def verdict_counts(verdicts: Iterable[Verdict]) -> str:
    """Return the number of comparisons by verdict: `2 regressions, no improvements, ...`."""
    counts = Counter(verdicts)
    shown = [verdict for verdict in VERDICT_ORDER if verdict not in CALM or counts[verdict]]
    return ", ".join(
        counted(counts[verdict], verdict) if verdict in CHANGED else f"{counts[verdict]} {verdict}"
        for verdict in shown
    )


def change_text(row: CaseComparison) -> str:
    """Return the change in percent; a count that changed as `23 -> 26`."""
    comparison, metric = row.comparison, METRICS.get(row.metric)
    before, after = row.baseline, row.candidate
    is_count = metric is not None and metric.is_count and before != after
    if is_count and before is not None and after is not None:
        return f"{plain(before)} -> {plain(after)}"
    return "-" if comparison.ratio is None else signed_percent(comparison.ratio - 1)


def machine_text(row: CaseComparison) -> str:
    """Return by how much the machine's own time differs, in percent; empty without a probe."""
    return "" if row.machine_ratio is None else signed_percent(row.machine_ratio - 1)


def candidate_text(row: CaseComparison) -> str:
    """Return the candidate's value, with the part that the machine has in it."""
    value = quantity(row.candidate, unit=row.unit)
    machine = machine_text(row)
    return f"{value} (machine {machine})" if machine else value


def _print_diffs(diffs: Sequence[ModelCodeDiff]) -> None:
    for item in diffs:
        for line in (*item.lines, *([item.note] if item.note else [])):
            echo(f"  {line}")


def _flat(differences: Sequence[FactDifference]) -> Iterator[FactDifference]:
    """Yield the differences, those within a fact that is a table one by one."""
    for item in differences:
        before, after = item.baseline, item.candidate
        if not isinstance(before, Mapping) or not isinstance(after, Mapping):
            yield item
            continue
        for key in sorted({*before, *after}):
            if before.get(key) != after.get(key):
                yield FactDifference(
                    name=f"{item.name}.{key}", baseline=before.get(key), candidate=after.get(key)
                )


def _fact(value: Any) -> str:
    return "none" if value is None else shortened(one_line(str(value)), limit=MAX_CELL)


def _cells(row: CaseComparison, *, is_normalised: bool) -> tuple[str, ...]:
    comparison = row.comparison
    return (
        row.case.key,
        metric_label(row.metric),
        quantity(row.baseline, unit=row.unit),
        quantity(row.candidate, unit=row.unit),
        *((machine_text(row) or "-",) if is_normalised else ()),
        change_text(row),
        ratio_interval(comparison.low, comparison.high) or "-",
        str(comparison.verdict),
        comparison.reason,
    )
