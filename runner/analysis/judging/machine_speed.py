"""Normalise histories of times on a CPU by the speed of the machine.

Method: each point of a time is multiplied by the ratio of two speed probes, medians both: the first
known one of the history over that of its own run (docs/explanation/measurement.md, "Machine
speed"). The choice of the common probe does not affect a change; the first one stays when nights
are added. Runs without a probe stay as they are. Assumptions: those of launch_levels.py.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Mapping

import numpy as np

from compile_hud.db.records.point_columns import PointColumns, point_columns
from compile_hud.db.records.summaries import Series
from compile_hud.runner.analysis.judging.cost_step import Track
from compile_hud.runner.analysis.stats.launch_levels import NORMALISED_TIMES, SPEED_PROBE


def normalise_by_machine_speed(siblings: Mapping[str, Track]) -> dict[str, Track]:
    """Return the tracks of one case and scope by metric, with normalised times.

    A reference case stays as it is: it shows machine drift.
    """
    is_reference = any(track.header.case.is_reference for track in siblings.values())
    return dict(siblings) if is_reference else _normalised(siblings)


def normalised_series(
    histories: Iterable[Series], *, scope: tuple[str, str], has_references: bool = False
) -> list[Series]:
    """Return the series of one scope (machine and toolchain) in `histories`, with normalised times.

    `has_references` also normalises reference cases: compared with normalised times they show other
    slowdowns of the machine.
    """
    cases: Mapping[tuple[str, str], dict[str, Track]] = defaultdict(dict)
    for series in histories:
        header = series.header
        points = point_columns(header.key, series.points).by_scope().get(scope)
        if points is not None:
            track = Track(header=header, machine=scope[0], toolchain=scope[1], points=points)
            cases[header.case.key, header.fingerprint][header.metric] = track
    bring = _normalised if has_references else normalise_by_machine_speed
    return [
        Series(header=track.header, points=track.points)
        for tracks in cases.values()
        for track in bring(tracks).values()
    ]


def common_speed_probe_s(points: PointColumns) -> float | None:
    """Return the probe to which times are normalised, given all `points` of it; None for none."""
    known = points.above_zero()
    return float(known.medians[0]) if len(known) else None


def _normalised(siblings: Mapping[str, Track]) -> dict[str, Track]:
    tracks = dict(siblings)
    common = common_speed_probe_s(tracks[SPEED_PROBE].points) if SPEED_PROBE in tracks else None
    if common is None:
        return tracks
    known = tracks[SPEED_PROBE].points.above_zero()
    for metric in NORMALISED_TIMES:
        if metric in tracks:
            points = tracks[metric].points
            factors = common / points.values_of(known)
            scaled = points.scaled(np.where(np.isnan(factors), 1.0, factors))
            tracks[metric] = dataclasses.replace(tracks[metric], points=scaled)
    return tracks
