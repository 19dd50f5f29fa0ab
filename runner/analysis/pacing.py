"""Histories of times on a CPU at one pace of the machine.

Method: each point of a time is multiplied by the first known pace of the history over the pace of
its own run, medians both (docs/methodology.md, "The level of a launch"). Which pace is the common
one makes no difference to a change; the first one stays when nights are added. Runs without a pace
are left as they are.
Assumptions: those of levels.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from runner.analysis.levels import PACE, PACED_TIMES
from runner.analysis.shift import Track


def at_one_pace(siblings: Mapping[str, Track]) -> dict[str, Track]:
    """Return the tracks of one case and place by metric, times as they were at one pace.

    A reference case is left alone: it tells how the machine moved.
    """
    found = dict(siblings)
    pace = found.get(PACE)
    if pace is None or pace.header.case.is_reference:
        return found
    known = pace.points.above_zero()
    if not len(known):
        return found
    common = float(known.medians[0])
    for metric in PACED_TIMES:
        if metric in found:
            points = found[metric].points
            factors = common / points.values_of(known)
            scaled = points.scaled(np.where(np.isnan(factors), 1.0, factors))
            found[metric] = dataclasses.replace(found[metric], points=scaled)
    return found
