"""A store of random results of the modes, stored in each of the ways in which results come."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from compile_hud.db.ingest.imported_history import put_imported
from compile_hud.db.ingest.results import put_documents
from compile_hud.db.records.metrics import MODE_METRICS
from compile_hud.db.records.results import (
    DEFERRED,
    MODES,
    REFERENCE_FAMILY,
    SAME_CODE_AS,
    Case,
    CaseResult,
    Outcome,
    Run,
    RunDocument,
)
from compile_hud.db.store import Store
from tests.support.builders import START, make_case, make_measurement, make_result, make_run

CASES: Final = (
    *(make_case(model, mode=mode) for model in ("gpt", "unet/xl") for mode in MODES),
    make_case("gpt", mode="default", variant="mine"),
    make_case("gemm", family=REFERENCE_FAMILY, mode="eager"),
)
METRICS: Final = (*MODE_METRICS, "latency_s")
SCOPES: Final = [("box", "stable"), ("box", "nightly"), ("shed", "stable")]


def fill_drawn(store: Store, *, seed: int) -> None:
    """Store eight runs of CASES in SCOPES, some cases twice or more."""
    draw = random.Random(seed)
    for number in range(8):
        run = _drawn_run(draw, number)
        cases = draw.sample(CASES, k=draw.randrange(2, len(CASES)))
        again = draw.sample(cases, k=2) if draw.random() < 0.6 else []
        results = [
            _drawn_result(draw, run, case=case, name=f"{number}-{index}")
            for index, case in enumerate([*cases, *again])
        ]
        first, rest = results[: len(cases)], results[len(cases) :]
        document = RunDocument(run=run, results=tuple(first))
        way = draw.choice(["one by one", "at once", "document", "import"])
        if way == "one by one":
            for result in results:
                store.ingest(run, result, spool_id=result.id)
        elif way == "at once":
            store.ingest_all(run, [(result.id, result) for result in results])
        elif way == "document":
            with store.write() as connection:
                put_documents(connection, [document], at=START)
            store.ingest_all(run, [(result.id, result) for result in [*first, *rest]])
        else:
            put_imported(store, [document], at=START, merge=_merged)
            put_imported(
                store, [RunDocument(run=run, results=tuple(rest))], at=START, merge=_merged
            )


def _drawn_run(draw: random.Random, number: int) -> Run:
    machine, toolchain = draw.choice(SCOPES)
    return make_run(
        f"{draw.randrange(100):02}-{number}",
        plan=CASES,
        machine=machine,
        toolchain=toolchain,
        started_at=START + timedelta(days=draw.randrange(60)),
    )


def _drawn_result(draw: random.Random, run: Run, *, case: Case, name: str) -> CaseResult:
    outcome, reason = draw.choice(
        [
            (Outcome.OK, ""),
            (Outcome.OK, ""),
            (Outcome.FAILED, "RuntimeError: no kernel"),
            (Outcome.SAME_CODE, f"{SAME_CODE_AS}{draw.choice(['eager', 'default', 'gone'])}"),
            (Outcome.SAME_CODE, "in other words"),
            (Outcome.SKIPPED, f"{DEFERRED}: no time left"),
            (Outcome.SKIPPED, "needs a GPU"),
            (Outcome.UNAVAILABLE, "no CUDA graphs"),
        ]
    )
    return make_result(
        f"{draw.randrange(10**6):06}-{name}",
        run=run,
        case=case,
        outcome=outcome,
        reason=reason,
        effective_mode=draw.choice([case.mode, "eager", "default", "odd", ""]),
        finished_at=run.started_at + timedelta(seconds=draw.randrange(1, 5)),
        measurements=_drawn_measurements(draw) if outcome is Outcome.OK else (),
    )


def _drawn_measurements(draw: random.Random) -> list[Any]:
    return [
        make_measurement(name, samples=(draw.random(), 1 + draw.random(), 3 + draw.random()))
        for name in draw.sample(METRICS, k=draw.randrange(1, len(METRICS)))
    ]


def _merged(before: CaseResult, after: CaseResult) -> CaseResult:
    """Return the numbers of two imported results under a new id."""
    if Outcome.OK not in (before.outcome, after.outcome):
        return replace(after, id=f"{before.id}+{after.id}")
    by_metric = {item.metric: item for item in (*before.measurements, *after.measurements)}
    return replace(
        after,
        id=f"{before.id}+{after.id}",
        outcome=Outcome.OK,
        reason="",
        measurements=tuple(by_metric.values()),
    )
