"""Where the history of a case is cut, and what its parts say. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from compile_hud.db.records.summaries import OutcomeHistory, SeriesHeader, TrendPoint

_NO_REASON = ("torch", "peaks", "packages", "model_commits")


def segments(points: Sequence[TrendPoint]) -> list[list[TrendPoint]]:
    """Return `points` cut where the environment changes."""
    found: list[list[TrendPoint]] = []
    for point in points:
        if not found or found[-1][-1].fingerprint != point.fingerprint:
            found.append([])
        found[-1].append(point)
    return found


def differences(
    before: Mapping[str, Any], *, after: Mapping[str, Any]
) -> tuple[tuple[str, str, str], ...]:
    """Return the environment facts that differ, torch's own aside: those are the revision.

    Nor the peaks, which are measured and so differ each time, nor packages and commits of models:
    no baseline starts anew with them.
    """
    names = sorted(set(before) | set(after))
    return tuple(
        (name, str(before.get(name, "")), str(after.get(name, "")))
        for name in names
        if before.get(name) != after.get(name) and not name.startswith(_NO_REASON)
    )


def newest_toolchain(points: Sequence[TrendPoint], histories: Sequence[OutcomeHistory]) -> str:
    """Return the toolchain of the newest point, else of the newest outcome, else ""."""
    if points:
        return points[-1].toolchain
    newest = max(histories, key=lambda history: history.points[-1].at, default=None)
    return newest.toolchain if newest else ""


def ending_with(header: SeriesHeader, points: Sequence[TrendPoint]) -> SeriesHeader:
    """Return `header` as if `points` were all points of its series."""
    first, last = points[0], points[-1]
    return dataclasses.replace(
        header,
        key=last.series_key,
        fingerprint=last.fingerprint,
        num_points=len(points),
        first_at=first.at,
        last_at=last.at,
        last_run_id=last.run_id,
        last_value=last.median,
    )
