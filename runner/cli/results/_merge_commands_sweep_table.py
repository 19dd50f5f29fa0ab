"""What `hud show RUN CASE` says about other shapes: latency, recompiles and accuracy of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compile_hud.db.records.results import CaseResult
from compile_hud.runner.analysis.stats._merge_analysis_sweep import speedups
from compile_hud.runner.analysis.stats.estimates import estimate
from compile_hud.runner.cli.output import Column, print_table, stdout
from compile_hud.runner.format import quantity


def print_sweep(result: CaseResult) -> None:
    """Print a row for each shape that went through the compiled model; nothing without any."""
    swept = result.details.get("shapes") or {}
    if not swept.get("rows"):
        return
    console = stdout()
    console.print("\nother shapes", markup=False)
    columns = (
        Column(name=swept["axis"], is_number=True),
        *(Column(name=name, is_number=True) for name in ("eager", result.case.variant, "speedup")),
        Column(name="compiled again", is_whole=True),
        Column(name="guard that failed", is_prose=True),
        Column(name="result", is_prose=True),
    )
    print_table(columns, rows=[sweep_row(row) for row in swept["rows"]], console=console)


def sweep_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells of one shape."""
    again = "-"
    if row["num_recompiles"]:
        again = f"{row['num_recompiles']}: {quantity(row['compile_s'], unit='s')}"
    return (
        str(row["value"]),
        _median(row["eager_s"], unit="s"),
        _median(row["variant_s"], unit="s"),
        _median(speedups(row), unit="x"),
        again,
        "; ".join(place["reason"] for place in row["recompiles"]) or "-",
        f"inaccurate: {row['reason']}" if row["reason"] else "right",
    )


def _median(samples: Sequence[float], *, unit: str) -> str:
    return quantity(estimate(samples).value, unit=unit)
