"""Which shapes a model is swept over. Nothing here needs torch."""

from __future__ import annotations

import math

from compile_hud.models_zoo.catalog.shapes import axes_of
from compile_hud.models_zoo.catalog.spec import SizeSpec, SweepSpec

# Of the number in the configuration: texts that are padded less, and one that is longer.
SHORTER = (0.25, 0.5, 0.75)
LONGER = 1.25
# torch.compile takes a dimension of 1 for a constant, in every mode: that says nothing of a model.
LEAST = 2


def sweep_values(sweep: SweepSpec, *, size: SizeSpec) -> tuple[int, ...]:
    """Return the values of the axis that `size` is swept over, its own among them, rising.

    Empty where there are not at least two.
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
