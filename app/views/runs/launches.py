"""The reports of each launch of a case result, side by side. Pure.

The launches' details are JSON values that the worker decides. A new key becomes a new row; the
suffix of its name is its unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from compile_hud.app.ui.format import Scale, scale_for
from compile_hud.app.ui.html import Bar, Cell, HtmlColumn, Part, stack, table
from compile_hud.db.records.summaries import ResultSummary
from compile_hud.db.shared.text import counted

# Suffixes of names, and their stored units.
_UNITS = (
    ("_bytes_per_s", "B/s"),
    ("_hz", "Hz"),
    ("_bytes", "B"),
    ("_share", "share"),
    ("_s", "s"),
    ("_w", "W"),
    ("_j", "J"),
    ("_c", "deg C"),
    ("_pct", "%"),
)
# These parts of a launch's report have a table of their own.
_OWN_TABLE = ("cache", "cache_reasons")
# The best known phases precede all others.
_PHASES = ("dynamo", "aot", "inductor", "backend")
# Two readings are those before and after; of more the smallest and the largest are shown.
_NUM_SHOWN_READINGS = 2
# A smaller remainder without a phase is rounding.
_VISIBLE_SHARE = 0.005


def launches_of(details: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Return the details `name` of each launch, an empty mapping without them."""
    launches = details.get(name)
    if isinstance(launches, Mapping):
        launches = [launches]
    if not isinstance(launches, list):
        return []
    return [item if isinstance(item, Mapping) else {} for item in launches]


def launch_table(details: Mapping[str, Any], name: str) -> Markup:
    """Return a row for each reported thing, a column for each launch; "" without reports."""
    launches = [
        _flat({key: value for key, value in item.items() if key not in _OWN_TABLE})
        for item in launches_of(details, name)
    ]
    keys = list(dict.fromkeys(key for item in launches for key in item))
    keys = [key for key in keys if any(_has_value(item.get(key)) for item in launches)]
    if not keys:
        return Markup()
    columns = [HtmlColumn(label="")]
    columns += [
        HtmlColumn(label=f"launch {number}", is_number=True)
        for number in range(1, len(launches) + 1)
    ]
    rows = [_row(key, [item.get(key) for item in launches]) for key in keys]
    return table(columns, rows, label=name)


def steps_table(details: Mapping[str, Any]) -> Markup:
    """Return the duration of each step of each launch; "" if the result has none."""
    launches = details.get("steps")
    if not isinstance(launches, list) or not all(isinstance(item, list) for item in launches):
        return Markup()
    taken = [
        {f"{step['name']}_s": step["end_s"] - step["start_s"] for step in steps}
        for steps in launches
    ]
    return launch_table({"steps of a launch": taken}, "steps of a launch")


def compile_stack(result: ResultSummary) -> str:
    """Return the compile time of each launch as bars of one scale; "" without any."""
    bars = []
    # Another runtime has no cache: every launch exports and loads anew.
    is_exported = bool(result.details.get("runtime"))
    for number, item in enumerate(launches_of(result.details, "compile"), start=1):
        phases = item.get("phases_s")
        whole_s = item.get("compile_s")
        if not isinstance(phases, Mapping) or not isinstance(whole_s, int | float):
            continue
        names = [name for name in _PHASES if name in phases]
        names += [name for name in phases if name not in names]
        parts = [Part(name=name, size=max(0.0, float(phases[name]))) for name in names]
        state = "export" if is_exported else item.get("state", "compile")
        bars.append(
            Bar(
                name=f"{state} (launch {number})",
                parts=_with_rest(parts, whole=float(whole_s)),
            )
        )
    return stack(bars, unit="s", label="compile time by phase") if bars else ""


def training_stack(result: ResultSummary) -> str:
    """Return the parts of one training step; "" if they were not measured."""
    names = ("data", "forward", "backward", "optimizer")
    measured = {name: result.measurements.get(f"{name}_s") for name in names}
    parts = [Part(name=name, size=item.median) for name, item in measured.items() if item]
    if not parts:
        return ""
    breakdown = result.details.get("breakdown")
    whole = breakdown.get("step_s") if isinstance(breakdown, Mapping) else None
    size = float(whole) if isinstance(whole, int | float) else 0.0
    bar = Bar(name="training step", parts=_with_rest(parts, whole=size))
    return stack([bar], unit="s", label="parts of a training step")


def _with_rest(parts: Sequence[Part], *, whole: float) -> tuple[Part, ...]:
    rest = whole - sum(part.size for part in parts)
    if rest <= _VISIBLE_SHARE * whole:
        return tuple(parts)
    return (*parts, Part(name="rest", size=rest))


def _flat(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return `item` with the entries of nested mappings moved up to its own."""
    flat: dict[str, Any] = {}
    for key, value in item.items():
        if isinstance(value, Mapping):
            suffix = next((end for end, _ in _UNITS if key.endswith(end)), "")
            flat |= {f"{name}{suffix}": inner for name, inner in value.items()}
        else:
            flat[str(key)] = value
    return flat


def _has_value(value: Any) -> bool:
    if isinstance(value, list):
        return any(_has_value(item) for item in value)
    return value is not None and value != ""


def _unit(key: str) -> tuple[str, str]:
    """Return the words of `key` without its unit, and the unit."""
    end, unit = next(((end, unit) for end, unit in _UNITS if key.endswith(end)), ("", "1"))
    return key.removesuffix(end).replace("_", " "), unit


def _numbers(values: Sequence[Any]) -> list[float]:
    flat = [item for value in values for item in (value if isinstance(value, list) else [value])]
    return [
        float(item) for item in flat if isinstance(item, int | float) and not isinstance(item, bool)
    ]


def _row(key: str, values: Sequence[Any]) -> tuple[Cell, ...]:
    """Return the values of `key` of all launches, in one unit."""
    name, unit = _unit(key)
    numbers = _numbers(values)
    scale = scale_for(unit, numbers)
    label = f"{name} ({scale.unit})" if numbers and scale.unit else name
    return (Cell(text=label, title=key), *(_cell(value, scale=scale) for value in values))


def _cell(value: Any, *, scale: Scale) -> Cell:
    if not _has_value(value):
        return Cell(text="-", style="quiet")
    numbers = _numbers([value])
    if not numbers:
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        return Cell(text=text, style="prose")
    shown = ", ".join(scale.number(number) for number in numbers)
    if len(numbers) > _NUM_SHOWN_READINGS:
        limits = f"{scale.number(min(numbers))} to {scale.number(max(numbers))}"
        return Cell(text=limits, title=f"{counted(len(numbers), 'reading')}: {shown}")
    return Cell(text=shown)
