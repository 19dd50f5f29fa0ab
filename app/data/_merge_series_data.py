"""What the page of a series reads besides the series: single samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compile_hud.app.components.trend.window import with_samples
from compile_hud.app.data import store as data
from compile_hud.app.data.page_records import SeriesPage
from compile_hud.db.queries.results import load_samples_of
from compile_hud.db.records.summaries import Sample


def load_raw(page: SeriesPage, *, metric: str) -> Mapping[str, tuple[Sample, ...]]:
    """Return the samples of those points of `page` that have them drawn, by result."""
    ids = [point.result_id for point in with_samples(page)]
    where = (page.case.key, metric, page.machine, page.toolchain, *ids[:1], *ids[-1:])
    return data.loaded(_read_raw, *where, _ids=ids, _metric=metric).value


def _read_raw(
    url: str,
    generation: int,  # noqa: ARG001
    *_where: str,
    _ids: Sequence[str],
    _metric: str,
) -> dict[str, tuple[Sample, ...]]:
    return load_samples_of(data.open_store(url), _ids, _metric)
