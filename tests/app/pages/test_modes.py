"""The page of modes: the recommendation, the front, break-even model by model."""

from __future__ import annotations

import dataclasses
import json
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.data.cache import read_cache
from compile_hud.db.ingest.results import put_documents
from compile_hud.db.jobs.health import SchedulerState, save_scheduler
from compile_hud.db.records.results import RunDocument
from compile_hud.db.store import Store
from compile_hud.runner.cli.main import main
from tests.app.conftest import OpenPage
from tests.support.builders import make_case, make_measurement, make_result, make_run
from tests.support.pages.page_elements import (
    cells_of_rows,
    links_of,
    text_of,
    texts_of,
    texts_of_rows,
)
from tests.support.stores import dashboard_stores
from tests.support.stores.mode_stores import fill_modes

DEFAULT = "default"

GROUPS = "answers by group"
MODES = "modes over the common cohort"
MODELS = "speedup and break-even by model"


@pytest.mark.usefixtures("seeded")
def test_the_page_answers_first_and_shows_the_cohort(
    open_page: OpenPage, words: SnapshotAssertion
) -> None:
    page = open_page("modes")
    assert not page.exception
    assert texts_of(page, "notice") == words
    assert texts_of(page, "h1")[0].startswith("Ship max-autotune")
    rows = texts_of_rows(page, MODES)
    assert [row[0] for row in rows][:2] == ["max-autotune", "reduce-overhead"]
    assert rows[0][2:4] == ["31.5 s", "1.00x"]
    assert rows[0][5] == "3 of 4 3 ok"
    # All compile as long, so that all others are off the front.
    assert rows[0][6] == "yes"
    assert all(row[6].startswith("no: ") and "max-autotune" in row[6] for row in rows[1:])
    assert not page.get("expander")
    assert texts_of_rows(page, GROUPS) == []


@pytest.mark.usefixtures("seeded")
def test_every_model_has_its_break_even_and_leads_to_its_series(open_page: OpenPage) -> None:
    page = open_page("modes")
    rows = {row["model"]: row for row in cells_of_rows(page, MODELS)}
    assert rows["unet"]["best"] == "reduce-overhead"
    assert (rows["unet"]["max-autotune"], rows["unet"]["notes"]) == ("-", "max-autotune: failed")
    # 31.5 s over 12.3 ms x (1 - 1 / 2.05), give or take the night.
    assert (rows["bert"]["max-autotune"], rows["bert"]["break-even"]) == ("2.05x", "5,000")
    assert rows["llama"]["notes"] == f"reduce-overhead: fell back to {DEFAULT}"
    assert any(link.startswith("series?case=bert%2F") for link in links_of(page))
    assert any(link.startswith("run?run=run-015&case=unet%2F") for link in links_of(page))


def test_several_groups_have_an_overview_and_one_is_open(
    open_page: OpenPage, store: Store, words: SnapshotAssertion
) -> None:
    fill_modes(store)
    page = open_page("modes")
    assert texts_of_rows(page, GROUPS) == words
    assert texts_of(page, "h1", "h2") == words
    opened = open_page("modes", group="training/small/fp32/cpu")
    assert texts_of(opened, "h2")[0].startswith("training, small")


def test_a_group_that_no_result_has_is_named(open_page: OpenPage, store: Store) -> None:
    fill_modes(store)
    page = open_page("modes", group="inference/huge/fp32/cuda")
    assert any("inference/huge/fp32/cuda" in text for text in texts_of(page, "notice"))
    opened = open_page("modes", group="training/small/fp32/cpu")
    assert not any("group" in text for text in texts_of(opened, "notice"))


def test_the_expected_calls_are_a_field_and_in_the_url(open_page: OpenPage, store: Store) -> None:
    fill_modes(store)
    page = open_page("modes", shape="small", phase="inference", calls="4000")
    field = page.number_input(key="choice-calls")
    assert field.value == 4000
    assert texts_of(page, "h1")[0].startswith("Ship default for 4,000")
    field.set_value(900).run()
    assert page.query_params["calls"] == "900"
    assert texts_of(page, "h1")[0].startswith("No mode")
    page.number_input(key="choice-calls").set_value(None).run()
    assert "calls" not in page.query_params
    assert texts_of(page, "h1")[0].startswith("Ship max-autotune")


@pytest.mark.parametrize("calls", ["", "900", "4000", "1000000"])
@pytest.mark.parametrize("cache", ["cold", "warm"])
def test_page_and_command_give_the_same_answers(
    open_page: OpenPage, store: Store, store_path: Path, calls: str, cache: str
) -> None:
    fill_modes(store)
    options = ["--calls", calls] if calls else []
    command = ["modes", "--json", "--store", str(store_path), "--cache", cache, *options]
    printed = CliRunner().invoke(main, command)
    document = json.loads(printed.stdout)
    params = {"calls": calls} if calls else {}
    page = open_page("modes", cache=cache, **params)
    text = text_of(page)
    assert texts_of(page, "h1") == [document["title"]]
    assert len(document["groups"]) == 3
    for group in document["groups"]:
        label = f"{group['phase']}, {group['shape']}"
        assert f"{label}: {group['title']}" in text.replace("\N{NO-BREAK SPACE}", " ")
        assert " ".join(group["sentences"]) in text
    printed_text = CliRunner().invoke(main, [item for item in command if item != "--json"]).stdout
    for group in document["groups"]:
        assert group["title"] in printed_text
        assert all(sentence in printed_text for sentence in group["sentences"])


def test_a_store_of_eager_only_has_no_mode_to_compare(
    open_page: OpenPage, store: Store, words: SnapshotAssertion
) -> None:
    case = make_case(mode="eager")
    run = make_run(plan=[case])
    result = make_result(run=run, case=case, measurements=[make_measurement()])
    with store.write() as connection:
        put_documents(connection, [RunDocument(run=run, results=(result,))], at=run.started_at)
    page = open_page("modes")
    assert not page.exception
    assert texts_of(page, "empty") == words


@pytest.mark.usefixtures("seeded")
def test_the_cache_is_in_the_url(open_page: OpenPage, words: SnapshotAssertion) -> None:
    page = open_page("modes", cache="warm")
    assert texts_of(page, "notice") == words
    page.selectbox(key="choice-cache").select("cold").run()
    assert "cache" not in page.query_params
    assert texts_of(page, "notice") == words


def test_a_store_without_compile_times_reports_what_is_missing(
    open_page: OpenPage, store: Store, words: SnapshotAssertion
) -> None:
    dashboard_stores.fill_two_toolchains(store)
    page = open_page("modes")
    text = text_of(page)
    assert texts_of(page, "h1") == words
    assert "no compile time" in text


@pytest.mark.usefixtures("seeded")
def test_a_silent_scheduler_is_the_first_notice(
    open_page: OpenPage, seeded: Path, words: SnapshotAssertion
) -> None:
    store = Store(f"duckdb:///{seeded}")
    assert "has been silent" not in text_of(open_page("modes"))
    state = SchedulerState(
        machine="box",
        process="host/1/1",
        version="0",
        started_at=dashboard_stores.NOW - timedelta(days=2),
        heartbeat_at=dashboard_stores.NOW - timedelta(hours=5),
    )
    save_scheduler(store, state)
    read_cache().clear()
    page = open_page("modes")
    assert texts_of(page, "notice") == words
    save_scheduler(store, dataclasses.replace(state, heartbeat_at=dashboard_stores.NOW))
    read_cache().clear()
    assert "has been silent" not in text_of(open_page("modes"))
