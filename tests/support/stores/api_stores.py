"""A store with one of each object that the API and the tools of agents send."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from compile_hud.db.alerts.annotations import new_annotation, put_annotations
from compile_hud.db.records.results import RunState
from compile_hud.db.store import Store
from compile_hud.runner.analysis.release.runs import ReleaseRules
from tests.support.builders import (
    START,
    make_alert,
    make_case,
    make_kernel,
    make_measurement,
    make_result,
    make_run,
    make_run_ref,
)
from tests.support.stores.stored_results import save_alerts

CASE = make_case("bert", shape="full")
EAGER = make_case("bert", shape="full", mode="eager")


def fill_for_api(store: Store) -> None:
    """Write two runs, kernels, findings, an alert and a note, under the names of the examples."""
    for number in (1, 2):
        run = make_run(
            f"run-{number}",
            plan=(EAGER, CASE),
            started_at=START.replace(day=number),
            finished_at=START.replace(day=number),
            state=RunState.FINISHED,
            suite="nightly",
        )
        results = [
            make_result(f"{run.id}-eager", run=run, case=EAGER),
            make_result(
                f"{run.id}-default",
                run=run,
                case=CASE,
                kernels=[make_kernel()],
                measurements=[
                    make_measurement(),
                    make_measurement("speedup", samples=(1.4, 1.5, 1.6)),
                ],
                details={"graph_breaks": [{"reason": "print", "line": "model.py:7"}]},
            ),
        ]
        store.ingest_all(run, [(result.id, result) for result in results])
    alert = make_alert(case=CASE, first_bad=make_run_ref(run))
    save_alerts(store, [replace(alert, event_id="event-1")])
    note = new_annotation("driver 570", at=START, pattern="bert/*", by="ada", made_at=START)
    put_annotations(store, [note])


def add_release(store: Store) -> None:
    """Write a release from stable to next, of the day before the other runs."""
    trigger = ReleaseRules(baseline="stable", candidate="next").trigger
    start = START - timedelta(days=1)
    for toolchain, at in (("stable", start), ("next", start + timedelta(minutes=1))):
        run = make_run(
            f"release-{toolchain}",
            plan=(CASE,),
            started_at=at,
            finished_at=at + timedelta(minutes=5),
            suite="nightly",
            toolchain=toolchain,
            trigger=trigger,
        )
        result = make_result(f"{run.id}-default", run=run, case=CASE)
        store.ingest_all(run, [(result.id, result)])
