"""Jobs that people ask for: a suite, or one case alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from db.health import load_health
from db.jobs import Job, JobState, case_of_suite, suite_of_case
from db.queries import load_runs
from models_zoo.spec import UnknownNameError
from runner.asked import order_of
from runner.suites import BUILTIN_SUITES
from tests.integration.queueing import Place


def job(suite: str) -> Job:
    """Return a job that is leased."""
    return Job(
        id="job-1",
        dedupe_key="asked",
        suite=suite,
        toolchain="current",
        trigger="tom",
        num_attempts=1,
    )


def test_a_suite_is_that_of_the_settings() -> None:
    order = order_of(job("quick"), suites=BUILTIN_SUITES, trigger="job 1")
    assert (order.suite.name, order.device, order.trigger) == ("quick", "auto", "job 1")
    assert case_of_suite("quick") == ""


def test_one_case_is_measured_as_its_command_does() -> None:
    suite = suite_of_case("org/my[1]/training/tiny/fp32/default/cpu")
    order = order_of(job(suite), suites={}, trigger="job 1")
    selection = order.suite.selection
    assert selection.models == ("org/my[[]1]",)
    assert (selection.phases, selection.shapes, selection.dtypes, selection.modes) == (
        ("training",),
        ("tiny",),
        ("fp32",),
        ("default",),
    )
    assert order.device == "cpu"


def test_what_is_no_case_is_said_to_be() -> None:
    with pytest.raises(UnknownNameError, match="no case 'bert/cpu': a case has 6 parts"):
        order_of(job("case bert/cpu"), suites={}, trigger="job 1")


def test_a_case_that_is_asked_for_is_run_alone(tmp_path: Path) -> None:
    place = Place(tmp_path)
    key = "bert/inference/tiny/fp32/default/cpu"
    place.store.enqueue_job(
        dedupe_key="asked", suite=suite_of_case(key), toolchain="current", trigger="tom: again"
    )
    assert place.loop.run_queued() == ""
    (ended,) = load_health(place.store).ended_jobs
    assert (ended.state, ended.reason) == (JobState.DONE, "")
    (run,) = load_runs(place.store)
    assert [case.key for case in run.run.plan] == [key]


def test_a_case_that_nobody_knows_fails_with_its_reason(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.store.enqueue_job(
        dedupe_key="asked",
        suite=suite_of_case("gone/inference/tiny/fp32/default/cpu"),
        toolchain="current",
        trigger="tom",
    )
    place.loop.run_queued()
    (ended,) = load_health(place.store).ended_jobs
    assert ended.state is JobState.FAILED
    assert "gone" in ended.reason
