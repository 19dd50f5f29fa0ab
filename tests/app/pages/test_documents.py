"""docs/reference/dashboard.md agrees with the code."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from compile_hud.app.components.page_frame import POLL_S
from compile_hud.app.components.trend.legend import NOISE_TEXT
from compile_hud.app.data import store
from compile_hud.app.ui.charts import LOG_DECADES
from compile_hud.app.ui.urls import (
    DEFAULT_SERIES_METRIC,
    OVERVIEW_METRICS,
    AlertsState,
    OverviewState,
    RunPageState,
    RunsState,
    SeriesState,
)
from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG
from compile_hud.runner.analysis.stats.estimates import MAD_TO_SD, TAILS, TAILS_TO_SD

TEXT = " ".join(
    (Path(__file__).parents[3] / "docs" / "reference" / "dashboard.md").read_text().split()
)


@pytest.mark.parametrize(
    ("page", "state"),
    [
        ("overview", OverviewState),
        ("alerts", AlertsState),
        ("series", SeriesState),
        ("run", RunPageState),
        ("runs", RunsState),
    ],
)
def test_every_url_parameter_is_documented(page: str, state: type) -> None:
    cells = re.findall(rf"\| {page} \| ([^|]*) \|", TEXT)
    documented = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert documented == {item.name for item in dataclasses.fields(state)}


def test_metrics_and_defaults_are_documented() -> None:
    metrics = ", ".join(f"`{name}`" for name in OVERVIEW_METRICS)
    assert f"| {metrics} | `speedup`, or `latency_s` where that is all there is |" in TEXT
    assert f"any metric of the case | `{DEFAULT_SERIES_METRIC}` |" in TEXT


def test_numbers_are_those_of_the_code() -> None:
    assert POLL_S == 2
    assert "every two seconds" in TEXT
    assert f"for more than {store.LOCK_TIMEOUT_S:.0f} seconds" in TEXT
    assert f"+- {DEFAULT_CONFIG.noise_band_sds:.0f} robust standard deviations" in TEXT
    middle = f"the middle {100 * (TAILS[1] - TAILS[0]):.0f} %"
    assert f"the larger of {MAD_TO_SD} x the median absolute deviation" in TEXT
    assert f"and 1 / {1 / TAILS_TO_SD:.5g} of the width of {middle})" in TEXT
    assert f"span more than {LOG_DECADES} decades" in TEXT
    assert f"+- {DEFAULT_CONFIG.noise_band_sds:.0f} robust SD" in NOISE_TEXT
    assert f"from {DEFAULT_CONFIG.min_baseline_points} points on" in TEXT
    assert store.DEFAULT_URL == "duckdb:///.hud/store.duckdb"
