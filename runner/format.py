"""Numbers and outcomes as people read them in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from compile_hud.db.records.results import CaseResult, Measurement
from compile_hud.db.shared.text import counted, plural, signed, significant

_BARS = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
# A series that rises by less than its own noise must not look like a cliff.
_LEAST_RANGE = 0.05
_SI_PREFIXES = ((1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n"))
_LARGE_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
# A number from here on has no decimals.
_WHOLE = 999.5
# Units that reach from small to large numbers, with the prefixes they take.
_PREFIXES = {
    "s": _SI_PREFIXES,
    "J": (*_LARGE_PREFIXES, *_SI_PREFIXES[1:]),
    "W": (*_LARGE_PREFIXES, *_SI_PREFIXES[1:]),
    "FLOP": _LARGE_PREFIXES,
    "FLOP/s": _LARGE_PREFIXES,
    "B/s": _LARGE_PREFIXES,
    # These are words: `3.83 k samples/s`.
    "samples/s": tuple((scale, f"{prefix} ".lstrip()) for scale, prefix in _LARGE_PREFIXES),
    "tokens/s": tuple((scale, f"{prefix} ".lstrip()) for scale, prefix in _LARGE_PREFIXES),
}


def quantity(value: float | None, *, unit: str) -> str:
    """Return `value` with three significant digits in a unit of fitting size; `-` for None."""
    if value is None:
        return "-"
    if unit in _PREFIXES:
        return _prefixed(value, unit)
    if unit == "B":
        return _bytes(value)
    if unit == "x":
        return f"{value:.2f}x"
    if unit == "share":
        return f"{significant(100 * value)} %"
    if unit == "calls":
        return f"{value:,.0f} {plural(round(value), 'call')}"
    # Rounded to three digits, 999.7 would be in exponents.
    number = f"{value:,.0f}" if abs(value) >= _WHOLE else f"{value:.3g}"
    return number if unit == "1" else f"{number} {unit}"


def _prefixed(value: float, unit: str) -> str:
    prefixes = _PREFIXES[unit]
    scale, prefix = next((step for step in prefixes if abs(value) >= step[0]), prefixes[-1])
    return f"{significant(value / scale)} {prefix}{unit}"


def _bytes(value: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024 or unit == "GiB":
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("unreachable")


def percent(value: float | None) -> str:
    """Return a change in per cent with its sign; `-` for None."""
    return "-" if value is None else f"{signed(value)} %"


def levels(baseline: float | None, candidate: float | None, *, unit: str) -> str:
    """Return a change of level as `0 -> 3`; empty if a level is missing."""
    if baseline is None or candidate is None:
        return ""
    return f"{quantity(baseline, unit=unit)} -> {quantity(candidate, unit=unit)}"


def clock(seconds: float) -> str:
    """Return a duration as `m:ss`, or `h:mm:ss` from an hour on."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def rough_duration(seconds: float) -> str:
    """Return a duration in words, as exact as an estimate is: `20 seconds`, `6 minutes`."""
    tens = 10 * round(seconds / 600)
    if seconds < 57.5:
        return counted(max(5, 5 * round(seconds / 5)), "second")
    if seconds < 3600:
        return counted(round(seconds / 60), "minute")
    if tens < 600:
        hours, minutes = divmod(tens, 60)
        return counted(hours, "hour") + (f" {counted(minutes, 'minute')}" if minutes else "")
    return counted(round(seconds / 3600), "hour")


def metric(result: CaseResult, name: str) -> str:
    """Return the median of a metric of `result`; `-` when it has none."""
    measurement = result.measurement(name)
    return "-" if measurement is None else quantity(measurement.median, unit=measurement.unit)


def interval_text(measurement: Measurement | None) -> str:
    """Return the 95 % interval of `measurement`; `-` when there is none."""
    # A single sample has no interval, but a derived metric may have one.
    if measurement is None or (
        len(measurement.samples) == 1 and measurement.interval[0] == measurement.interval[1]
    ):
        return "-"
    low, high = (quantity(end, unit=measurement.unit) for end in measurement.interval)
    return f"[{low}, {high}]"


def mode_text(result: CaseResult) -> str:
    """Return the variant, with the effective mode if that differs."""
    case = result.case
    if result.effective_mode in ("", case.mode):
        return case.variant
    return f"{case.variant} (fell back to {result.effective_mode})"


def distinct(names: Sequence[str]) -> list[str]:
    """Return `names`; a repeated one gets a number: `a`, `b`, `a 2`."""
    counts: dict[str, int] = {}
    labels = []
    for name in names:
        counts[name] = counts.get(name, 0) + 1
        labels.append(name if counts[name] == 1 else f"{name} {counts[name]}")
    return labels


def sparkline(
    values: Sequence[float],
    *,
    least_range: float = _LEAST_RANGE,
    bounds: tuple[float, float] | None = None,
) -> str:
    """Return a bar for each value, between the least and the most; empty below two values.

    A relative difference below `least_range` does not fill the height. `bounds` replace the least
    and the most.
    """
    if len(values) < 2:
        return ""
    low, high = bounds or (min(values), max(values))
    span = max(high - low, least_range * abs(high)) or 1.0
    return "".join(_BARS[round((value - low) / span * (len(_BARS) - 1))] for value in values)
