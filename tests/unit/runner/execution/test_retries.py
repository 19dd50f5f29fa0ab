"""The cases that are measured again, and those that never are."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.results import CaseResult, Outcome
from compile_hud.runner.errors import DeviceUnavailable, DiskFull
from compile_hud.runner.execution.launch_aggregation import (
    DISK_FULL,
    HOST_DIED,
    Ending,
    report_of_ending,
)
from compile_hud.runner.execution.retries import (
    MAX_ATTEMPTS,
    is_device_lost,
    is_infrastructure_failure,
    measure_with_retries,
)
from tests.support.builders import make_case, make_result

KILLED = make_result(
    outcome=Outcome.FAILED,
    reason="the worker was killed by SIGKILL",
    details={"ended_by": "SIGKILL"},
    measurements=(),
)
DEVICE_LOST = make_result(
    outcome=Outcome.FAILED,
    case=make_case(device="cuda"),
    reason="the step warm_up failed: CUDA error: no CUDA-capable device is detected",
    measurements=(),
)
FULL = make_result(
    outcome=Outcome.FAILED,
    reason="the disk under /state/work is full; the worker ended with status 1",
    details={"ended_by": DISK_FULL},
    measurements=(),
)
OK = make_result()


def measure(*results: CaseResult, is_stopped: bool = False) -> tuple[CaseResult, int]:
    """Return what a case with these results in turn comes to, and how many were taken."""
    left = list(results)
    final = measure_with_retries(
        (), measure_case=lambda _sides: (left.pop(0),), is_stopped=lambda: is_stopped
    )
    return final[0], len(results) - len(left)


@pytest.mark.parametrize(
    ("ending", "is_again"),
    [
        (Ending(text="signal 9"), True),
        (Ending(text="signal 15"), True),
        (HOST_DIED, True),
        (Ending(text="signal 9", was_oom_killed=True), False),
        (Ending(text="signal 11"), False),
        (Ending(text="signal 6"), False),
        (Ending(text="timeout"), False),
        (Ending(text="cancelled"), False),
        (Ending(text="exit 1"), False),
    ],
)
def test_only_what_ended_a_worker_from_outside_is_no_result(ending: Ending, is_again: bool) -> None:
    report = report_of_ending(ending, log_tail="", limit_s=1.0)
    result = make_result(
        outcome=report.outcome, reason=report.reason, details=report.details, measurements=()
    )
    assert is_infrastructure_failure(result) is is_again


@pytest.mark.parametrize("outcome", [item for item in Outcome if item is not Outcome.FAILED])
def test_no_other_outcome_is_measured_again(outcome: Outcome) -> None:
    measurements = None if outcome is Outcome.OK else ()
    result = make_result(
        outcome=outcome, details={"ended_by": "SIGKILL"}, measurements=measurements
    )
    assert measure(result) == (result, 1)


def test_a_case_whose_worker_was_killed_is_measured_again_and_says_so(
    words: SnapshotAssertion,
) -> None:
    result, number = measure(KILLED, KILLED, OK)
    assert (result.outcome, number) == (Outcome.OK, 3)
    (warning,) = result.warnings
    assert warning.code == "measured-again"
    assert warning.text == (words)


def test_a_worker_that_is_killed_every_time_is_the_result() -> None:
    result, number = measure(*[KILLED] * MAX_ATTEMPTS, OK)
    assert (result.outcome, number) == (Outcome.FAILED, MAX_ATTEMPTS)
    assert result.warnings[0].text.startswith("attempt 3; before it: ")


def test_nothing_is_measured_again_once_the_run_is_stopped() -> None:
    assert measure(KILLED, OK, is_stopped=True) == (KILLED, 1)


def test_an_unavailable_device_ends_the_run(words: SnapshotAssertion) -> None:
    assert is_device_lost(DEVICE_LOST)
    assert measure(DEVICE_LOST, OK)[0].outcome is Outcome.OK
    with pytest.raises(DeviceUnavailable) as caught:
        measure(*[DEVICE_LOST] * MAX_ATTEMPTS)
    assert caught.value.parameters["device"] == "cuda"
    assert str(caught.value) == words


def test_a_cpu_is_never_unavailable() -> None:
    result = make_result(outcome=Outcome.FAILED, reason=DEVICE_LOST.reason, measurements=())
    assert not is_device_lost(result)


def test_a_disk_that_stays_full_ends_the_run_and_blames_no_case(words: SnapshotAssertion) -> None:
    assert measure(FULL, OK)[0].outcome is Outcome.OK
    with pytest.raises(DiskFull) as caught:
        measure(*[FULL] * MAX_ATTEMPTS)
    assert caught.value.parameters.keys() == {"case", "reason"}
    assert str(caught.value) == words
