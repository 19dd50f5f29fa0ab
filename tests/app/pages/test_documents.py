"""docs/reference/dashboard.md agrees with the code."""

from __future__ import annotations

import dataclasses
import re

import pytest

from compile_hud.app.components.trend.legend import NOISE_TEXT
from compile_hud.app.main import VIEWS
from compile_hud.app.ui import urls
from compile_hud.db.records.metrics import CACHES
from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG
from compile_hud.runner.analysis.trends.records import DIMENSIONS
from tests.support.sources import text_of

TEXT = text_of("docs/reference/dashboard.md")
STATES = {
    "overview": urls.OverviewState,
    "trends": urls.TrendsState,
    "modes": urls.ModesState,
    "models": urls.ModelsState,
    "model": urls.ModelState,
    "alerts": urls.AlertsState,
    "series": urls.SeriesState,
    "run": urls.RunPageState,
    "runs": urls.RunsState,
    "kernels": urls.KernelsState,
    "kernel-diff": urls.KernelDiffState,
    "search": urls.SearchState,
    "compare": urls.CompareState,
    "revisions": urls.RevisionsState,
    "release": urls.ReleaseState,
    "studies": urls.StudiesState,
    "health": urls.HealthState,
    "receivers": urls.ReceiversState,
    "settings": urls.SettingsState,
}


def cells(page: str) -> dict[str, tuple[str, str]]:
    """Return value and default of each parameter that the table of URLs has for a page."""
    rows = re.findall(
        r"^\| ([a-z-]+(?:, [a-z-]+)*) \| (`[^|]*) \| ([^|]*) \| ([^|]*) \|", TEXT, re.M
    )
    return {
        name: (value, default)
        for pages, names, value, default in rows
        if page in pages.split(", ")
        for name in re.findall(r"`(\w+)`", names)
    }


def test_each_page_has_a_section_or_is_named_in_one() -> None:
    text = TEXT.lower()
    unnamed = {
        view.path
        for view in VIEWS
        if f"\n### {view.path.replace('-', ' ')}\n" not in text and f"(`/{view.path}`)" not in text
    }
    # The heading is the plural; the search has no section.
    assert unnamed == {"release"}
    assert "\n### Releases\n" in TEXT


@pytest.mark.parametrize("page", [view.path for view in VIEWS])
def test_every_url_parameter_is_documented(page: str) -> None:
    assert set(cells(page)) == {item.name for item in dataclasses.fields(STATES[page])}


@pytest.mark.parametrize("page", [view.path for view in VIEWS])
def test_values_of_a_url_parameter_are_those_of_the_code(page: str) -> None:
    expected = {
        "range": urls.RANGES,
        "tab": urls.CASE_TABS,
        "heat": urls.MATRIX_HEATS,
        "only": urls.MATRIX_FILTERS,
        "trend": urls.OVERVIEW_TRENDS,
        "scale": urls.SCALES,
        "cache": CACHES,
        "by": DIMENSIONS,
    }
    documented = cells(page)
    for name in expected.keys() & documented.keys():
        assert tuple(re.findall(r"`(\w+)`", documented[name][0])) == expected[name], name


@pytest.mark.parametrize("page", [view.path for view in VIEWS])
def test_default_of_a_url_parameter_is_that_of_the_code(page: str) -> None:
    state = STATES[page]
    for item in dataclasses.fields(state):
        default = cells(page)[item.name][1]
        if item.default:
            assert f"`{item.default}`" in default, item.name


def test_metrics_of_the_overview_are_documented() -> None:
    metrics = ", ".join(f"`{name}`" for name in urls.OVERVIEW_METRICS)
    assert cells("overview")["metric"] == (metrics, "`speedup`, else `latency_s`")


def test_the_legend_of_a_trend_has_the_noise_band_of_the_detector() -> None:
    assert f"+- {DEFAULT_CONFIG.noise_band_sds:.0f} robust SD" in NOISE_TEXT
