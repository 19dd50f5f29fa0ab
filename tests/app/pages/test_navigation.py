"""The bar of sections, the number of alerts in it, and the ways to detail pages."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from compile_hud.app import clock
from compile_hud.app.components.breadcrumbs import alert_path, case_path, case_tabs, run_path
from compile_hud.app.components.navigation import LOGO, alerts_title, in_bar, view_of_tab
from compile_hud.app.main import VIEWS
from compile_hud.db.records.alerts import Alert
from compile_hud.db.store import Store
from compile_hud.runner.analysis.alerts.triage import set_muted
from tests.support.builders import START, make_alert, make_case
from tests.support.pages.page_elements import html_of, link_buttons_of
from tests.support.stores.stored_results import save_alerts


def links_in(html: str) -> list[tuple[str, str]]:
    return [(text, href) for href, text in re.findall(r'<a href="([^"]*)">([^<]*)</a>', html)]


def test_the_bar_has_one_entry_for_each_section() -> None:
    entries = in_bar(VIEWS)
    assert [view.section for view in entries] == list(dict.fromkeys(view.section for view in VIEWS))
    assert entries[0] is VIEWS[0]
    assert len({view.path for view in VIEWS}) == len(VIEWS)


def test_a_section_has_no_tab_or_several() -> None:
    for section in {view.section for view in VIEWS}:
        views = [view for view in VIEWS if view.section == section]
        tabs = [view.tab for view in views if view.tab]
        assert len(tabs) != 1
        assert len(set(tabs)) == len(tabs)
        assert bool(tabs) is bool(views[0].tab)


@pytest.mark.parametrize(
    ("path", "tab", "other"),
    [
        ("compare", "release", "release"),
        ("compare", "Releases", "release"),
        ("modes", "runs", "compare"),
        ("compare", "runs", "compare"),
        ("compare", "", None),
        ("compare", "settings", None),
        # The tabs of a case are in its page.
        ("run", "kernels", None),
    ],
)
def test_an_address_names_a_tab_of_its_section(path: str, tab: str, other: str | None) -> None:
    (view,) = (view for view in VIEWS if view.path == path)
    named = view_of_tab(view, tab, views=VIEWS)
    assert (named.path if named else None) == other


@pytest.mark.parametrize(
    ("alerts", "title"),
    [
        ([], "Alerts"),
        ([make_alert("a"), make_alert("b", case=make_case("vit"))], "Alerts (2)"),
        # Two metrics of a case are one case, and these need no decision.
        (
            [
                make_alert("a"),
                make_alert("b", metric="speedup"),
                make_alert("c", case=make_case("t5"), state="acknowledged"),
                make_alert("d", case=make_case("vit"), verdict="improvement"),
                make_alert("muted", case=make_case("dlrm")),
                make_alert("f", case=make_case("unet"), cause_kind="machine"),
            ],
            "Alerts (1)",
        ),
    ],
)
def test_the_bar_counts_the_cases_that_need_attention(
    alerts: list[Alert], title: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "now", lambda: START + timedelta(days=1))
    save_alerts(store, alerts)
    if muted := {alert.id for alert in alerts} & {"muted"}:
        store.revise_alerts(set_muted(muted, START + timedelta(days=9)), by="ada")
    assert alerts_title("Alerts") == title


def _tabs_of_modes() -> None:
    # Runs as a script of its own, so it imports what it needs.
    import streamlit as st

    from compile_hud.app.components.navigation import draw_tabs
    from compile_hud.app.main import VIEWS

    pages = {view.path: st.Page(view.show, url_path=view.path) for view in VIEWS}
    st.navigation(list(pages.values()))
    modes = next(view for view in VIEWS if view.path == "modes")
    draw_tabs(modes, views=VIEWS, pages=pages)


def test_tabs_pass_no_filter_to_pages_that_do_not_know_it() -> None:
    from streamlit.testing.v1 import AppTest

    page = AppTest.from_function(_tabs_of_modes)
    page.query_params["machine"] = "box"
    page.query_params["toolchain"] = "nightly"
    page.run()
    assert not page.exception
    links = [item.proto for item in page.get("page_link")]
    labels = ["Runs", "Revisions", "Releases", "**Modes**", "Kernels"]
    assert [link.label for link in links] == labels
    assert [link.query_string for link in links] == [""] * 5


def test_a_store_that_cannot_be_read_leaves_the_bar_without_a_number(
    store_path: Path,
) -> None:
    store_path.write_bytes(b"no database at all" * 400)
    assert alerts_title("Alerts") == "Alerts"


def _main() -> None:
    from compile_hud.app.main import main

    main()


@pytest.mark.usefixtures("locked", "open_page")
def test_a_locked_store_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from streamlit.testing.v1 import AppTest

    def read_again() -> None:
        raise AssertionError("the page waited for the store that the bar had waited for")

    monkeypatch.setattr("compile_hud.app.main.load_newest_runs", read_again)
    page = AppTest.from_function(_main, default_timeout=30).run()
    assert not page.exception
    assert 'class="hud-empty"' in html_of(page)


def test_a_case_is_reached_through_its_model() -> None:
    case = make_case("vit", mode="reduce-overhead")
    html = case_path(case, machine="box", toolchain="nightly", last="peak memory")
    assert links_in(html) == [
        ("Models", "models?machine=box&amp;toolchain=nightly"),
        ("vit", "model?machine=box&amp;toolchain=nightly&amp;model=vit"),
        (
            "reduce-overhead",
            "series?case=vit%2Finference%2Ftiny%2Ffp32%2Freduce-overhead%2Fcpu"
            "&amp;machine=box&amp;toolchain=nightly",
        ),
    ]
    assert '<li aria-current="page">peak memory</li>' in html


@pytest.mark.parametrize("current", ["Summary", "History", "Kernels", "Accuracy"])
def test_the_pages_of_a_case_lead_to_each_other(current: str) -> None:
    case = make_case("vit", mode="default")
    where = {"machine": "box", "toolchain": "stable"}
    html = case_tabs(case, run_id="run-3", current=current, profiled_run_id="run-2", **where)
    key = "vit%2Finference%2Ftiny%2Ffp32%2Fdefault%2Fcpu"
    addresses = {
        "Summary": f"run?run=run-3&amp;case={key}",
        "History": f"series?case={key}&amp;machine=box&amp;toolchain=stable",
        "Kernels": f"kernels?run=run-2&amp;case={key}",
        "Memory": f"run?run=run-3&amp;case={key}&amp;tab=memory",
        "Compile": f"run?run=run-3&amp;case={key}&amp;tab=compile",
        "Accuracy": f"run?run=run-3&amp;case={key}&amp;tab=accuracy",
        "Findings": f"run?run=run-3&amp;case={key}&amp;tab=findings",
        "Log": f"run?run=run-3&amp;case={key}&amp;tab=log",
    }
    assert dict(links_in(html)) == {
        name: href for name, href in addresses.items() if name != current
    }
    assert f'<li aria-current="page">{current}</li>' in html
    assert "Kernels" not in case_tabs(case, run_id="run-3", current="Summary", **where)


def test_a_run_and_an_event_are_steps_of_their_own() -> None:
    assert links_in(run_path("run-7")) == [("Runs", "runs")]
    case = make_case("vit", mode="default")
    assert links_in(run_path("run-7", case=case)) == [("Runs", "runs"), ("run-7", "run?run=run-7")]
    assert links_in(alert_path("vit slower")) == [("Alerts", "alerts")]
    assert links_in(alert_path("vit slower", event=("e1", "event"))) == [
        ("Alerts", "alerts"),
        ("event", "alerts?event=e1"),
    ]
    assert "&lt;b&gt;" in alert_path("<b>")


def test_the_logo_has_its_name_for_those_who_do_not_see_it() -> None:
    text = LOGO.read_text(encoding="utf-8")
    assert 'aria-label="Compile HUD"' in text
    assert "prefers-color-scheme: dark" in text


def test_a_link_that_looks_like_a_button_opens_in_the_same_tab() -> None:
    from streamlit.testing.v1 import AppTest

    def page() -> None:
        from compile_hud.app.components.page_frame import link_button

        link_button("Kernels <of> bert", "kernels?case=a&run=b")

    shown = AppTest.from_function(page).run()
    assert link_buttons_of(shown) == {"Kernels <of> bert": "kernels?case=a&run=b"}
    assert "target=" not in html_of(shown)


def test_pages_have_no_buttons_that_open_another_tab() -> None:
    sources = LOGO.parents[1].rglob("*.py")
    # Streamlit opens the address of such a button in a new tab.
    assert [path.name for path in sources if "st.link_button" in path.read_text("utf-8")] == []
