"""A store with nights of three models in three modes, in which models fail, join and leave.

Speedups are 2 for `bert`, 4 for `vit` and 8 for `t5`, all modes alike. Night 2 measures `bert` only
and finds it twice as fast. `vit` fails in max-autotune from night 4 on, `t5` joins in night 3.
reduce-overhead has the code of default.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from compile_hud.db.ingest.results import put_documents
from compile_hud.db.records.results import Case, CaseResult, Outcome, Run, RunDocument
from compile_hud.db.store import Store
from tests.support.builders import START, make_case, make_measurement, make_result, make_run

NUM_NIGHTS = 6
MODES = ("eager", "default", "reduce-overhead", "max-autotune")
SPEEDUPS = {"bert": 2.0, "vit": 4.0, "t5": 8.0}
FAMILIES = {"bert": "transformer", "vit": "vision", "t5": "transformer"}
PARTIAL, JOINS, FAILS, DRIVER = 2, 3, 4, 5


def night(number: int) -> datetime:
    """Return the start of a night, counted from 0."""
    return START + timedelta(days=number)


def fill_trends(store: Store, *, machine: str = "box", num_nights: int = NUM_NIGHTS) -> None:
    """Write the first `num_nights` nights."""
    documents = [_document(number, machine) for number in range(num_nights)]
    with store.write() as connection:
        put_documents(connection, documents, at=night(num_nights))


def _document(number: int, machine: str) -> RunDocument:
    models = ["bert"] if number == PARTIAL else ["bert", "vit"]
    if number >= JOINS:
        models.append("t5")
    plan = [make_case(model, family=FAMILIES[model], mode=mode) for model in models
            for mode in MODES]  # fmt: skip
    driver = "580" if number >= DRIVER else "570"
    run = make_run(
        f"night-{number}-{machine}",
        plan=plan,
        started_at=night(number),
        finished_at=night(number) + timedelta(minutes=30),
        machine=machine,
        revision="2.13.0" if number < JOINS else "2.14.0",
        environment={"driver_version": driver, "model_commits": {"bert": f"c{number // 4}"}},
        fingerprint=driver * 20,
    )
    return RunDocument(run=run, results=tuple(_results(run, number)))


def _results(run: Run, number: int) -> Iterator[CaseResult]:
    for case in run.plan:
        yield _result(run, case, number)


def _result(run: Run, case: Case, number: int) -> CaseResult:
    result_id = f"{run.id}-{case.model}-{case.mode}"
    if case.mode == "reduce-overhead":
        return make_result(
            result_id,
            run=run,
            case=case,
            outcome=Outcome.SAME_CODE,
            reason="same code as default",
        )
    if case.model == "vit" and case.mode == "max-autotune" and number >= FAILS:
        return make_result(result_id, run=run, case=case, outcome=Outcome.FAILED)
    speedup = SPEEDUPS[case.model]
    if case.model == "bert" and number >= PARTIAL:
        speedup *= 2
    if case.is_eager:
        return make_result(result_id, run=run, case=case)
    numbers = {"speedup": speedup, "compile_cold_s": 10.0 * speedup, "peak_bytes": 1e9}
    measurements = [
        make_measurement(name, samples=(0.99 * value, value, 1.01 * value))
        for name, value in numbers.items()
    ]
    return make_result(result_id, run=run, case=case, measurements=measurements)
