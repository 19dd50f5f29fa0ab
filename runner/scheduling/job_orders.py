"""The run request of a queued job: a suite of the settings, or a single case."""

from __future__ import annotations

from collections.abc import Mapping

from compile_hud.db.errors import RecordError
from compile_hud.db.jobs.queue import Job, case_of_suite
from compile_hud.db.queries.runs import load_suites_of
from compile_hud.db.records.results import Case
from compile_hud.db.store import Store
from compile_hud.models_zoo.catalog.errors import UnknownNameError
from compile_hud.runner.analysis.repro import glob_escape
from compile_hud.runner.config.schedules import Schedule
from compile_hud.runner.planning.plan import find_suite
from compile_hud.runner.planning.suites import Selection, Suite, custom_suite
from compile_hud.runner.run_requests import AUTO_DEVICE, RunRequest


def request_for_job(job: Job, *, suites: Mapping[str, Suite], trigger: str) -> RunRequest:
    """Return the request for `job`; raise UnknownNameError for an unknown suite or case."""
    case_key = case_of_suite(job.suite)
    if not case_key:
        suite, device = find_suite(job.suite, suites=suites), AUTO_DEVICE
    else:
        suite, device = _suite_of(case_key)
    return RunRequest(suite=suite, toolchain=job.toolchain, device=device, trigger=trigger)


def schedule_of(job: Job, schedules: Mapping[str, Schedule]) -> Schedule | None:
    """Return the schedule of a job, None without one or if hud.toml has it no more."""
    named = (item for item in schedules.values() if job.trigger == f"schedule {item.name}")
    return next(named, None)


def schedule_like(job: Job, schedules: Mapping[str, Schedule], *, store: Store) -> Schedule | None:
    """Return the schedule that measures the cases of `job`, or None.

    For a single case it is the schedule of the suite that measured it last. Raises StoreError.
    """
    case_key = case_of_suite(job.suite)
    suites = load_suites_of(store, case_key, toolchain=job.toolchain) if case_key else (job.suite,)
    # The first matching schedule in hud.toml counts.
    alike = {
        item.suite: item
        for item in reversed(tuple(schedules.values()))
        if item.toolchain == job.toolchain
    }
    return next((alike[suite] for suite in suites if suite in alike), None)


def _suite_of(case_key: str) -> tuple[Suite, str]:
    """Return the suite of a single case and its device."""
    try:
        key = Case.parse_key(case_key)
    except RecordError as error:
        raise UnknownNameError(str(error)) from error
    selection = Selection(
        models=(glob_escape(key.model),),
        modes=(glob_escape(key.variant),),
        phases=(key.phase,),
        dtypes=(key.dtype,),
        shapes=(key.shape,),
    )
    return custom_suite(selection), key.device
