"""Every view on a store of histories that others measured, hostile names among them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.main import VIEWS
from compile_hud.db.queries.alerts import load_alerts
from compile_hud.db.queries.latest import load_latest
from compile_hud.db.store import Store
from compile_hud.runner.detection.detect import detect
from compile_hud.runner.interop.importers.history import MissingValuePolicy
from compile_hud.runner.interop.importers.importer import HistoryImporter, ImportReport
from tests.app.conftest import OpenPage
from tests.support.pages.page_elements import (
    commands_of,
    html_of,
    links_of,
    text_of,
    texts_of,
)
from tests.support.records.v3_records import make_record, write_lines
from tests.support.stores import dashboard_stores

NAMES = (dashboard_stores.HOSTILE_NAME, "../../etc/passwd", "a\x1b[31mred\nline")
TOOLCHAIN = "imported:pytorch/pytorch@main"


def import_history(store: Store, path: Path) -> None:
    importer = HistoryImporter(
        store,
        missing_values=MissingValuePolicy(),
        format_name=None,
        now=lambda: dashboard_stores.NOW,
    )
    (report,) = importer.reports([path])
    assert isinstance(report, ImportReport)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store in which each model got slower, as somebody else measured it."""
    folder = tmp_path_factory.mktemp("history")
    store = Store(f"duckdb:///{folder}/hud.duckdb")
    records = [
        make_record("speedup", 1.5 if night < 10 else 1.2, model=name, night=night)
        for night in range(16)
        for name in NAMES
    ]
    failed = make_record("accuracy", "fail_accuracy\x1b[2J", model=NAMES[0], night=15)
    path = write_lines(folder / "history.json", [*records, failed])
    import_history(store, path)
    detect(store)
    return folder / "hud.duckdb"


@pytest.fixture
def imported(history: Path, store_path: Path, store: Store) -> Store:
    """Return the store of this test with that history in it."""
    shutil.copy(history, store_path)
    return store


# A study and a release are measured here: what others measured is none.
# These show no results of runs, or those of studies or releases alone.
WITHOUT_RUNS = ("studies", "release", "health", "receivers", "settings")


@pytest.mark.parametrize("path", [view.path for view in VIEWS if view.path not in WITHOUT_RUNS])
def test_an_imported_history_is_shown_as_one(
    path: str, imported: Store, open_page: OpenPage
) -> None:
    cell = load_latest(imported)[0]
    params = {
        "series": {"case": cell.summary.case.key, "metric": "speedup"},
        "run": {"run": cell.run_id, "case": cell.summary.case.key},
        "model": {"model": cell.summary.case.model},
        "search": {"text": cell.summary.case.model.split()[0]},
    }
    page = open_page(path, **params.get(path, {}))
    assert not page.exception
    assert TOOLCHAIN in text_of(page)
    assert "<script>" not in html_of(page)
    assert "\x1b" not in html_of(page)


@pytest.mark.nightly
def test_no_page_offers_to_measure_again_what_others_did(
    imported: Store, open_page: OpenPage, words: SnapshotAssertion
) -> None:
    key = load_latest(imported)[0].summary.case.key
    page = open_page("series", case=key, metric="speedup")
    shown = text_of(page)
    assert commands_of(page) == words
    assert "hud run" not in shown


def test_alerts_of_an_imported_history_are_never_confirmed(imported: Store) -> None:
    alerts = load_alerts(imported)
    assert {alert.toolchain for alert in alerts} == {TOOLCHAIN}
    assert {alert.is_confirmed for alert in alerts} == {None}


@pytest.mark.parametrize(
    ("records", "shown"),
    [(["abs_latency"], "latency"), (["abs_latency", "speedup"], "speedup")],
)
def test_the_overview_begins_with_latencies_without_speedups(
    tmp_path: Path, store: Store, open_page: OpenPage, records: list[str], shown: str
) -> None:
    latencies = [make_record(name, 1.5, model="bert", night=0) for name in records]
    path = write_lines(tmp_path / "latencies.json", latencies)
    import_history(store, path)
    assert f"Latest results: {shown}" in text_of(open_page("overview"))
    assert "Latest results: speedup" in text_of(open_page("overview", metric="speedup"))


def test_a_tile_of_latencies_alone_explains_the_missing_speedup(
    tmp_path: Path, store: Store, open_page: OpenPage, words: SnapshotAssertion
) -> None:
    path = write_lines(tmp_path / "latencies.json", [make_record("abs_latency", 1.5, night=0)])
    import_history(store, path)
    page = open_page("overview")
    assert texts_of(page, "card") == words


@pytest.mark.parametrize("path", ["run", "runs"])
def test_no_page_reports_how_long_an_imported_run_took(
    path: str, imported: Store, open_page: OpenPage
) -> None:
    cell = load_latest(imported)[0]
    params = {"run": {"run": cell.run_id, "case": cell.summary.case.key}}
    assert not re.search(r"\b0 s\b", text_of(open_page(path, **params.get(path, {}))))


@pytest.mark.parametrize("path", ["series", "alerts"])
def test_no_page_leads_to_kernels_of_what_others_measured(
    path: str, imported: Store, open_page: OpenPage
) -> None:
    alert = next(alert for alert in load_alerts(imported) if alert.metric == "speedup")
    params = {
        "series": {"case": alert.case.key, "metric": alert.metric},
        "alerts": {"alert": alert.id},
    }
    links = " ".join(links_of(open_page(path, **params[path])))
    assert f"run?run={alert.first_bad.run_id}" in links
    assert "kernels?run=" not in links
