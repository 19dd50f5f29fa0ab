"""A short version of the benchmark `nights`, and whether its audit sees what is wrong."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from sqlalchemy import delete

import benchmarks.nights.machine
from benchmarks.nights.audit import Evidence, audit, gather
from benchmarks.nights.machine import MARK_VARIABLE, Machine, processes_marked
from benchmarks.nights.receiver import RECEIVED
from benchmarks.nights.simulation import BERLIN, SYDNEY, FaultKind, Plan, simulate
from compile_hud.db.jobs.queue import JobState
from compile_hud.db.queries.results import load_document
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.schema.tables import JobTable
from compile_hud.db.store import Store
from tests.support.runs.runs import wait_until

# Clocks go forward in the second night.
PLAN = Plan(
    first=date(2026, 3, 28),
    num_nights=2,
    troubles={0: (FaultKind.KILLED,), 1: (FaultKind.HANGS,)},
    rules=(BERLIN,),
    timeout_s=2.0,
)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """Return the machine that has lived through the nights."""
    return simulate(PLAN, folder=tmp_path_factory.mktemp("nights"), tell=lambda _text: None)


@pytest.fixture(scope="module")
def evidence(machine: Machine) -> Evidence:
    """Return what there is when the nights are over."""
    return gather(machine)


def problems(evidence: Evidence, *, plan: Plan = PLAN) -> list[str]:
    return list(audit(evidence, plan=plan).problems)


def test_nights_with_a_kill_and_a_hanging_model_are_there_or_explained(
    machine: Machine, evidence: Evidence
) -> None:
    findings = audit(evidence, plan=PLAN)
    assert findings.problems == ()
    assert (machine.seen.num_starts, machine.seen.num_kills) == (2, 1)
    first, second = findings.fates
    assert (first.came, first.explained_by) == ("3 of 3 ok, attempt 2", "")
    assert second.came == "2 of 3 ok"
    assert second.explained_by.startswith("hangs timeout: ")
    assert len(evidence.taken) == 1


@contextmanager
def stray(machine: Machine) -> Iterator[int]:
    """Let a process of `machine` live on meanwhile."""
    env = {**os.environ, MARK_VARIABLE: machine.mark}
    with subprocess.Popen(["sleep", "60"], env=env) as process:
        try:
            # What a process was started with is there to read a moment after it has begun.
            wait_until(lambda: process.pid in processes_marked(machine.mark))
            yield process.pid
        finally:
            process.kill()


def measure_again(store: Store) -> None:
    """Let the newest run be there twice."""
    newest = load_document(store, load_runs(store)[0].run.id)
    run = replace(newest.run, id="again")
    for result in newest.results:
        again = replace(result, id=f"again {result.id}", run_id=run.id)
        store.ingest(run, again, spool_id=again.id)


def test_missing_duplicate_and_left_over_items_are_reported(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmarks.nights.machine, "GRACE_S", 0.0)
    folder = tmp_path / "copy"
    shutil.copytree(machine.folder, folder)
    planted = Machine(folder, config="")
    store = Store(f"duckdb:///{planted.store_path}")
    with store.write() as connection:
        connection.execute(
            delete(JobTable).where(JobTable.c.dedupe_key == "berlin 2026-03-28T02:30")
        )
    measure_again(store)
    (folder / RECEIVED).unlink()
    (planted.state / "spool" / "late.json").touch()
    with stray(planted) as pid:
        planted.look_for_orphans("a kill")
    missing, duplicate, orphan, left, *losses = problems(gather(planted))
    assert (missing.split()[0], missing.split()[-1]) == ("missing:", "2026-03-28)")
    assert duplicate == "duplicate: 2 runs (berlin 2026-03-29)"
    assert (orphan.split()[0], str(pid) in orphan) == ("orphan:", True)
    assert left == "left over: spool/late.json"
    # The result of each run, the alert and the message about it.
    assert [text.partition(":")[0] for text in losses] == ["lost alert"] * 4


def test_a_duplicate_message_is_reported(evidence: Evidence) -> None:
    (problem,) = problems(replace(evidence, taken=evidence.taken * 2))
    assert problem.startswith("duplicate: 'hangs/inference/default/fp32/eager/cuda: outcome ")
    assert problem.endswith(" taken 2 times")


def test_a_night_without_result_run_or_reason_is_reported(evidence: Evidence) -> None:
    first, second = evidence.documents
    cut = replace(evidence, documents=(first, replace(second, results=second.results[:2])))
    assert problems(cut)[0].startswith("missing: no result of leaks/")
    assert problems(replace(evidence, documents=(first,)))[0].startswith("missing: no run")
    jobs = tuple(replace(job, state=JobState.FAILED, reason="") for job in evidence.jobs)
    assert problems(replace(evidence, jobs=jobs))[0].startswith("missing: its job ")
    jobs = tuple(
        replace(job, state=JobState.FAILED, reason="the disk is full") for job in evidence.jobs
    )
    assert problems(replace(evidence, jobs=jobs)) == []


def test_a_slowdown_without_an_alert_is_reported(evidence: Evidence) -> None:
    plan = replace(PLAN, troubles={1: (FaultKind.SLOWER,)})
    (problem,) = problems(evidence, plan=plan)
    assert problem.startswith("lost alert: ")


def test_a_clock_that_steps_shows_a_time_never_or_twice() -> None:
    times = {
        (rule.name, night.isoformat()): [f"{at:%d %H:%M}" for at in rule.moments(night)]
        for rule, night in (
            (BERLIN, date(2026, 3, 28)),
            (BERLIN, date(2026, 3, 29)),
            (SYDNEY, date(2026, 4, 5)),
        )
    }
    # 02:30 is there never in the second night, and twice in the third.
    assert times == {
        ("berlin", "2026-03-28"): ["28 01:30"],
        ("berlin", "2026-03-29"): ["29 00:30", "29 01:30"],
        ("sydney", "2026-04-05"): ["04 15:30", "04 16:30"],
    }
