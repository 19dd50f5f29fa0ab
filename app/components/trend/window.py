"""The part of a long series that is drawn, and the choice of its points. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from datetime import datetime

from compile_hud.app.data.page_records import SeriesPage
from compile_hud.db.records.alerts import DRIFT, Alert, began

# A wide screen has room for so many hollow dots; more hide one another, and take longer.
MAX_POINTS = 120


def part_of(page: SeriesPage, *, since: datetime | None, until: datetime | None) -> SeriesPage:
    """Return `page` cut to the time between two moments; None leaves that bound open."""
    if since is None and until is None:
        return page

    def is_inside(at: datetime) -> bool:
        return (since is None or at >= since) and (until is None or at <= until)

    return dataclasses.replace(
        page,
        points=tuple(point for point in page.points if is_inside(point.at)),
        normalised=tuple(point for point in page.normalised if is_inside(point.at)),
        bands=tuple(
            dataclasses.replace(
                band,
                start=max(band.start, since or band.start),
                end=min(band.end, until or band.end),
            )
            for band in page.bands
            if (until is None or band.start <= until) and (since is None or band.end >= since)
        ),
        outcomes=tuple(point for point in page.outcomes if is_inside(point.at)),
        environment_changes=tuple(
            change for change in page.environment_changes if is_inside(change.at)
        ),
        alerts=tuple(
            alert
            for alert in page.alerts
            if is_inside(alert.first_bad.at) or _drifts(alert, since=since, until=until)
        ),
        annotations=tuple(item for item in page.annotations if is_inside(item.at)),
    )


def _drifts(alert: Alert, *, since: datetime | None, until: datetime | None) -> bool:
    """Return whether `alert` is a drift that overlaps the time between two moments."""
    is_before_end = until is None or began(alert).at <= until
    is_after_start = since is None or alert.last_seen >= since
    return alert.kind == DRIFT and is_before_end and is_after_start


def thinned_indices(
    values: Sequence[float], *, always: Collection[int], limit: int = MAX_POINTS
) -> list[int]:
    """Return the indices of the `values` to draw: all, if there are at most `limit`.

    Else it cuts the values into limit / 2 stretches of equal length. It returns the minimum and the
    maximum of each, the first and the last value, and all of `always`. Every outlier and every
    change stays.
    """
    if len(values) <= limit:
        return list(range(len(values)))
    indices = {0, len(values) - 1, *always}
    num_stretches = max(1, limit // 2)
    edges = [len(values) * number // num_stretches for number in range(num_stretches + 1)]
    for start, end in zip(edges, edges[1:], strict=False):
        stretch = range(start, end)
        indices.add(min(stretch, key=values.__getitem__))
        indices.add(max(stretch, key=values.__getitem__))
    return sorted(indices)
