"""The queue of requested runs: no night runs twice, no job ends with its process."""

from __future__ import annotations

import socket
import subprocess
import sys
from datetime import timedelta

import pytest
from sqlalchemy import select, update

from compile_hud.db.errors import NotFoundError
from compile_hud.db.jobs.health import save_scheduler
from compile_hud.db.jobs.queue import MAX_ATTEMPTS, Job, alert_of_suite, suite_of_search
from compile_hud.db.schema.tables import JobTable
from compile_hud.db.shared import processes
from compile_hud.db.store import Store
from tests.support.builders import make_scheduler
from tests.support.fakes import FakeClock


def _enqueue(store: Store, key: str = "nightly/2026-01-01") -> bool:
    return store.enqueue_job(
        dedupe_key=key, suite="nightly", toolchain="stable", trigger="schedule"
    )


def _lease(store: Store) -> Job:
    job = store.lease_job(lease_s=60)
    assert job is not None
    return job


def _hold(store: Store, holder: str) -> None:
    with store.write() as connection:
        connection.execute(update(JobTable).values(holder=holder))


def _dead_process() -> str:
    code = "from compile_hud.db.shared.processes import this_process; print(this_process())"
    return subprocess.check_output([sys.executable, "-c", code], text=True).strip()


def test_a_job_is_queued_once_for_its_key(store: Store) -> None:
    assert _enqueue(store)
    assert not _enqueue(store)
    job = _lease(store)
    store.finish_job(job.id, run_id="run-1", state="done")
    assert not _enqueue(store)


def test_machines_that_share_a_store_have_nights_of_their_own(store: Store) -> None:
    def enqueue(machine: str | None) -> bool:
        return store.enqueue_job(
            dedupe_key="night", suite="mine", toolchain="current", trigger="x", machine=machine
        )

    assert [enqueue(name) for name in ("alpha", "beta", "alpha", None)] == [
        True,
        True,
        False,
        False,
    ]
    for name in ("alpha", "beta"):
        save_scheduler(store, make_scheduler(machine=name))
    beta = store.lease_job(machine="beta")
    assert beta is not None
    assert beta.machine == "beta"
    assert store.lease_job(machine="beta") is None
    alpha = store.lease_job(machine="alpha")
    assert alpha is not None
    assert alpha.machine == "alpha"


def test_a_queued_job_is_not_queued_again_for_one_machine(store: Store) -> None:
    assert _enqueue(store)
    assert not store.enqueue_job(
        dedupe_key="nightly/2026-01-01", suite="a", toolchain="b", trigger="c", machine="alpha"
    )
    assert store.lease_job(machine="alpha") is not None


def test_a_job_for_a_machine_without_a_scheduler_is_taken_by_any(store: Store) -> None:
    save_scheduler(store, make_scheduler(machine="head"))
    store.enqueue_job(dedupe_key="a", suite="a", toolchain="b", trigger="c", machine="node")
    job = store.lease_job(machine="head")
    assert job is not None
    assert job.machine == "node"


def test_jobs_are_leased_oldest_first_and_once(store: Store, now: FakeClock) -> None:
    for key in ("a", "b"):
        _enqueue(store, key)
        now.advance(1)
    first = _lease(store)
    assert (first.dedupe_key, first.suite, first.toolchain) == ("a", "nightly", "stable")
    assert (first.trigger, first.num_attempts) == ("schedule", 1)
    assert _lease(store).dedupe_key == "b"
    assert store.lease_job() is None


@pytest.mark.parametrize("state", ["done", "failed"])
def test_a_finished_job_is_not_leased_again(store: Store, state: str) -> None:
    _enqueue(store)
    store.finish_job(_lease(store).id, run_id=None, state=state)
    assert store.lease_job() is None


def test_a_job_of_a_dead_process_is_tried_three_times_and_then_leased_to_be_ended(
    store: Store,
) -> None:
    _enqueue(store)
    dead = _dead_process()
    attempts = []
    for _ in range(MAX_ATTEMPTS):
        attempts.append(_lease(store).num_attempts)
        _hold(store, dead)
    assert attempts == [1, 2, 3]
    # The process that ends it may die as well.
    for _ in range(2):
        job = _lease(store)
        assert job.is_exhausted
        _hold(store, dead)
    with store.read() as connection:
        assert connection.execute(select(JobTable.c.num_attempts)).scalar_one() == MAX_ATTEMPTS
    store.finish_job(job.id, run_id=None, state="failed")
    assert store.lease_job() is None


def test_a_lease_on_another_host_counts_until_it_runs_out(store: Store, now: FakeClock) -> None:
    _enqueue(store)
    job = _lease(store)
    _hold(store, "elsewhere/1/2")
    now.advance(59)
    assert store.lease_job(lease_s=60) is None
    store.renew_job(job.id)
    now.advance(59)
    assert store.lease_job(lease_s=60) is None
    now.advance(1)
    assert _lease(store).num_attempts == 2


def test_asking_for_work_in_vain_writes_nothing(store: Store) -> None:
    store.migrate()
    before = store.store_version()
    assert store.lease_job() is None
    assert store.store_version() == before


def test_unknown_jobs_and_states_are_refused(store: Store) -> None:
    with pytest.raises(NotFoundError) as caught:
        store.renew_job("ghost")
    assert caught.value.parameters == {"job": "ghost"}
    with pytest.raises(NotFoundError):
        store.finish_job("ghost", run_id=None, state="done")
    with pytest.raises(ValueError, match="'over'"):
        store.finish_job("ghost", run_id=None, state="over")


def test_this_process_is_there_and_an_ended_one_is_gone() -> None:
    assert processes.is_gone(processes.this_process()) is False
    assert processes.is_gone(_dead_process()) is True
    assert processes.is_gone("elsewhere/1/2") is None
    assert processes.is_gone(f"{socket.gethostname()}/1/") is None


def test_a_reused_pid_is_another_process() -> None:
    host, pid, _ = processes.this_process().rsplit("/", 2)
    assert processes.is_gone(f"{host}/{pid}/1") is True


def test_a_job_that_is_put_back_waits_until_it_is_due(store: Store, now: FakeClock) -> None:
    _enqueue(store)
    due_at = now() + timedelta(seconds=60)
    store.put_job_back(_lease(store).id, due_at=due_at, reason="the disk was full")
    assert store.lease_job() is None
    now.advance(60)
    assert _lease(store).num_attempts == 2


def test_an_attempt_that_does_not_count_leaves_all_others(store: Store, now: FakeClock) -> None:
    _enqueue(store)
    for _ in range(2 * MAX_ATTEMPTS):
        job = _lease(store)
        assert job.num_attempts == 1
        store.put_job_back(job.id, due_at=now(), reason="a run is due", counts=False)


def test_runs_go_before_searches(store: Store, now: FakeClock) -> None:
    suite = suite_of_search("a1")
    assert (alert_of_suite(suite), alert_of_suite("nightly")) == ("a1", "")
    store.enqueue_job(dedupe_key=suite, suite=suite, toolchain="stable", trigger="alert")
    assert not store.has_due_run(machine=None)
    now.advance(1)
    _enqueue(store)
    assert store.has_due_run(machine=None)
    run = _lease(store)
    assert (run.suite, _lease(store).suite) == ("nightly", suite)
    # A run in progress waits for nothing.
    assert not store.has_due_run(machine=None)


def test_a_job_that_waits_holds_up_no_other(store: Store, now: FakeClock) -> None:
    _enqueue(store, "a")
    store.put_job_back(_lease(store).id, due_at=now() + timedelta(hours=1), reason="lost")
    _enqueue(store, "b")
    assert _lease(store).dedupe_key == "b"
