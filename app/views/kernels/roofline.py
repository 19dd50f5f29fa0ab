"""Arithmetic intensity against achieved operations per second, under the measured roofs. Pure.

Roofline model: S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance
model for multicore architectures", CACM 52(4), 2009. The roofs come from no data sheet: the run
itself timed copies and matrix products (`peaks` of its environment).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compile_hud.app.ui.format import scale_for
from compile_hud.db.records.kernels import Kernel

_COPY = "copy_bytes_per_s"
_FLOPS = "_flops_per_s"
# A factor by which the axis extends beyond the points and the ridges.
_MARGIN = 2.0
# A part of the axis, left of every ridge: as wide as a label may be in a window of 800 px.
_LABEL_SHARE = 0.27
# A part of the height of the chart: as high as a line of text.
_LINE_SHARE = 0.06


@dataclass(frozen=True, slots=True, kw_only=True)
class Roof:
    """The measured limits of a device: bytes per second, and operations per second in one dtype."""

    name: str
    flops_per_s: float
    bytes_per_s: float

    @property
    def ridge(self) -> float:
        """Return the FLOP per byte from which memory no longer limits."""
        return self.flops_per_s / self.bytes_per_s

    def at(self, intensity: float) -> float:
        """Return the FLOP/s that the roof allows at an intensity in FLOP per byte."""
        return min(self.flops_per_s, intensity * self.bytes_per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoofLabel:
    """The name of a roof, or of several that look like one line, and the point where it ends."""

    text: str
    intensity: float
    flops_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """The position of a kernel: FLOP per byte and FLOP/s."""

    kernel: Kernel
    intensity: float
    flops_per_s: float


def roofs_of(environment: Mapping[str, Any]) -> tuple[Roof, ...]:
    """Return the roofs that a run measured, the lowest first; none without measured copies."""
    peaks = environment.get("peaks")
    known = peaks if isinstance(peaks, Mapping) else {}
    bytes_per_s = _number(known.get(_COPY))
    if bytes_per_s is None:
        return ()
    roofs = [
        Roof(name=str(name).removesuffix(_FLOPS), flops_per_s=rate, bytes_per_s=bytes_per_s)
        for name, value in known.items()
        if str(name).endswith(_FLOPS) and (rate := _number(value)) is not None
    ]
    return tuple(sorted(roofs, key=lambda roof: roof.flops_per_s))


def spots_of(kernels: Sequence[Kernel]) -> tuple[Spot, ...]:
    """Return the kernels whose bytes and operations are both known and above 0."""
    spots = []
    for kernel in kernels:
        rate = kernel.flops_per_s
        if kernel.num_bytes and kernel.flops and rate:
            intensity = kernel.flops / kernel.num_bytes
            spots.append(Spot(kernel=kernel, intensity=intensity, flops_per_s=rate))
    return tuple(spots)


def uncounted(kernels: Sequence[Kernel]) -> tuple[Kernel, ...]:
    """Return the kernels without a position: bytes or operations of a call are not known."""
    drawn = {id(spot.kernel) for spot in spots_of(kernels)}
    return tuple(kernel for kernel in kernels if id(kernel) not in drawn and not kernel.is_dispatch)


def span_of(spots: Sequence[Spot], *, roofs: Sequence[Roof]) -> tuple[float, float]:
    """Return the range of FLOP per byte in which roofs are drawn; it has all spots and ridges."""
    ridges = [roof.ridge for roof in roofs]
    places = [spot.intensity for spot in spots] + ridges
    begin, end = min(places) / _MARGIN, max(places) * _MARGIN
    if ridges:
        room = _LABEL_SHARE / (1 - _LABEL_SHARE)
        begin = min(begin, min(ridges) * (min(ridges) / end) ** room)
    return begin, end


def roof_labels(spots: Sequence[Spot], *, roofs: Sequence[Roof]) -> tuple[RoofLabel, ...]:
    """Return the labels of the roofs, which end where a roof turns flat: no kernel is left of that.

    Roofs that are nearer to each other than a line of text share a label, the highest first.
    """
    begin, _ = span_of(spots, roofs=roofs)
    rates = [spot.flops_per_s for spot in spots] + [roof.at(begin) for roof in roofs]
    highest = max(*rates, *(roof.flops_per_s for roof in roofs))
    line = (highest / min(rates)) ** _LINE_SHARE
    groups: list[list[Roof]] = []
    for roof in sorted(roofs, key=lambda roof: -roof.flops_per_s):
        if groups and groups[-1][-1].flops_per_s < line * roof.flops_per_s:
            groups[-1].append(roof)
        else:
            groups.append([roof])
    return tuple(map(_label, groups))


def _label(roofs: Sequence[Roof]) -> RoofLabel:
    rates = [roof.flops_per_s for roof in roofs]
    scale = scale_for("FLOP/s", rates)
    *others, last = roofs
    names = [f"{roof.name}: {scale.number(roof.flops_per_s)}" for roof in others]
    return RoofLabel(
        text=", ".join([*names, f"{last.name}: {scale.text(last.flops_per_s)}"]),
        intensity=last.ridge,
        flops_per_s=math.sqrt(rates[0] * rates[-1]),
    )


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 < value < math.inf else None
