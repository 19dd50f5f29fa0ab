"""The trends of the modes on one machine, and as a JSON object."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from compile_hud.db.queries.trends import load_trend_inputs
from compile_hud.db.store import Store
from compile_hud.runner.analysis.trends.documents import trends_json
from compile_hud.runner.analysis.trends.records import (
    DIMENSIONS,
    PASS_RATE,
    TREND_METRICS,
    ModeTrends,
)
from compile_hud.runner.analysis.trends.trends import (
    TREND_MODES,
    TrendSelection,
    trends_with_marks,
    until,
)
from compile_hud.runner.documents.filtered.scope import fits, selected_scope, suggestion
from compile_hud.runner.errors import NoSuchResult


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendFilters:
    """The range, the trends and the cases; None or empty for those that were left out."""

    since: datetime
    until: datetime | None
    metrics: tuple[str, ...]
    modes: tuple[str, ...]
    by: str | None
    machine: str | None
    toolchain: str | None
    model: str | None
    family: str | None
    phase: str | None
    shape: str | None
    dtype: str | None
    device: str | None

    def patterns(self) -> dict[str, str]:
        """Return the globs of cases by the field of a case."""
        patterns = {name: getattr(self, name) for name in (*DIMENSIONS, "shape")}
        return {name: pattern for name, pattern in patterns.items() if pattern is not None}


def load_trends(store: Store, filters: TrendFilters) -> ModeTrends:
    """Return the trends that `filters` select; raise NoSuchResult for none."""
    machine, toolchain = selected_scope(store, machine=filters.machine, toolchain=filters.toolchain)
    metrics, since, end = filters.metrics or TREND_METRICS, filters.since, filters.until
    inputs = load_trend_inputs(
        store,
        machine=machine,
        toolchain=toolchain,
        since=since,
        metrics=[name for name in metrics if name != PASS_RATE],
    )
    shown = trends_with_marks(
        inputs.history if end is None else until(inputs.history, end),
        alerts=inputs.alerts,
        remarks=inputs.annotations,
        environments=inputs.environments,
        selection=TrendSelection(
            metrics=metrics,
            modes=filters.modes or TREND_MODES,
            by=filters.by or "",
            fits=partial(fits, patterns=filters.patterns()),
        ),
    )
    if not shown.trends:
        hint = suggestion(filters.patterns(), cases=inputs.history.cases)
        range_end = f" until {end:%Y-%m-%d %H:%M}" if end else ""
        raise NoSuchResult(
            f"no result of a mode of torch.compile on {machine} (toolchain {toolchain}) since"
            f" {since:%Y-%m-%d}{range_end} fits these filters. `hud runs` lists the runs{hint}",
            machine=machine,
            toolchain=toolchain,
            since=since,
        )
    return shown


def trends_document(trends: ModeTrends, filters: TrendFilters) -> dict[str, Any]:
    """Return the trends with their range as a JSON object."""
    return {
        "since": filters.since.isoformat(),
        "until": None if filters.until is None else filters.until.isoformat(),
        **trends_json(trends),
    }
