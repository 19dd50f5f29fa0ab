"""The bar of sections, the number of alerts in it, and the ways to detail pages."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from compile_hud.app import clock
from compile_hud.app.components.breadcrumbs import alert_path, case_path, case_tabs, run_path
from compile_hud.app.components.navigation import LOGO, alerts_title, in_bar
from compile_hud.app.main import VIEWS
from compile_hud.db.records.alerts import Alert
from compile_hud.db.store import Store
from compile_hud.runner.analysis.alerts.triage import set_muted
from tests.support.builders import START, make_alert, make_case
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


def test_a_store_that_cannot_be_read_leaves_the_bar_without_a_number(
    store_path: Path,
) -> None:
    store_path.write_bytes(b"no database at all" * 400)
    assert alerts_title("Alerts") == "Alerts"


def test_a_case_is_reached_through_its_model() -> None:
    case = make_case("vit", mode="reduce-overhead")
    html = case_path(case, machine="box", toolchain="nightly", last="peak memory")
    assert links_in(html) == [
        ("Models", "models?machine=box&amp;toolchain=nightly"),
        ("vit", "models?machine=box&amp;toolchain=nightly&amp;model=vit"),
        (
            "reduce-overhead",
            "series?case=vit%2Finference%2Ftiny%2Ffp32%2Freduce-overhead%2Fcpu"
            "&amp;machine=box&amp;toolchain=nightly",
        ),
    ]
    assert '<li aria-current="page">peak memory</li>' in html


@pytest.mark.parametrize("current", ["Summary", "History", "Kernels"])
def test_the_pages_of_a_case_lead_to_each_other(current: str) -> None:
    case = make_case("vit", mode="default")
    where = {"machine": "box", "toolchain": "stable"}
    html = case_tabs(case, run_id="run-3", current=current, profiled_run_id="run-2", **where)
    key = "vit%2Finference%2Ftiny%2Ffp32%2Fdefault%2Fcpu"
    addresses = {
        "Summary": f"run?run=run-3&amp;case={key}",
        "History": f"series?case={key}&amp;machine=box&amp;toolchain=stable",
        "Kernels": f"kernels?run=run-2&amp;case={key}",
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
