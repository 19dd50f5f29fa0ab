"""Read the trends of the modes that the page shows."""

from __future__ import annotations

from datetime import datetime, timezone

from compile_hud.app.components.alert_rows import lets_through
from compile_hud.app.data.cache import cached_read
from compile_hud.app.data.page_records import Loaded
from compile_hud.app.data.store import StoreVersion
from compile_hud.app.ui.urls import (
    ALL_RUNS,
    CaseState,
    TrendsState,
    end_in,
    moment_in,
    parse_trends,
)
from compile_hud.db.queries.trends import TrendInputs, load_trend_inputs
from compile_hud.runner.analysis.trends.documents import trends_csv
from compile_hud.runner.analysis.trends.records import (
    DIMENSIONS,
    PASS_RATE,
    TREND_METRICS,
    ModeTrends,
)
from compile_hud.runner.analysis.trends.trends import (
    TREND_MODES,
    TrendSelection,
    range_start,
    trends_with_marks,
    until,
)

# torch.compile is younger.
_FIRST_MOMENT = datetime(2020, 1, 1, tzinfo=timezone.utc)
# With a dimension, one metric fills the page.
_FIRST_METRIC = TREND_METRICS[0]


def trends_state(params: dict[str, str]) -> tuple[TrendsState, tuple[str, ...]]:
    """Return the state of the page and a sentence for each parameter not understood."""
    return parse_trends(params, metrics=TREND_METRICS, modes=TREND_MODES, dimensions=DIMENSIONS)


def load_trends(
    state: TrendsState, *, machine: str, toolchain: str, now: datetime
) -> Loaded[ModeTrends]:
    """Return the trends that `state` selects."""
    since = moment_in(state.since)
    if since is None:
        is_all = state.range == ALL_RUNS
        since = _FIRST_MOMENT if is_all else range_start(now, num_days=int(state.range))
    metrics = (state.metric or _FIRST_METRIC,) if state.by else (state.metric,)
    return _load_trends(
        machine,
        toolchain,
        since=since,
        end=end_in(state.until),
        filters=CaseState(
            device=state.device,
            phase=state.phase,
            dtype=state.dtype,
            shape=state.shape,
            model=state.model,
        ),
        metrics=metrics if metrics[0] else TREND_METRICS,
        modes=(state.mode,) if state.mode else TREND_MODES,
        by=state.by,
    )


@cached_read
def _load_inputs(at: StoreVersion, machine: str, toolchain: str, *, since: datetime) -> TrendInputs:
    metrics = [name for name in TREND_METRICS if name != PASS_RATE]
    return load_trend_inputs(
        at.store, machine=machine, toolchain=toolchain, since=since, metrics=metrics
    )


@cached_read
def _load_trends(
    at: StoreVersion,
    machine: str,
    toolchain: str,
    *,
    since: datetime,
    end: datetime | None,
    filters: CaseState,
    metrics: tuple[str, ...],
    modes: tuple[str, ...],
    by: str,
) -> ModeTrends:
    inputs = _load_inputs.read_at(at, machine, toolchain, since=since)
    return trends_with_marks(
        inputs.history if end is None else until(inputs.history, end),
        alerts=inputs.alerts,
        remarks=inputs.annotations,
        environments=inputs.environments,
        selection=TrendSelection(
            metrics=metrics,
            modes=modes,
            by=by,
            fits=lambda case: lets_through(filters, case),
        ),
    )


def csv_of(trends: ModeTrends) -> str:
    """Return the points as a CSV file."""
    return trends_csv(trends.trends)
