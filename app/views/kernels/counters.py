"""Counters of other profilers, as columns of the tables of kernels. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from compile_hud.app.ui.format import scale_for
from compile_hud.db.records.kernel_counters import SHARES, counted, counter_names
from compile_hud.db.records.kernels import Kernel
from compile_hud.db.shared import text
from compile_hud.db.shared.text import printable, shortened

# Nsight Compute counts hundreds of things; an opened kernel shows all of them.
MAX_COLUMNS = 12
_NAME_LIMIT = 60
_HELP = "counted by another profiler"


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterColumn:
    """A counter of each kernel, None without a reading; `label` has the unit of all of them."""

    label: str
    help: str
    values: tuple[float | None, ...]


def counter_columns(kernels: Sequence[Kernel]) -> list[CounterColumn]:
    """Return the best known counters of `kernels` and then further ones, MAX_COLUMNS at most."""
    readings = [counted(kernel) for kernel in kernels]
    columns = []
    for name in counter_names(kernels)[:MAX_COLUMNS]:
        column = [reading.get(name) for reading in readings]
        units = {item[1] for item in column if item is not None}
        # A counter of one profiler has one unit; readings with several units stay unscaled.
        unit = units.pop() if len(units) == 1 else ""
        scale = scale_for(unit, [item[0] for item in column if item and math.isfinite(item[0])])
        heading = SHARES.get(name, name)
        columns.append(
            CounterColumn(
                label=_label(heading, unit=scale.unit),
                help=f"{_HELP}: of the most that the device can sustain"
                if name in SHARES
                else _HELP,
                values=tuple(None if item is None else item[0] / scale.factor for item in column),
            )
        )
    return columns


def hidden_counters(kernels: Sequence[Kernel]) -> str:
    """Return a sentence on the counters without a column, "" for none."""
    number = len(counter_names(kernels)) - MAX_COLUMNS
    if number <= 0:
        return ""
    return f"The list of each opened kernel has {text.counted(number, 'more counter')}."


def _label(heading: str, *, unit: str) -> str:
    shown = shortened(heading, limit=_NAME_LIMIT)
    return printable(f"{shown} ({shortened(unit, limit=_NAME_LIMIT)})" if unit else shown)
