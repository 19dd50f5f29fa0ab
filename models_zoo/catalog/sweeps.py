"""The shapes of a sweep over a model. Nothing here needs torch."""

from __future__ import annotations

import math

from compile_hud.models_zoo.catalog.shapes import axes_of
from compile_hud.models_zoo.catalog.spec import SizeSpec, SweepSpec

# Factors of the configured number: texts with less padding, and one that is longer.
SHORTER = (0.25, 0.5, 0.75)
LONGER = 1.25
# torch.compile treats a dimension of 1 as a constant, in every mode: that shows nothing about a
# model.
LEAST = 2


def sweep_values(sweep: SweepSpec, *, size: SizeSpec) -> tuple[int, ...]:
    """Return the swept values of the axis of `size`, its own among them, ascending.

    Empty for fewer than two.
    """
    axis = next(axis for axis in axes_of(size) if axis.key == sweep.axis)
    own = size.config[axis.key]
    assert isinstance(own, int)
    unit = sweep.multiple_of
    least = unit * math.ceil(LEAST / unit)
    shorter = {unit * math.floor(part * own / unit) for part in SHORTER}
    longer = unit * math.ceil(LONGER * own / unit)
    values = {max(least, value) for value in shorter} | {own, longer}
    allowed = sorted(value for value in values if axis.allows(value, config=size.config))
    return tuple(allowed) if own >= least and len(allowed) > 1 else ()
