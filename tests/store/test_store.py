"""Written records can be read, on every kind of store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select
from sqlalchemy.exc import ProgrammingError
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.errors import MixedStoreError, NotFoundError, RecordError
from compile_hud.db.queries import outcomes, series
from compile_hud.db.queries import results as queries
from compile_hud.db.queries.alerts import load_alert, load_alerts
from compile_hud.db.queries.latest import load_case_seconds, load_latest
from compile_hud.db.queries.runs import load_run, load_runs
from compile_hud.db.queries.series import (
    count_judged_series,
    find_series,
    load_histories,
    load_trend,
)
from compile_hud.db.records.alerts import AlertState
from compile_hud.db.records.results import (
    ALONE_S,
    COMPILE_AHEAD,
    TURNS,
    WAITED_S,
    Outcome,
    RunState,
)
from compile_hud.db.records.summaries import CaseSeconds
from compile_hud.db.schema.tables import PlanTable
from compile_hud.db.store import Store
from tests.support.builders import (
    START,
    make_alert,
    make_case,
    make_measurement,
    make_result,
    make_run,
    make_run_ref,
)
from tests.support.errors import error_of, message_of
from tests.support.fakes import FakeClock
from tests.support.stores.stored_results import save_alerts

LATER = START + timedelta(days=99)
BERT = make_case("bert")
EAGER = make_case("bert", mode="eager")
VIT = make_case("vit")


@pytest.fixture(params=["duckdb_url", "postgres_url"])
def absent(request: pytest.FixtureRequest) -> Store:
    """Return a store of which nothing exists yet."""
    return Store(request.getfixturevalue(request.param))


def test_stores_that_do_not_exist_read_as_empty_inside_one_another(tmp_path: Path) -> None:
    stores = [Store(f"duckdb:///{tmp_path / name}.duckdb") for name in ("one", "other")]
    for _ in range(2):
        with stores[0].read() as first, stores[1].read() as second:
            assert first is not second
            assert [first.execute(select(PlanTable)).all() for _ in stores] == [[], []]
            with pytest.raises(ProgrammingError):
                second.exec_driver_sql("select * from nothing")
    assert not list(tmp_path.iterdir())


def test_a_store_that_does_not_exist_reads_as_empty(absent: Store) -> None:
    store = absent
    assert load_runs(store) == []
    assert load_latest(store) == ()
    assert find_series(store) == ()
    assert load_trend(store, case_key="a", metric="latency_s", machine="box") == ()
    assert list(load_histories(store, metrics=["latency_s"])) == []
    assert outcomes.load_outcomes(store) == ()
    assert load_alerts(store) == ()
    assert queries.load_samples(store, "r", "latency_s") == ()
    assert store.interrupt_stale_runs(older_than_s=0) == []
    assert store.lease_job() is None
    assert store.store_version() == 0


def test_reading_creates_no_file(tmp_path: Path) -> None:
    store = Store(f"duckdb:///{tmp_path}/folder/hud.duckdb")
    load_runs(store)
    store.store_version()
    assert list(tmp_path.iterdir()) == []


def test_every_write_raises_the_generation_and_no_read_does(store: Store) -> None:
    store.migrate()
    before = store.store_version()
    store.save_run(make_run())
    after = store.store_version()
    load_runs(store)
    assert after > before
    assert store.store_version() == after


def test_a_failed_write_leaves_nothing(store: Store) -> None:
    store.save_run(make_run("kept"))
    with pytest.raises(ZeroDivisionError):
        _write_and_fail(store)
    assert load_run(store, "kept").machine == "box"


def _write_and_fail(store: Store) -> None:
    with store.write() as connection:
        connection.exec_driver_sql("UPDATE runs SET machine = 'other'")
        raise ZeroDivisionError


def test_a_transaction_inside_a_transaction_is_refused(store: Store) -> None:
    store.migrate()
    with store.read(), pytest.raises(AssertionError, match="open already"):
        store.store_version() if store.name.startswith("postgresql") else load_runs(store)
    assert load_runs(store) == []


def test_run_comes_back_as_it_was(store: Store) -> None:
    run = make_run(plan=[VIT, BERT], environment={"threads": 1, "flags": ["a", None, 0.5]})
    store.save_run(run)
    assert load_run(store, run.id) == run


def test_run_keeps_what_was_known_at_its_start(store: Store) -> None:
    store.save_run(make_run(plan=[VIT, BERT], revision="first"))
    store.save_run(make_run(plan=[VIT], revision="second"))
    ended = START + timedelta(hours=1)
    store.save_run(make_run(plan=[VIT, BERT], revision="second", finished_at=ended))
    run = load_run(store, "run-1")
    assert (run.revision, len(run.plan)) == ("first", 2)
    assert (run.state, run.finished_at) == (RunState.FINISHED, ended)


def test_plan_at_the_end_of_a_run_is_its_own_and_leaves_no_other_behind(store: Store) -> None:
    for name in ("run-1", "run-2"):
        store.save_run(make_run(name, plan=[VIT, BERT]))
    ended = START + timedelta(hours=1)
    store.save_run(make_run("run-1", plan=[VIT], finished_at=ended))
    assert load_run(store, "run-1").plan == (VIT,)
    assert load_run(store, "run-2").plan == (VIT, BERT)
    store.save_run(make_run("run-2", plan=[BERT], finished_at=ended))
    with store.read() as connection:
        plans = connection.execute(select(PlanTable.c.cases)).scalars().all()
    assert sorted(case["model"] for plan in plans for case in plan) == sorted(
        [VIT.model, BERT.model]
    )


@pytest.mark.parametrize(
    ("before", "after", "stored"),
    [
        (RunState.RUNNING, RunState.INTERRUPTED, RunState.INTERRUPTED),
        (RunState.INTERRUPTED, RunState.RUNNING, RunState.RUNNING),
        (RunState.FINISHED, RunState.RUNNING, RunState.FINISHED),
        (RunState.FINISHED, RunState.INTERRUPTED, RunState.FINISHED),
    ],
)
def test_a_finished_run_stays_finished_and_an_interrupted_one_may_resume(
    store: Store, before: RunState, after: RunState, stored: RunState
) -> None:
    store.save_run(make_run(state=before))
    store.save_run(make_run(state=after))
    assert load_run(store, "run-1").state is stored


def test_only_runs_without_heartbeat_are_interrupted(store: Store, now: FakeClock) -> None:
    for name in ("silent", "alive"):
        store.save_run(make_run(name))
    store.save_run(make_run("done", finished_at=START))
    now.advance(60)
    store.heartbeat("alive")
    assert store.interrupt_stale_runs(older_than_s=30) == ["silent"]
    states = {item.run.id: item.run.state for item in load_runs(store)}
    assert states == {
        "silent": RunState.INTERRUPTED,
        "alive": RunState.RUNNING,
        "done": RunState.FINISHED,
    }
    summaries = {item.run.id: item.heartbeat_at for item in load_runs(store)}
    assert summaries["alive"] == START + timedelta(seconds=60)


def test_heartbeat_of_an_unknown_run_is_an_error(store: Store) -> None:
    with pytest.raises(NotFoundError, match="no run 'ghost'"):
        store.heartbeat("ghost")


def test_result_comes_back_with_every_sample(store: Store) -> None:
    run = make_run()
    result = make_result(
        run=run,
        measurements=[
            make_measurement(samples=[0.1, 0.3, 0.2], launches=(1, 2), warmups=(0.9, 0.8)),
            make_measurement("speedup", samples=[1.5]),
        ],
        details={"breaks": [{"reason": "data-dependent", "line": 12}]},
    )
    assert store.ingest(run, result, spool_id="file-1")
    assert queries.load_document(store, run.id).results == (result,)
    assert queries.load_result(store, result.id) == result


def test_samples_say_launch_and_warm_up(store: Store) -> None:
    measurement = make_measurement(samples=[0.1, 0.2, 0.3], launches=(1, 2), warmups=(0.9,))
    run = make_run()
    store.ingest(run, make_result(run=run, measurements=[measurement]), spool_id="file-1")
    samples = queries.load_samples(store, "result-1", "latency_s")
    assert [(item.value, item.launch, item.is_warmup) for item in samples] == [
        (0.9, 0, True),
        (0.1, 0, False),
        (0.2, 1, False),
        (0.3, 1, False),
    ]


def test_failed_result_has_a_reason_and_no_measurement(store: Store) -> None:
    run = make_run()
    result = make_result(run=run, outcome=Outcome.TIMEOUT, reason="ran past 60 s", log_tail="...")
    store.ingest(run, result, spool_id="file-1")
    assert queries.load_document(store, run.id).results == (result,)


def test_text_that_no_database_keeps_is_stored_with_marks(store: Store) -> None:
    run = make_run()
    result = make_result(
        run=run, log_tail="a\0b\ud800c", details={"k\0": float("nan"), "t": ("x\0",)}
    )
    store.ingest(run, result, spool_id="file-1")
    stored = queries.load_result(store, result.id)
    assert stored.log_tail == "a\ufffdb?c"
    assert stored.details == {"k\ufffd": "nan", "t": ["x\ufffd"]}


def test_the_same_file_goes_in_once(store: Store) -> None:
    run = make_run()
    assert store.ingest(run, make_result(run=run), spool_id="file-1")
    assert not store.ingest(run, make_result(run=run), spool_id="file-1")
    assert not store.ingest(run, make_result(run=run), spool_id="copy-of-file-1")
    assert not store.ingest(run, make_result("other", run=run), spool_id="file-1")
    assert len(queries.load_document(store, run.id).results) == 1
    (header,) = find_series(store)
    assert header.num_points == 1


def test_result_of_another_run_is_refused(store: Store) -> None:
    with pytest.raises(RecordError) as caught:
        store.ingest(make_run(), make_result(run_id="other"), spool_id="file-1")
    assert (caught.value.parameters["run"], caught.value.parameters["expected"]) == (
        "other",
        "run-1",
    )
    assert load_runs(store) == []


def test_the_last_result_of_a_case_counts(store: Store) -> None:
    run = make_run(plan=[BERT])
    later = START + timedelta(minutes=5)
    failed = make_result("a", run=run, outcome=Outcome.FAILED)
    first = make_result("b", run=run, started_at=later, finished_at=later)
    second = make_result(
        "c",
        run=run,
        finished_at=later + timedelta(seconds=1),
        measurements=[make_measurement(samples=[0.5])],
    )
    for result in (second, failed, first):
        store.ingest(run, result, spool_id=result.id)
    assert queries.load_document(store, run.id).results == (second,)
    (point,) = load_trend(store, case_key=BERT.key, metric="latency_s", machine="box")
    assert (point.result_id, point.median) == ("c", 0.5)
    (summary,) = load_runs(store)
    assert summary.num_by_outcome == {Outcome.OK: 1}
    assert summary.worked_s == pytest.approx(301.0)
    (header,) = find_series(store)
    assert header.num_points == 1


def test_cases_that_compiled_ahead_overlap_within_the_time_of_their_run(store: Store) -> None:
    cases = [BERT, replace(BERT, shape="other")]
    run = make_run(plan=cases, environment={COMPILE_AHEAD: {"processes": 2}})
    end = run.started_at + timedelta(seconds=60)
    turns = {TURNS: {WAITED_S: 20.0, ALONE_S: 3.0}}
    for case in cases:
        result = make_result(
            case.key, run=run, case=case, started_at=run.started_at, finished_at=end, details=turns
        )
        store.ingest(run, result, spool_id=result.id)
    (summary,) = load_runs(store)
    assert summary.worked_s == pytest.approx(60.0)
    durations = load_case_seconds(store, machine=run.machine, toolchain=run.toolchain)
    assert durations == {case.key: CaseSeconds(took_s=40.0, alone_s=3.0) for case in cases}


def test_a_case_that_fails_when_measured_again_has_no_point(store: Store) -> None:
    run = make_run(plan=[BERT])
    store.ingest(run, make_result("a", run=run), spool_id="a")
    later = START + timedelta(minutes=5)
    failed = make_result("b", run=run, outcome=Outcome.FAILED, finished_at=later)
    store.ingest(run, failed, spool_id="b")
    assert load_trend(store, case_key=BERT.key, metric="latency_s", machine="box") == ()


@pytest.mark.parametrize("first", [True, False])
def test_synthetic_and_real_runs_never_mix(store: Store, first: bool) -> None:
    store.save_run(make_run("first", is_synthetic=first))
    other = make_run("second", is_synthetic=not first)
    with pytest.raises(MixedStoreError) as caught:
        store.save_run(other)
    assert caught.value.parameters["kind"] == ("real" if first else "synthetic")
    with pytest.raises(MixedStoreError):
        store.ingest(other, make_result(run=other), spool_id="file-1")
    assert [item.run.id for item in load_runs(store)] == ["first"]


def test_runs_are_listed_newest_first(store: Store) -> None:
    for day in (1, 3, 2):
        store.save_run(make_run(f"day-{day}", started_at=START + timedelta(days=day)))
    assert [item.run.id for item in load_runs(store, limit=2)] == ["day-3", "day-2"]


def test_run_is_looked_up_by_id_by_unique_start_and_as_latest(store: Store) -> None:
    for number, name in enumerate(("abc", "abcd", "abce", "abcf", "xyz_1", "xyz%2")):
        store.save_run(make_run(name, started_at=START + timedelta(days=number)))
    assert load_run(store, "abc").id == "abc"
    assert load_run(store, "xyz_").id == "xyz_1"
    assert load_run(store, "latest").id == "xyz%2"


def test_unknown_and_ambiguous_run_ids_are_explained(
    store: Store, words: SnapshotAssertion
) -> None:
    def error_for(load: Callable[[Store, str], object], id: str) -> dict[str, object]:
        error = error_of(load, store, id)
        assert isinstance(error, NotFoundError)
        messages.append(message_of(error, store=store.name))
        return error.parameters

    messages: list[str] = []
    assert error_for(load_run, "latest") == {"run": "latest", "store": store.name}
    for name in ("abc1", "abc2"):
        store.save_run(make_run(name))
    assert error_for(load_run, "abc") == {"run": "abc", "candidates": ("abc2", "abc1")}
    assert error_for(load_run, "zzz") == {"run": "zzz", "store": store.name, "near": ""}
    assert error_for(queries.load_result, "zzz") == {"result": "zzz", "store": store.name}
    assert messages == words


def test_results_come_in_plan_order(store: Store) -> None:
    run = make_run(plan=[VIT, EAGER, BERT])
    unplanned = make_case("a-model")
    for case in (unplanned, BERT, VIT, EAGER):
        store.ingest(run, make_result(case.key, run=run, case=case), spool_id=case.key)
    expected = [VIT, EAGER, BERT, unplanned]
    assert [item.case for item in queries.load_document(store, run.id).results] == expected
    assert [item.case for item in queries.load_result_summaries(store, run.id)] == expected


def test_summaries_have_the_numbers_and_no_samples(store: Store) -> None:
    run = make_run()
    measurement = make_measurement(samples=[1.0, 2.0, 4.0])
    store.ingest(run, make_result(run=run, measurements=[measurement]), spool_id="f")
    (summary,) = queries.load_result_summaries(store, run.id)
    latency = summary.measurements["latency_s"]
    assert (latency.num_samples, latency.median, latency.low, latency.high) == (3, 2.0, 1.0, 4.0)
    assert (summary.outcome, summary.effective_mode) == (Outcome.OK, "default")


def test_latest_has_the_newest_result_of_each_case_and_machine(store: Store) -> None:
    for day, (machine, model) in enumerate(
        [("box", "bert"), ("box", "vit"), ("box", "bert"), ("lab", "bert")]
    ):
        case = make_case(model)
        run = make_run(
            f"run-{day}", plan=[case], machine=machine, started_at=START + timedelta(days=day)
        )
        store.ingest(run, make_result(f"r{day}", run=run), spool_id=f"f{day}")
    cells = load_latest(store)
    assert [(cell.machine, cell.summary.case.model, cell.run_id) for cell in cells] == [
        ("box", "bert", "run-2"),
        ("box", "vit", "run-1"),
        ("lab", "bert", "run-3"),
    ]
    assert [cell.run_id for cell in load_latest(store, machine="lab")] == ["run-3"]
    assert cells[0].summary.measurements["latency_s"].num_samples == 3


def _fill(store: Store, *, days: int = 3, fingerprints: tuple[str, ...] = ("f" * 64,)) -> None:
    for day in reversed(range(days)):
        run = make_run(
            f"run-{day}",
            plan=[BERT, VIT],
            started_at=START + timedelta(days=day),
            revision=f"rev-{day}",
            fingerprint=fingerprints[day % len(fingerprints)],
        )
        for case in run.plan:
            result = make_result(
                f"{case.model}-{day}",
                run=run,
                case=case,
                measurements=[
                    make_measurement(samples=[day + 1.0]),
                    make_measurement("graphs", samples=[1.0]),
                ],
            )
            store.ingest(run, result, spool_id=result.id)


def test_trend_is_oldest_first_across_environments(store: Store) -> None:
    _fill(store, fingerprints=("a" * 64, "b" * 64))
    points = load_trend(store, case_key=BERT.key, metric="latency_s", machine="box")
    assert [(point.revision, point.median, point.fingerprint[0]) for point in points] == [
        ("rev-0", 1.0, "a"),
        ("rev-1", 2.0, "b"),
        ("rev-2", 3.0, "a"),
    ]
    assert load_trend(store, case_key=BERT.key, metric="latency_s", machine="x") == ()


def test_series_header_follows_its_points_in_any_order_of_arrival(store: Store) -> None:
    _fill(store)
    (header,) = find_series(store, model="vit", metric="latency_s")
    assert header.num_points == 3
    assert (header.first_at, header.last_at) == (START, START + timedelta(days=2))
    assert (header.last_run_id, header.last_value) == ("run-2", 3.0)
    (series,) = load_histories(store, metrics=["latency_s"], case_keys=[header.case.key])
    assert series.header == header
    assert [point.median for point in series.points] == [1.0, 2.0, 3.0]


def test_series_are_looked_up_by_any_part(store: Store) -> None:
    _fill(store, days=1)
    assert len(find_series(store)) == 4
    assert len(find_series(store, case_key=BERT.key)) == 2
    assert len(find_series(store, mode="default", metric="graphs")) == 2
    assert find_series(store, mode="eager") == ()
    assert find_series(store, machine="elsewhere") == ()


@pytest.mark.parametrize("name", ["_SERIES_PER_READ", "_POINTS_PER_READ"])
def test_histories_hold_every_series_of_the_metrics(
    store: Store, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(series, name, 1)
    _fill(store)
    histories = list(load_histories(store, metrics=["latency_s"]))
    assert [item.header.case.model for item in histories] == ["bert", "vit"]
    assert [[point.median for point in item.points] for item in histories] == [[1.0, 2.0, 3.0]] * 2


def test_result_measured_again_in_a_run_counts_once_in_histories(store: Store) -> None:
    _fill(store)
    run = make_run("run-1", plan=[BERT, VIT], started_at=START + timedelta(days=1))
    latency = make_measurement("latency_s", samples=[9.0])
    again = make_result("again", run=run, case=BERT, measurements=[latency], finished_at=LATER)
    store.ingest(run, again, spool_id="again")
    bert, vit = load_histories(store, metrics=["latency_s"])
    assert [point.median for point in bert.points] == [1.0, 9.0, 3.0]
    assert [point.median for point in vit.points] == [1.0, 2.0, 3.0]


def test_series_of_a_run_with_noise_are_counted(store: Store) -> None:
    _fill(store, days=2)
    assert count_judged_series(store) == {"run-0": 2, "run-1": 2}


def test_outcomes_show_what_was_planned_and_did_not_come(store: Store) -> None:
    _fill(store, days=2)
    run = make_run("run-9", plan=[BERT, VIT], started_at=START + timedelta(days=9))
    store.ingest(run, make_result("x", run=run, case=BERT, outcome="failed"), spool_id="x")
    bert, vit = outcomes.load_outcomes(store)
    assert [point.outcome for point in bert.points] == [Outcome.OK, Outcome.OK, Outcome.FAILED]
    assert [point.outcome for point in vit.points] == [Outcome.OK, Outcome.OK, None]
    assert vit.points[-1].run_state is RunState.RUNNING
    (only, _) = outcomes.load_outcomes(store, limit_runs=1)
    assert [point.run_id for point in only.points] == ["run-9"]


def test_alerts_come_back_and_are_replaced_by_id(store: Store) -> None:
    step = make_alert("step", last_good=make_run_ref(), last_seen=START + timedelta(days=1))
    alert = make_alert("gone", kind="vanished", case=VIT)
    save_alerts(store, [step, alert])
    assert load_alerts(store) == (step, alert)
    noise = make_alert("gone", kind="vanished", case=VIT, state=AlertState.NOISE)
    save_alerts(store, [noise])
    assert load_alert(store, "gone") == noise
    assert load_alerts(store, states=[AlertState.OPEN]) == (step,)
    assert load_alerts(store, states=[]) == ()


def test_the_last_of_two_alerts_with_one_id_counts(store: Store) -> None:
    save_alerts(store, [make_alert(candidate=1.0), make_alert(candidate=2.0)])
    assert load_alert(store, "alert-1").candidate == 2.0


def test_unknown_alert_is_an_error(store: Store) -> None:
    with pytest.raises(NotFoundError, match="no alert 'ghost'"):
        load_alert(store, "ghost")


def _fill_in_turn(store: Store) -> None:
    for number, toolchain in enumerate(("stable", "nightly", "stable", "nightly")):
        at = START + timedelta(days=number)
        run = make_run(f"run-{number}", toolchain=toolchain, plan=(BERT,), started_at=at)
        store.ingest(run, make_result(f"result-{number}", run=run), spool_id=f"spool-{number}")


def test_outcomes_of_two_toolchains_stay_apart(store: Store) -> None:
    _fill_in_turn(store)
    histories = outcomes.load_outcomes(store)
    assert [
        (history.toolchain, [point.run_id for point in history.points]) for history in histories
    ] == [("nightly", ["run-1", "run-3"]), ("stable", ["run-0", "run-2"])]


def test_trend_has_one_toolchain_or_all_in_the_order_of_their_runs(store: Store) -> None:
    _fill_in_turn(store)
    run_ids = {
        toolchain: [
            point.run_id
            for point in load_trend(
                store,
                case_key=BERT.key,
                metric="latency_s",
                machine="box",
                toolchain=toolchain,
            )
        ]
        for toolchain in ("stable", "nightly", "ghost", None)
    }
    assert run_ids == {
        "stable": ["run-0", "run-2"],
        "nightly": ["run-1", "run-3"],
        "ghost": [],
        None: ["run-0", "run-1", "run-2", "run-3"],
    }


def test_latest_has_a_result_of_each_toolchain(store: Store) -> None:
    _fill_in_turn(store)
    cells = load_latest(store)
    assert [(cell.toolchain, cell.run_id) for cell in cells] == [
        ("nightly", "run-3"),
        ("stable", "run-2"),
    ]
    (only,) = load_latest(store, toolchain="stable")
    assert only == cells[1]
    assert load_latest(store, machine="lab", toolchain="stable") == ()
