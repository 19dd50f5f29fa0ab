"""Unexpected addresses and values: every page shows text, none throws."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compile_hud.app.main import VIEWS
from compile_hud.app.ui import urls as state
from compile_hud.db.ingest.results import put_documents
from compile_hud.db.records.results import RunDocument
from compile_hud.db.store import Store
from tests.app.conftest import OpenPage
from tests.support.builders import (
    make_alert,
    make_case,
    make_measurement,
    make_result,
    make_run_ref,
)
from tests.support.examples import examples
from tests.support.pages.page_elements import html_of, links_of, markdown_of, text_of
from tests.support.stores import dashboard_stores
from tests.support.stores.stored_results import save_alerts

STATES = {
    "overview": state.OverviewState,
    "alerts": state.AlertsState,
    "compare": state.CompareState,
    "revisions": state.RevisionsState,
    "modes": state.ModesState,
    "models": state.ModelsState,
    "model": state.ModelState,
    "series": state.SeriesState,
    "run": state.RunPageState,
    "kernels": state.KernelsState,
    "kernel-diff": state.KernelDiffState,
    "studies": state.StudiesState,
    "runs": state.RunsState,
}
ODD_VALUES = (
    "nan",
    "-1",
    "9" * 400,
    "\u0664",
    "latest",
    "9999-12-31T23:59",
    "0001-01-01T00:00",
    "run-009",
    "alert-1",
    dashboard_stores.REGRESSED.key,
    "' OR 1=1 --",
    "\u202e\x00\ufeff",
    "../../etc/passwd",
    "<script>alert(1)</script>",
    "x" * 10_000,
)
every_view = pytest.mark.parametrize("path", [view.path for view in VIEWS])


def addresses(path: str) -> st.SearchStrategy[dict[str, str]]:
    """Return parameters of a page, some of which it does not have."""
    values = [item.name for item in dataclasses.fields(STATES[path])] if path in STATES else []
    text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    names = st.sampled_from(values) | text if values else text
    return st.dictionaries(names, st.sampled_from(ODD_VALUES) | text, max_size=4)


@every_view
@pytest.mark.usefixtures("seeded")
def test_no_address_makes_a_page_throw(path: str, open_page: OpenPage) -> None:
    @settings(
        max_examples=examples(4),
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(addresses(path))
    def shows_text(params: Mapping[str, str]) -> None:
        page = open_page(path, **params)
        assert not page.exception, params
        assert "<script" not in html_of(page)
        # A sign that turns the writing turns what follows it, too.
        assert "\u202e" not in text_of(page) + markdown_of(page)

    shows_text()


NAMES = (
    "=HYPERLINK('http://evil.example','x')",
    "![x](http://evil.example/x.png) :red[hot] $x^2$ **bold**",
    "\u202emoc.elpmaxe\u2066\u200f",
)
# What floating point has at its ends; NaN and infinities are refused before they are stored.
VALUES = (5e-324, 1.7e308)


@pytest.fixture
def hostile(store: Store) -> None:
    """Fill the store with odd names and extreme values, two nights of each, and alerts."""
    cases = [
        make_case(name, mode=mode, device="cuda") for name in NAMES for mode in ("eager", "default")
    ]
    documents = []
    for number in range(2):
        run = dashboard_stores.night(number, plan=cases)
        results = tuple(
            make_result(
                f"{run.id}-{index}",
                run=run,
                case=case,
                reason="",
                measurements=[
                    make_measurement(samples=(VALUES[(index + number) % 2],) * 3),
                    make_measurement("speedup", samples=(VALUES[index % 2],) * 3),
                    make_measurement("peak_bytes", samples=(VALUES[number % 2],)),
                    make_measurement("compile_cold_s", samples=(0.0,)),
                ],
            )
            for index, case in enumerate(cases)
        )
        documents.append(RunDocument(run=run, results=results))
    with store.write() as connection:
        put_documents(connection, documents, at=dashboard_stores.NOW)
    run_ref = make_run_ref(documents[1].run)
    alerts = [
        make_alert(
            f"odd-{index}",
            case=case,
            first_bad=run_ref,
            baseline=VALUES[0],
            candidate=VALUES[1],
            change_pct=VALUES[1],
            interval_pct=VALUES,
        )
        for index, case in enumerate(cases)
    ]
    save_alerts(store, alerts)


@every_view
@pytest.mark.usefixtures("hostile")
def test_odd_names_and_extreme_values_are_text(path: str, open_page: OpenPage) -> None:
    params = {
        "series": {"case": make_case(NAMES[1], mode="default", device="cuda").key},
        "run": {"case": make_case(NAMES[2], mode="default", device="cuda").key},
        "alerts": {"alert": "odd-3"},
    }
    page = open_page(path, **params.get(path, {}))
    assert not page.exception
    shown = text_of(page) + markdown_of(page)
    assert "\u202e" not in shown
    assert "![x](http://evil.example" not in markdown_of(page)
    assert not any("evil.example" in link and link.startswith("http") for link in links_of(page))
    assert not [word for word in ("nan", "inf", "NaN", "Infinity") if word in shown.split()]


UNDERSCORED = make_case("wide__deep__2", mode="default", shape="bs__8", device="cuda")


@pytest.mark.parametrize("path", ["alerts", "compare", "overview", "run", "runs", "series"])
def test_a_name_with_two_underscores_is_a_name(
    path: str, store: Store, open_page: OpenPage
) -> None:
    documents = []
    for number in range(2):
        run = dashboard_stores.night(number, plan=[UNDERSCORED])
        run = dataclasses.replace(run, machine="gpu__box", suite="my__suite")
        result = make_result(f"r__{number}", run=run, case=UNDERSCORED)
        documents.append(RunDocument(run=run, results=(result,)))
    with store.write() as connection:
        put_documents(connection, documents, at=dashboard_stores.NOW)
    alert = make_alert("odd__1", case=UNDERSCORED, first_bad=make_run_ref(documents[1].run))
    save_alerts(store, [alert])
    params = {
        "series": {"case": UNDERSCORED.key},
        "run": {"run": documents[1].run.id, "case": UNDERSCORED.key},
        "alerts": {"alert": "odd__1"},
        "compare": {"baseline": documents[0].run.id, "candidate": documents[1].run.id},
    }
    page = open_page(path, **params.get(path, {}))
    assert not page.exception
    assert "wide__deep__2" in text_of(page) or path == "runs"
