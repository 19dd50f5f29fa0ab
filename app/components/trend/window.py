"""Which part of a long series is drawn, and which of its points. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from datetime import datetime

from compile_hud.app.data.page_records import SeriesPage
from compile_hud.db.records.alerts import DRIFT, Alert, began

# As many hollow dots as lie beside each other on a wide screen; more hide one another, and take
# longer.
MAX_POINTS = 120


def part_of(page: SeriesPage, *, since: datetime | None, until: datetime | None) -> SeriesPage:
    """Return `page` with what lies between two moments alone; None leaves that end open."""
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
    """Return whether `alert` is a drift of which some lies between two moments."""
    is_before_end = until is None or began(alert).at <= until
    is_after_start = since is None or alert.last_seen >= since
    return alert.kind == DRIFT and is_before_end and is_after_start


def thinned_indices(
    values: Sequence[float], *, always: Collection[int], limit: int = MAX_POINTS
) -> list[int]:
    """Return which of `values` are drawn, by their places: all, where there are at most `limit`.

    Else the least and the largest of each of limit / 2 stretches of equal length, the first and the
    last of all, and what is to be there `always`: no outlier and no change is lost.
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
