"""A request for a measurement, queued for the scheduler of a machine."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from compile_hud.db.jobs.health import load_health
from compile_hud.db.jobs.queue import suite_of_case
from compile_hud.db.queries.results import load_result_summaries
from compile_hud.db.records.results import CUSTOM_SUITE
from compile_hud.db.shared.text import one_line, shortened
from compile_hud.db.store import Store
from compile_hud.runner.documents.cases import find_case
from compile_hud.runner.documents.stored_runs import find_run
from compile_hud.runner.errors import InvalidParameter

_MAX_REASON = 200


def request_measurement(
    store: Store, run_name: str, *, case_name: str, by: str, reason: str, now: datetime
) -> dict[str, Any]:
    """Queue the suite of a run, or one of its cases, on the run's machine and toolchain.

    An equal job that waits or runs is not queued twice. Raises NotFoundError, and InvalidParameter
    for a run of a selection by hand without a case.
    """
    run = find_run(run_name, store=store)
    suite = run.suite
    if case_name:
        results = load_result_summaries(store, run.id)
        suite = suite_of_case(find_case(results, case_name, run=run.id).case.key)
    elif suite == CUSTOM_SUITE:
        text = f"run {run.id} is of a selection by hand, which has no name; name one of its cases"
        raise InvalidParameter(text, hint="")
    job = {"suite": suite, "toolchain": run.toolchain, "machine": run.machine}
    if _is_open(store, **job):
        return {**job, "is_queued": False, "reason": "an equal job waits or runs already"}
    why = shortened(one_line(reason), limit=_MAX_REASON)
    is_new = store.enqueue_job(
        dedupe_key=f"asked {suite} {run.toolchain} {now:%Y-%m-%dT%H:%M}",
        trigger=f"{one_line(by)}: {why}" if why else one_line(by),
        **job,
    )
    return {
        **job,
        "is_queued": is_new,
        "reason": "" if is_new else "an equal job was queued in this minute already",
    }


def _is_open(store: Store, *, suite: str, toolchain: str, machine: str) -> bool:
    return any(
        (job.suite, job.toolchain) == (suite, toolchain) and job.machine in (None, machine)
        for job in load_health(store, num_ended=0).open_jobs
    )
