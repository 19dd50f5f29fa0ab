"""Format stored SI numbers as text: the only module that scales units."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from compile_hud.app import clock
from compile_hud.db.records.metrics import speedup_name
from compile_hud.db.records.summaries import MeasurementSummary
from compile_hud.db.shared.text import percent_interval, signed, significant

_STEPS: dict[str, tuple[tuple[float, str], ...]] = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")),
    "B": ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")),
    # Rates of memory have powers of ten, sizes have powers of two.
    "B/s": ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s")),
    "J": ((1e3, "kJ"), (1.0, "J"), (1e-3, "mJ"), (1e-6, "uJ")),
    "W": ((1e3, "kW"), (1.0, "W"), (1e-3, "mW")),
    "FLOP": ((1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP"), (1e3, "kFLOP"), (1.0, "FLOP")),
    "FLOP/s": (
        *((1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s"), (1e3, "kFLOP/s")),
        (1.0, "FLOP/s"),
    ),
    "share": ((0.01, "%"),),
    "Hz": ((1e9, "GHz"), (1e6, "MHz"), (1.0, "Hz")),
    "samples/s": ((1e6, "M samples/s"), (1e3, "k samples/s"), (1.0, "samples/s")),
    "tokens/s": ((1e6, "M tokens/s"), (1e3, "k tokens/s"), (1.0, "tokens/s")),
}
# The smallest number of a column is at least this, in its unit; below it the digits would be zeros.
_LEAST = 1e-3
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400


@dataclass(frozen=True, slots=True)
class Scale:
    """A unit to show numbers in: shown = stored / factor."""

    factor: float
    unit: str

    def number(self, value: float) -> str:
        """Return `value` (stored unit) in this scale: counts whole, others with three digits."""
        shown = value / self.factor
        # Counts and single bytes are whole; everything else would look more exact than it is.
        if self.unit in ("", "B") and shown == int(shown):
            return f"{int(shown):,}"
        return significant(shown)

    def text(self, value: float) -> str:
        """Return `value` (stored unit) with its unit; ratios as `1.34x`."""
        if self.unit == "x":
            return f"{value / self.factor:.2f}x"
        return f"{self.number(value)} {self.unit}".rstrip()

    def estimate(self, median: float, *, low: float, high: float) -> str:
        """Return `median [low, high]` in this scale with its unit."""
        return f"{self.text(median)} {self.interval(low, high)}".rstrip()

    def interval(self, low: float, high: float) -> str:
        """Return `[low, high]` in this scale, without the unit, both bounds with as many decimals.

        Returns "" for equal bounds: those of one sample, and of a constant.
        """
        if not is_interval(low, high):
            return ""
        if self.unit == "x":
            # Two equal texts would hide the uncertainty of a ratio.
            return f"[{', '.join(self._apart(low, high, range(2, 5)))}]"
        ends = [self.number(low), self.number(high)]
        fewest, most = sorted(len(end.partition(".")[2]) for end in ends)
        # With equal decimals, the upper of two distant bounds would look more exact than it is.
        if most - fewest > 1 or any("e" in end for end in ends):
            return f"[{', '.join(ends)}]"
        alike = self._fixed(low, high, fewest)
        # Rounding up the lower bound could exclude an estimate that lies on it.
        if len(set(alike)) == 1 or float(alike[0].replace(",", "")) > low / self.factor:
            alike = self._apart(low, high, range(most, most + 3))
        return f"[{', '.join(alike)}]"

    def _apart(self, low: float, high: float, places: Sequence[int]) -> list[str]:
        """Return the bounds with the fewest decimals that show a difference, with the fewest if
        none do.
        """
        texts = [self._fixed(low, high, number) for number in places]
        return next((ends for ends in texts if ends[0] != ends[1]), texts[0])

    def _fixed(self, low: float, high: float, places: int) -> list[str]:
        # Counts have a separator of thousands here too.
        separator = "," if self.unit in ("", "B") else ""
        return [f"{value / self.factor:{separator}.{places}f}" for value in (low, high)]


def is_interval(low: float, high: float) -> bool:
    """Return whether two bounds differ by more than rounding."""
    return not math.isclose(low, high, rel_tol=1e-9)


def scale_for(unit: str, values: Iterable[float]) -> Scale:
    """Return the scale in which the median of `values` reads best; one a column or chart."""
    shown_unit = "" if unit == "1" else unit
    sizes = [abs(value) for value in values if value]
    if unit not in _STEPS or not sizes:
        return Scale(1.0, shown_unit)
    middle = statistics.median(sizes)
    steps = _STEPS[unit]
    factor, name = next((step for step in steps if middle >= step[0]), steps[-1])
    return Scale(factor, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeText:
    """The texts of a change of level, each empty without its numbers.

    `values` are the levels in one scale, `12.3 -> 14.9 ms`, `percent` the change, and `interval`
    that of the change.
    """

    values: str
    percent: str
    interval: str


def change_text(
    levels: tuple[float | None, float | None],
    *,
    unit: str,
    change_pct: float | None,
    interval_pct: tuple[float, float] | None,
) -> ChangeText:
    """Return the texts of a change from the first of `levels` to the second."""
    before, after = levels
    values = ""
    if before is not None and after is not None:
        scale = scale_for(unit, [before, after])
        first = scale.text(before) if scale.unit == "x" else scale.number(before)
        values = f"{first} -> {scale.text(after)}"
    return ChangeText(
        values=values,
        percent="" if change_pct is None else percent(change_pct),
        interval=percent_interval(interval_pct) if interval_pct else "",
    )


def column_scale(unit: str, values: Iterable[float]) -> Scale:
    """Return the scale of a column of very different numbers: that of `scale_for`, or a smaller
    one.

    The smallest number then has a digit among the first three after the point.
    """
    sizes = [abs(value) for value in values if value]
    scale = scale_for(unit, sizes)
    if unit not in _STEPS or not sizes:
        return scale
    smaller = [Scale(*step) for step in _STEPS[unit] if step[0] <= scale.factor]
    return next((item for item in smaller if min(sizes) >= _LEAST * item.factor), smaller[-1])


def roofline_text(share: float | None) -> str:
    """Return the part of the measured peak; beyond all of it, the data came from a cache."""
    if share is None:
        return "-"
    return "in cache" if share > 1 else quantity(share, "share")


def quantity(value: float, unit: str) -> str:
    """Return one stored number in the scale that suits it."""
    return scale_for(unit, [value]).text(value)


def estimate(median: float, *, low: float, high: float, unit: str) -> str:
    """Return `median [low, high]` with its unit, as in `12.3 ms [11.9, 12.8]`."""
    return scale_for(unit, [median]).estimate(median, low=low, high=high)


def microseconds(time_s: float) -> str:
    """Return a time in microseconds without the unit, `12,345.6`, so that a column adds up."""
    # Adding 0.0 turns the minus that rounding leaves before a zero into a plus.
    return f"{round(1e6 * time_s, 1) + 0.0:,.1f}"


def percent(value_pct: float) -> str:
    """Return a change with its sign and one decimal, as the terminal and messages do: `+21.3 %`."""
    return f"{signed(value_pct)} %"


def duration(seconds: float) -> str:
    """Return a duration: `45 s`, `3 min 20 s`, `2 h 05 min`, `3 d 4 h`."""
    whole = max(0, round(seconds))
    if whole < _MINUTE_S:
        return f"{whole} s"
    if whole < _HOUR_S:
        return f"{whole // _MINUTE_S} min {whole % _MINUTE_S:02d} s"
    if whole < _DAY_S:
        return f"{whole // _HOUR_S} h {whole % _HOUR_S // _MINUTE_S:02d} min"
    return f"{whole // _DAY_S} d {whole % _DAY_S // _HOUR_S} h"


def age(at: datetime, *, now: datetime) -> str:
    """Return the age of `at` in its largest unit: `just now`, `5 min ago`, `3 h ago`.

    A clock that goes ahead gives a time to come: `in 3 h`.
    """
    passed_s = (now - at) / timedelta(seconds=1)
    away_s = abs(passed_s)
    if away_s < _MINUTE_S:
        return "just now"
    if away_s < _HOUR_S:
        text = f"{away_s // _MINUTE_S:.0f} min"
    elif away_s < 2 * _DAY_S:
        text = f"{away_s // _HOUR_S:.0f} h"
    else:
        text = f"{away_s // _DAY_S:.0f} d"
    return f"{text} ago" if passed_s > 0 else f"in {text}"


def moment(at: datetime) -> str:
    """Return a point in time in UTC, `2026-01-01 02:30 UTC`.

    Tooltips, files, copied texts and messages have it.
    """
    return f"{at:%Y-%m-%d %H:%M} UTC"


def local_moment(at: datetime, zone: tzinfo | None = None) -> str:
    """Return a point in time with its offset in `zone`, `2026-01-01 03:30 UTC+1`.

    Pages have it, in the zone of the browser. An offset has no second meaning, as CST has.
    """
    local = at.astimezone(zone or clock.zone())
    return f"{local:%Y-%m-%d %H:%M} {offset_name(local)}"


def local_range(since: datetime | None, until: datetime | None) -> str:
    """Return a part of the time, `2026-01-03 01:00 UTC+1 to the newest`; None is an open end."""
    start = local_moment(since) if since else "the first run"
    return f"{start} to {local_moment(until) if until else 'the newest'}"


def offset_name(at: datetime) -> str:
    """Return the offset from UTC at a local time: `UTC`, `UTC+1`, `UTC-3:30`."""
    minutes = round((at.utcoffset() or timedelta()) / timedelta(minutes=1))
    hours, rest = divmod(abs(minutes), 60)
    sign = "-" if minutes < 0 else "+"
    return f"UTC{sign}{hours}{f':{rest:02d}' if rest else ''}" if minutes else "UTC"


def speedup_label(results: Iterable[Mapping[str, MeasurementSummary]]) -> str:
    """Return the label of speedups, with their clock if it is not the wall clock.

    `results` are the measurements of each result.
    """
    taken = (result.get("speedup") for result in results)
    return speedup_name(item.method for item in taken if item is not None)


def outcome_label(outcome: str) -> str:
    """Return the label of an outcome: `out of memory`."""
    return outcome.replace("_", " ")
