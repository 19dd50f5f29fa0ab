"""One case result in full, as text."""

from __future__ import annotations

from collections.abc import Sequence

from compile_hud.db.records.imported import was_timed
from compile_hud.db.records.metrics import CACHE_METRICS, METRICS
from compile_hud.db.records.results import CaseResult, Measurement, Outcome
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.db.shared.text import one_line, own_eager_text, printable, runtime_text
from compile_hud.runner.cli.tables import Column, print_table, stdout
from compile_hud.runner.format import interval_text, mode_text, quantity

_COLUMNS = (
    Column(name="metric", is_whole=True),
    *(Column(name=name, is_number=True) for name in ("median", "95 % interval", "samples")),
    Column(name="how", is_prose=True),
)


def print_case(result: CaseResult, *, own_eager_s: float | None = None) -> None:
    """Print how a case ended, its warnings with hints and every measurement with its interval.

    `own_eager_s` is the time of eager's own process, if that of this case differs.
    """
    console = stdout()
    facts = [
        ("case", result.case.key),
        ("mode", mode_text(result)),
        ("outcome", f"{result.outcome}: {result.reason}" if result.reason else result.outcome),
        ("took", quantity(result.took_s, unit="s") if was_timed(result.details) else "not known"),
    ]
    if runtime := runtime_text(result.details):
        facts.insert(2, ("runtime", one_line(runtime)))
    for name, value in facts:
        console.print(f"{name:10} {value}", markup=False)
    for warning in result.warnings:
        console.print(f"{'warning':10} {warning_text(warning)}", markup=False)
    if result.outcome is not Outcome.OK and result.log_tail.strip():
        console.print(f"\nthe end of its log:\n{printable(result.log_tail.rstrip())}", markup=False)
    shown = [item for item in result.measurements if item.metric not in CACHE_METRICS]
    if shown:
        console.print()
        print_table(_COLUMNS, rows=measurement_rows(shown), console=console)
    if own_eager_s is not None:
        console.print(own_eager_text(quantity(own_eager_s, unit="s")), markup=False)


def warning_text(warning: RunWarning) -> str:
    """Return a warning with its hint."""
    hint = f"; {warning.hint}" if warning.hint else ""
    return f"{warning.code}: {warning.text}{hint}"


def measurement_rows(measurements: Sequence[Measurement]) -> list[tuple[str, ...]]:
    """Return a row for each measurement, in the order of the table of metrics."""
    order = {name: index for index, name in enumerate(METRICS)}
    ordered = sorted(measurements, key=lambda item: order.get(item.metric, len(order)))
    return [
        (
            item.metric,
            quantity(item.median, unit=item.unit),
            interval_text(item),
            str(len(item.samples)),
            item.method,
        )
        for item in ordered
    ]
