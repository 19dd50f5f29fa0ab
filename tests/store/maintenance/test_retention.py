"""The samples that a rule removes, and the rows that stay."""

from __future__ import annotations

from datetime import timedelta

import pytest

from compile_hud.db.maintenance.retention import OldSamples, find_old_samples, remove_samples
from compile_hud.db.queries import results as queries
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.records.alerts import AlertState
from compile_hud.db.records.triage import Revision
from compile_hud.db.store import Store
from tests.store.maintenance.test_backup import Opened, contents
from tests.support.builders import START, make_alert, make_result, make_run, make_run_ref


@pytest.fixture(params=["memory", "postgres"])
def store(request: pytest.FixtureRequest) -> Store:
    """Return an empty store of either kind."""
    if request.param == "memory":
        return Store("duckdb:///:memory:")
    return Store(request.getfixturevalue("postgres_url"))


def measure(store: Store, *, num_nights: int) -> None:
    """Store a run of one case for each night."""
    for night in range(num_nights):
        run = make_run(f"run-{night}", started_at=START + timedelta(days=night))
        store.ingest(run, make_result(f"result-{night}", run=run), spool_id=f"file-{night}")


def runs_with_samples(store: Store) -> list[str]:
    """Return which runs have samples, oldest first."""
    ids = {
        run.run.id
        for run in load_runs(store)
        if queries.load_samples(store, run.run.id.replace("run", "result"), "latency_s")
    }
    return sorted(ids)


def test_the_newest_nights_keep_their_samples(store: Store) -> None:
    measure(store, num_nights=5)
    before = contents(store)
    old = find_old_samples(store, num_nights=2)
    assert old.run_ids == ("run-0", "run-1", "run-2")
    remove_samples(store, old)
    assert runs_with_samples(store) == ["run-3", "run-4"]
    after = contents(store)
    assert len(before.pop("samples")) == len(after.pop("samples")) + old.num_samples
    assert after == before


def test_what_is_removed_is_not_detected_again(store: Store) -> None:
    measure(store, num_nights=3)
    remove_samples(store, find_old_samples(store, num_nights=1))
    number = store.store_version()
    assert find_old_samples(store, num_nights=1) == OldSamples()
    assert store.store_version() == number


def test_nights_without_a_run_count_for_nothing(store: Store) -> None:
    for night in (0, 300, 600):
        run = make_run(f"run-{night}", started_at=START + timedelta(days=night))
        store.ingest(run, make_result(f"result-{night}", run=run), spool_id=f"file-{night}")
    assert find_old_samples(store, num_nights=3) == OldSamples()


@pytest.mark.parametrize(
    ("state", "num_stored"),
    [(AlertState.OPEN, ["run-0", "run-1", "run-4"]), (AlertState.FIXED, ["run-4"])],
)
def test_an_ongoing_alert_keeps_its_evidence(
    store: Store, state: AlertState, num_stored: list[str]
) -> None:
    measure(store, num_nights=5)
    good, bad = (make_run_ref(make_run(name)) for name in ("run-0", "run-1"))
    alert = make_alert(state=state, last_good=good, first_bad=bad)
    store.revise_alerts(lambda _before: Opened(revisions=(Revision(alert=alert),)), by="judge")
    remove_samples(store, find_old_samples(store, num_nights=1))
    assert runs_with_samples(store) == num_stored


def test_a_result_without_its_samples_can_still_be_read(store: Store) -> None:
    measure(store, num_nights=2)
    (before,) = queries.load_document(store, "run-0").results
    remove_samples(store, find_old_samples(store, num_nights=1))
    (after,) = queries.load_document(store, "run-0").results
    for old, new in zip(before.measurements, after.measurements, strict=True):
        assert (new.median, new.interval) == (old.median, old.interval)
        assert new.samples == (old.median,)
        assert new.method == f"{old.method}; samples removed"
    summary = queries.load_result_summaries(store, "run-0")[0].measurements["latency_s"]
    assert summary.num_samples == len(before.measurements[0].samples)
