"""The run request of a queued job: a suite of the settings, or a single case."""

from __future__ import annotations

from collections.abc import Mapping

from compile_hud.db.jobs.queue import Job, case_of_suite
from compile_hud.db.queries.runs import load_suites_of
from compile_hud.db.store import Store
from compile_hud.models_zoo.catalog.errors import UnknownNameError
from compile_hud.runner.analysis.repro import glob_escape
from compile_hud.runner.config.schedules import Schedule
from compile_hud.runner.planning.plan import find_suite
from compile_hud.runner.planning.suites import Selection, Suite, custom_suite
from compile_hud.runner.run_requests import AUTO_DEVICE, RunRequest

# model, phase, shape, dtype, variant and device.
_NUM_PARTS = 6


def request_for_job(job: Job, *, suites: Mapping[str, Suite], trigger: str) -> RunRequest:
    """Return the order of `job`; raise UnknownNameError for a suite or case that cannot be."""
    case_key = case_of_suite(job.suite)
    if not case_key:
        suite, device = find_suite(job.suite, suites=suites), AUTO_DEVICE
    else:
        suite, device = _suite_of(case_key)
    return RunRequest(suite=suite, toolchain=job.toolchain, device=device, trigger=trigger)


def schedule_of(job: Job, schedules: Mapping[str, Schedule]) -> Schedule | None:
    """Return the schedule that a job is of, None when it is of none that there still is."""
    named = (item for item in schedules.values() if job.trigger == f"schedule {item.name}")
    return next(named, None)


def schedule_like(job: Job, schedules: Mapping[str, Schedule], *, store: Store) -> Schedule | None:
    """Return the schedule that measures the cases of `job`, or None.

    For a single case it is the schedule of the suite that measured it last. Raises StoreError.
    """
    case_key = case_of_suite(job.suite)
    suites = load_suites_of(store, case_key, toolchain=job.toolchain) if case_key else (job.suite,)
    # Of several the first one in hud.toml.
    alike = {
        item.suite: item
        for item in reversed(tuple(schedules.values()))
        if item.toolchain == job.toolchain
    }
    return next((alike[suite] for suite in suites if suite in alike), None)


def _suite_of(case_key: str) -> tuple[Suite, str]:
    """Return the suite of a single case and its device."""
    parts = case_key.rsplit("/", _NUM_PARTS - 1)
    if len(parts) != _NUM_PARTS:
        raise UnknownNameError(f"no case {case_key!r}: a case has {_NUM_PARTS} parts")
    model, phase, shape, dtype, variant, device = parts
    selection = Selection(
        models=(glob_escape(model),),
        modes=(glob_escape(variant),),
        phases=(phase,),
        dtypes=(dtype,),
        shapes=(shape,),
    )
    return custom_suite(selection), device
