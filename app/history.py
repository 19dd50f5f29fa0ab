"""Where the history of a case is cut. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from db.summaries import TrendPoint

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
