"""Judging only what is new finds what judging everything finds."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compile_hud.db.ingest.results import put_documents
from compile_hud.db.queries.alerts import load_alerts
from compile_hud.db.queries.judge_state import load_events, load_judge_states
from compile_hud.db.queries.series import load_histories
from compile_hud.db.records.results import REFERENCE_FAMILY, Case, RunDocument
from compile_hud.db.store import Store
from compile_hud.runner import analysis
from compile_hud.runner.detection import incremental as carried
from compile_hud.runner.detection.detect import detect
from compile_hud.runner.errors import JudgeProcessKilled, RunInterrupted
from tests.support.builders import (
    START,
    make_case,
    make_document,
    make_measurement,
    make_result,
    make_run,
)

MODELS = ("bert", "t5", "vit")
NIGHTLY = tuple(make_case(model) for model in MODELS)
WEEKLY = make_case("unet", mode="max-autotune")
REFERENCE = make_case("ref_gemm", family=REFERENCE_FAMILY, mode="eager")
NUM_NIGHTS = 34
# Before, while and after things change.
JUDGED_NIGHTS = (12, 17, 22, 23, 27, 30, 33)


def level(case: Case, number: int, *, noise: float) -> float:
    """Return the latency of a night: bert and t5 step together, vit recovers, unet gets better."""
    factor = 1.0
    if case.model in ("bert", "t5") and number >= 20:
        factor = 1.12
    if case.model == "vit" and 15 <= number < 25:
        factor = 1.3
    if case.model == "unet" and number >= 63:
        factor = 0.7
    return 0.01 * factor * (1 + 0.01 * noise)


def night(number: int, *, seed: int = 0) -> RunDocument:
    generator = np.random.default_rng([seed, number])
    at = START + timedelta(days=number)
    plan = [*NIGHTLY, REFERENCE, *([WEEKLY] if number % 7 == 0 else [])]
    run = make_run(f"run-{number:03}", plan=plan, started_at=at, finished_at=at, suite="nightly")
    results = []
    for case in plan:
        noise = float(generator.standard_normal())
        seconds = [level(case, number, noise=noise)]
        failed = case.model == "t5" and number in (30, 31)
        results.append(
            make_result(
                f"{case.model}-{number}",
                run=run,
                case=case,
                outcome="failed" if failed else "ok",
                measurements=[]
                if failed
                else [
                    make_measurement("latency_cpu_s", samples=seconds),
                    make_measurement("graph_breaks", samples=[float(number >= 12)]),
                ],
                started_at=at,
                finished_at=at,
            )
        )
    return make_document(run, results=results)


def put(store: Store, *documents: RunDocument) -> None:
    with store.write() as connection:
        put_documents(connection, documents, at=START)


def state(store: Store) -> object:
    return (load_alerts(store), load_events(store), load_judge_states(store))


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the models whose histories were read to be judged, in a list that fills."""
    models: list[str] = []

    def watched(
        store: Store,
        *,
        metrics: Sequence[str],
        case_keys: Collection[str] | None = None,
        **facts: str,
    ) -> Iterator[object]:
        for series in load_histories(store, metrics=metrics, case_keys=case_keys, **facts):
            if not series.header.case.is_reference:
                models.append(series.header.case.model)
            yield series

    monkeypatch.setattr(carried, "load_histories", watched)
    return models


@pytest.mark.nightly
@pytest.mark.slow
def test_incremental_and_full_judging_are_identical_night_by_night() -> None:
    ours, theirs = Store("duckdb:///:memory:"), Store("duckdb:///:memory:")
    num_alerts = set()
    for number in range(NUM_NIGHTS):
        put(ours, night(number))
        put(theirs, night(number))
        if number in JUDGED_NIGHTS:
            one = detect(ours)
            other = detect(theirs, is_full=True)
            assert one == other
            assert state(ours) == state(theirs)
            num_alerts.add(len(one.alerts))
    assert len(num_alerts) > 3


def test_late_and_repeated_results_are_judged_too() -> None:
    ours, theirs = Store("duckdb:///:memory:"), Store("duckdb:///:memory:")
    for store in (ours, theirs):
        put(store, *(night(number) for number in range(30) if number != 22))
        detect(store, is_full=store is theirs)
        put(store, night(22))
        again = night(25)
        slow = make_result(
            "again",
            run=again.run,
            case=NIGHTLY[2],
            measurements=[make_measurement("latency_cpu_s", samples=[0.01])],
            finished_at=START + timedelta(days=99),
        )
        store.ingest(again.run, slow, spool_id="again")
        detect(store, is_full=store is theirs)
    assert state(ours) == state(theirs)


def test_processes_that_share_the_cases_find_what_one_finds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, theirs = Store("duckdb:///:memory:"), Store("duckdb:///:memory:")
    for store in (ours, theirs):
        put(store, *(night(number) for number in range(26)))
    detect(theirs)
    monkeypatch.setattr(carried, "MIN_CASES_TO_SHARE", 1)
    monkeypatch.setattr(carried, "CASES_PER_BATCH", 1)
    monkeypatch.setattr("os.sched_getaffinity", lambda _process: {0, 1})
    processes, modules = [], set()

    class Counted(ProcessPoolExecutor):
        def __init__(self, num_processes: int, **facts: Any) -> None:
            processes.append(num_processes)
            super().__init__(num_processes, **facts)

        def submit(self, judge: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
            modules.add(judge.func.__module__)
            return super().submit(judge, *arguments, **named)

    monkeypatch.setattr(carried, "ProcessPoolExecutor", Counted)
    detect(ours)
    assert processes == [2]
    # What it lies in is imported there: nothing of the store.
    assert modules == {"compile_hud.runner.analysis.judging.judge"}
    assert len(load_alerts(ours)) > 3
    assert state(ours) == state(theirs)


@pytest.fixture
def unlucky(store: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Return a store whose cases are shared among processes that end at once."""
    put(store, *(night(number) for number in range(15)))
    monkeypatch.setattr(carried, "MIN_CASES_TO_SHARE", 1)
    monkeypatch.setattr("os.sched_getaffinity", lambda _process: {0, 1})
    monkeypatch.setattr(carried, "begin_work", functools.partial(os._exit, 1))
    return store


def test_processes_that_are_ended_are_one_clear_error_and_nothing_is_saved(unlucky: Store) -> None:
    with pytest.raises(JudgeProcessKilled):
        detect(unlucky)
    assert state(unlucky) == ((), {}, {})


def test_processes_that_are_ended_by_who_stops_the_judging_are_no_error(unlucky: Store) -> None:
    def stopped() -> None:
        raise RunInterrupted("stopped")

    with pytest.raises(RunInterrupted):
        detect(unlucky, check=stopped)
    assert state(unlucky) == ((), {}, {})


def test_only_cases_with_new_results_are_read(store: Store, read: list[str]) -> None:
    put(store, *(night(number) for number in range(15)))
    detect(store)
    assert set(read) == {*MODELS, "unet"}
    read.clear()
    detect(store)
    assert read == []
    put(store, night(15))
    detect(store)
    assert set(read) == set(MODELS)


def test_full_judging_reads_everything(store: Store, read: list[str]) -> None:
    put(store, *(night(number) for number in range(3)))
    detect(store)
    read.clear()
    detect(store, is_full=True)
    assert set(read) == {*MODELS, "unet"}


def test_another_floor_judges_everything_again(store: Store, read: list[str]) -> None:
    put(store, *(night(number) for number in range(3)))
    detect(store)
    read.clear()
    store.revise_settings("bert/*", lambda known: replace(known, floor=0.5), by="anna")
    detect(store)
    assert set(read) == {*MODELS, "unet"}


def test_an_owner_judges_nothing_again(store: Store, read: list[str]) -> None:
    put(store, *(night(number) for number in range(3)))
    detect(store)
    read.clear()
    store.revise_settings("*", lambda known: replace(known, owner="anna"), by="anna")
    detect(store)
    assert read == []


def test_other_code_judges_everything_again(
    store: Store, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, *(night(number) for number in range(3)))
    detect(store)
    read.clear()
    monkeypatch.setattr(carried, "_code_digest", lambda: "another")
    detect(store)
    assert set(read) == {*MODELS, "unet"}


def test_code_in_a_folder_of_the_analysis_counts(tmp_path: Path) -> None:
    module = tmp_path / "detection" / "evidence.py"
    module.parent.mkdir()
    module.write_text("LIMIT = 1\n")
    before = carried.code_digest(tmp_path)
    module.write_text("LIMIT = 2\n")
    assert carried.code_digest(tmp_path) != before


def test_every_module_of_the_analysis_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder,) = map(Path, analysis.__path__)
    copy = tmp_path / "analysis"
    shutil.copytree(folder, copy)
    monkeypatch.setattr(analysis, "__path__", [str(copy)])
    digest = carried._code_digest.__wrapped__
    digests = {digest()}
    for path in copy.rglob("*.py"):
        path.write_text(path.read_text() + "# changed\n")
        digests.add(digest())
    assert len(digests) == 1 + len(list(copy.rglob("*.py")))


def test_alerts_of_one_change_share_an_event_that_goes_with_them(store: Store) -> None:
    put(store, *(night(number) for number in range(24)))
    detect(store)
    by_id = load_events(store)
    together = [
        alert
        for alert in load_alerts(store)
        if alert.metric == "latency_cpu_s" and alert.case.model in ("bert", "t5")
    ]
    (event_id,) = {alert.event_id for alert in together}
    assert by_id[event_id].size == 2
    assert "slower by" in by_id[event_id].title
    assert set(by_id) == {alert.event_id for alert in load_alerts(store)}
