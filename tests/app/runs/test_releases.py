"""The page of releases: the answer, its clusters, links to each case, and none yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.ui.urls import run_url
from compile_hud.db.ingest.results import put_documents
from compile_hud.db.records.results import CaseResult, Outcome, Phase, Run, RunDocument
from compile_hud.db.store import Store
from compile_hud.runner.analysis.release.report import DocumentPair, release_report
from compile_hud.runner.analysis.release.runs import ReleaseRules
from tests.app.conftest import OpenPage
from tests.support.builders import START, make_case, make_measurement, make_result, make_run
from tests.support.pages.page_elements import (
    commands_of,
    html_of,
    links_of,
    text_of,
    texts_of_rows,
)
from tests.support.stores import dashboard_stores

HOSTILE = "<b>next</b>"
MODELS = ("bert", "gpt2", "vit", "resnet")
PHASES = (Phase.INFERENCE, Phase.TRAINING)
# Training of two families is slower under the candidate.
SLOWER, BROKEN = ("vit", "resnet"), "gpt2"


def side(
    toolchain: str,
    *,
    day: int = 0,
    is_candidate: bool = False,
    models: Sequence[str] = MODELS,
    machine: str = "box",
) -> RunDocument:
    """Return one side of a release with launches in turn."""
    cases = [
        make_case(model, family=model, phase=phase, mode="default", device="cuda")
        for model in models
        for phase in PHASES
    ]
    started_at = START + timedelta(days=day, minutes=is_candidate)
    run = make_run(
        f"{day}-{is_candidate:d}" if machine == "box" else f"{machine}-{is_candidate:d}",
        machine=machine,
        plan=cases,
        toolchain=toolchain,
        environment={"torch_version": toolchain, "torch_git": f"{is_candidate:d}" * 40},
        started_at=started_at,
        finished_at=started_at + timedelta(hours=1),
    )
    run = replace(
        run,
        trigger=ReleaseRules(baseline="stable", candidate=HOSTILE).trigger,
        revision=f"r{is_candidate:d}",
    )
    generator = np.random.default_rng(is_candidate)
    results = [result(run, index, generator=generator) for index in range(len(cases))]
    return RunDocument(run=run, results=tuple(results))


def result(run: Run, index: int, *, generator: np.random.Generator) -> CaseResult:
    case = run.plan[index]
    is_candidate = run.id.endswith("-1")
    if is_candidate and case.model == BROKEN and case.phase is Phase.INFERENCE:
        return make_result(
            f"{run.id}-{index}",
            run=run,
            case=case,
            outcome=Outcome.FAILED,
            reason="<i>it broke</i>",
        )
    is_slower = is_candidate and case.model in SLOWER and case.phase is Phase.TRAINING
    samples = 0.01 * (1.2 if is_slower else 1.0) * np.exp(generator.normal(0, 0.002, 8))
    measurement = make_measurement(samples=samples.tolist(), launches=(1,) * 8)
    return make_result(f"{run.id}-{index}", run=run, case=case, measurements=[measurement])


@pytest.fixture
def released(store: Store) -> Store:
    documents = [side("stable"), side(HOSTILE, is_candidate=True)]
    with store.write() as connection:
        put_documents(connection, documents, at=dashboard_stores.NOW)
    return store


def test_a_store_without_a_release_says_how_to_measure_one(open_page: OpenPage) -> None:
    page = open_page("release")
    assert any(command.startswith("hud release") for command in commands_of(page))


@pytest.mark.usefixtures("released")
def test_the_answer_and_each_cluster_are_on_the_page(
    open_page: OpenPage, words: SnapshotAssertion
) -> None:
    page = open_page("release")
    assert not page.exception
    text = text_of(page)
    assert text == words
    assert "Do not ship: 3 regressions" in text
    links = links_of(page)
    assert run_url("0-1") in links
    assert any(link.startswith("https://github.com/pytorch/pytorch/compare/") for link in links)
    assert sum(link.startswith("run?run=0-1&case=") for link in links) == 3


@pytest.mark.usefixtures("released")
def test_names_and_reasons_are_no_markup(open_page: OpenPage) -> None:
    page = open_page("release")
    html = html_of(page)
    assert "<b>next" not in html
    assert "<i>it broke" not in html


@pytest.mark.usefixtures("released")
def test_an_unknown_run_is_named_and_the_newest_release_offered(open_page: OpenPage) -> None:
    page = open_page("release", run="nope")
    assert "No such release" in text_of(page)
    assert "nope" in text_of(page)


def test_a_report_is_made_once_while_other_runs_are_stored(
    released: Store, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def counting(pairs: Sequence[DocumentPair]) -> object:
        made.extend(pair.candidate.run.id for pair in pairs)
        return release_report(pairs)

    monkeypatch.setattr("compile_hud.app.views.releases.data.release_report", counting)
    open_page("release")
    with released.write() as connection:
        other = make_run("other", plan=[make_case()])
        put_documents(connection, [RunDocument(run=other, results=())], at=dashboard_stores.NOW)
    open_page("release")
    assert made == ["0-1"]


def test_the_newest_of_several_releases_comes_first(released: Store, open_page: OpenPage) -> None:
    documents = [side("stable", day=1), side(HOSTILE, day=1, is_candidate=True)]
    with released.write() as connection:
        put_documents(connection, documents, at=dashboard_stores.NOW)
    page = open_page("release")
    assert run_url("1-1") in links_of(page)
    older = open_page("release", run="0-1")
    assert run_url("0-1") in links_of(older)
    rows = texts_of_rows(older, "environment changes")
    assert rows[0][0] == "torch"


def test_machines_that_share_a_release_have_one_report(
    store: Store, open_page: OpenPage, words: SnapshotAssertion
) -> None:
    shares = {"rack-1": ("bert", "vit"), "rack-2": ("gpt2", "resnet")}
    documents = [
        side(toolchain, is_candidate=toolchain == HOSTILE, models=models, machine=machine)
        for toolchain in ("stable", HOSTILE)
        for machine, models in shares.items()
    ]
    with store.write() as connection:
        put_documents(connection, documents, at=dashboard_stores.NOW)
    page = open_page("release", run="rack-2-1")
    assert not page.exception
    assert text_of(page) == words
    links = links_of(page)
    assert {run_url(f"{machine}-{number}") for machine in shares for number in (0, 1)} <= set(links)
    of_cases = [link for link in links if "&case=" in link]
    assert len(of_cases) == 5
    for link in of_cases:
        run, _, case = link.removeprefix("run?run=").partition("&case=")
        assert case.startswith(shares[run.removesuffix("-1")])
    assert [row[0] for row in texts_of_rows(page, "machines")] == list(shares)
