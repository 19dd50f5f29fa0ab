"""The shape sweep of a case result, as a table and as rows of a chart. Pure.

A sweep sends other shapes through the compiled model of the case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from compile_hud.app.ui.format import Scale, quantity, scale_for
from compile_hud.app.ui.html import Cell, HtmlColumn, Note, interval_notes, table
from compile_hud.app.ui.legend import LegendItem

SWEEP_CAPTION = "One compiled model, called with one shape after the other."


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """A median with its 95 % interval, in the stored unit."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptShape:
    """One value of the axis: times in seconds, and the compiler's reaction to its first call.

    `guards` are those that failed. `compile_s` is the time of compiling again, None without a
    recompile. `reason` tells why the result is inaccurate, empty if it is accurate.
    """

    value: int
    eager: Swept
    variant: Swept
    speedup: Swept
    num_rounds: int
    num_recompiles: int
    compile_s: float | None
    guards: tuple[str, ...]
    has_given_up: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepValues:
    """The values of one axis that went through one compiled model; `own` is the case's shape."""

    axis: str
    own: int
    clock: str
    shapes: tuple[SweptShape, ...]

    @property
    def scale(self) -> Scale:
        """Return the one scale of all its times."""
        return scale_for("s", [shape.variant.median for shape in self.shapes])


def sweep_table(sweep: SweepValues, *, variant: str) -> str:
    """Return a row for each shape: latency of eager and variant, recompiles, accuracy."""
    clock = f"median of the {sweep.clock} of an iteration, with its 95 % interval"
    unit = sweep.scale.unit
    columns = (
        HtmlColumn(label=sweep.axis.replace("_", " "), is_number=True),
        HtmlColumn(label=f"eager ({unit})", title=clock, is_number=True),
        HtmlColumn(label=f"{variant} ({unit})", title=clock, is_number=True),
        HtmlColumn(label="speedup", title="eager over variant, round by round", is_number=True),
        HtmlColumn(label="rounds", is_number=True, is_spare=True),
        HtmlColumn(
            label="compiled again", title="graphs, and what the first call took beyond the next"
        ),
        HtmlColumn(label="guard that failed"),
        HtmlColumn(label="result", title="against the fp64 oracle of this shape"),
    )
    rows = [_cells(shape, sweep=sweep) for shape in sweep.shapes]
    return table(columns, rows, label="other shapes")


def sweep_rows(sweep: SweepValues, *, variant: str) -> list[dict[str, Any]]:
    """Return a row for each side of each shape, times in the sweep's scale."""
    scale = sweep.scale
    return [
        {
            "value": shape.value,
            "side": name,
            "is_variant": name == variant,
            "median": side.median / scale.factor,
            "low": side.low / scale.factor,
            "high": side.high / scale.factor,
            "shown": scale.text(side.median),
            "num_samples": shape.num_rounds,
            "text": _compiled_again(shape) if name == variant else "",
            "label": _label(shape) if name == variant else "",
        }
        for shape in sweep.shapes
        for name, side in (("eager", shape.eager), (variant, shape.variant))
    ]


def sweep_legend(sweep: SweepValues, *, variant: str) -> tuple[LegendItem, ...]:
    """Return the signs of the chart of `sweep`."""
    items = [
        LegendItem(sign="point-line", text=variant),
        LegendItem(sign="hollow-line", text="eager"),
    ]
    if any(shape.compile_s is not None for shape in sweep.shapes):
        items.append(LegendItem(sign="diamond-open", text="compiled again, time it took"))
    if any(shape.reason for shape in sweep.shapes):
        items.append(LegendItem(sign="diamond-open", text="inaccurate"))
    return tuple(items)


def _label(shape: SweptShape) -> str:
    texts = [] if shape.compile_s is None else [f"+{quantity(shape.compile_s, 's')}"]
    return ", ".join([*texts, "inaccurate"] if shape.reason else texts)


def _compiled_again(shape: SweptShape) -> str:
    """Return the number of recompiled graphs and their compile time, `1: 14.8 s`."""
    if shape.compile_s is None:
        return "-"
    return f"{shape.num_recompiles}: {quantity(shape.compile_s, 's')}"


def _cells(shape: SweptShape, *, sweep: SweepValues) -> Sequence[Cell]:
    is_own = shape.value == sweep.own
    gave_up = (Note(text="Dynamo gave up: it runs eagerly"),) if shape.has_given_up else ()
    return (
        Cell(text=str(shape.value), notes=(Note(text="own shape"),) if is_own else ()),
        _time(shape.eager, scale=sweep.scale),
        _time(shape.variant, scale=sweep.scale),
        Cell(
            text=f"{shape.speedup.median:.2f}x",
            notes=interval_notes(shape.speedup.low, shape.speedup.high, scale=scale_for("x", [])),
        ),
        Cell(text=str(shape.num_rounds)),
        Cell(text=_compiled_again(shape), notes=gave_up),
        Cell(text="; ".join(shape.guards) or "-", style="prose", title="; ".join(shape.guards)),
        Cell(
            text=f"inaccurate: {shape.reason}" if shape.reason else "right",
            style="prose whole" if shape.reason else "",
        ),
    )


def _time(side: Swept, *, scale: Scale) -> Cell:
    notes = interval_notes(side.low, side.high, scale=scale)
    return Cell(text=scale.number(side.median), notes=notes)
