"""Retry a case when its machine failed: worker killed, device missing, disk full.

A case is never retried because of its own result: slow or wrong output, a timeout, too little
memory and a crash of the code are results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from compile_hud.db.records.results import CaseResult, Outcome
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.db.shared.text import first_line
from compile_hud.runner.errors import DeviceUnavailable, DiskFull
from compile_hud.runner.execution.launch_aggregation import DISK_FULL
from compile_hud.runner.execution.paired_launches import PairSide

# A worker that is killed three times over is killed for a reason that will not go away by itself.
MAX_ATTEMPTS = 3
# These signals come from outside. Compiled code itself causes segmentation faults, aborts and
# illegal instructions; they belong to the result.
OUTER_SIGNALS = ("SIGKILL", "SIGTERM", "SIGHUP", "SIGINT")
ENDED_BY_OTHERS = (*OUTER_SIGNALS, "host died", DISK_FULL)
# Messages of CUDA and its driver for a device that no process can use. The texts are from
# cudaGetErrorString and torch.cuda; faulty code causes none of them.
LOST_DEVICE_TEXTS = (
    "no CUDA-capable device is detected",
    "CUDA-capable device(s) is/are busy or unavailable",
    "CUDA driver initialization failed",
    "GPU is lost",
    "uncorrectable ECC error",
    "uncorrectable NVLink error",
    "system not yet initialized",
)
_GOES_ON = (
    "`hud run --resume RUN` (`hud runs` has its id) goes on from this case then, and `hud schedule`"
    " does by itself"
)


def is_infrastructure_failure(result: CaseResult) -> bool:
    """Return whether `result` failed because of its machine rather than its case."""
    return is_device_lost(result) or (
        result.outcome is Outcome.FAILED and result.details.get("ended_by") in ENDED_BY_OTHERS
    )


def is_device_lost(result: CaseResult) -> bool:
    """Return whether the device had disappeared."""
    is_failed = result.outcome is Outcome.FAILED and result.case.device != "cpu"
    return is_failed and any(text in result.reason for text in LOST_DEVICE_TEXTS)


def measure_with_retries(
    sides: Sequence[PairSide],
    *,
    measure_case: Callable[[Sequence[PairSide]], Sequence[CaseResult]],
    is_stopped: Callable[[], bool],
    earlier: Sequence[str] = (),
) -> tuple[CaseResult, ...]:
    """Return the results of a case, retried on infrastructure failures.

    It is measured at most MAX_ATTEMPTS times, and not again once `is_stopped`. A warning of the
    result lists the failed attempts, and the reasons of `earlier` ones. Raises
    DeviceUnavailable and DiskFull of the last attempt.
    """
    reasons = list(earlier)
    for _ in range(MAX_ATTEMPTS - len(earlier)):
        results = measure_case(sides)
        disturbed = [result for result in results if is_infrastructure_failure(result)]
        if not disturbed or is_stopped():
            break
        reasons.append(first_line(disturbed[0].reason))
    else:
        if is_device_lost(disturbed[0]):
            raise DeviceUnavailable(
                f"the device {disturbed[0].case.device} is lost: {reasons[-1]}. `hud doctor`"
                f" looks at it; {_GOES_ON}",
                device=disturbed[0].case.device,
                reason=reasons[-1],
            )
        if disturbed[0].details.get("ended_by") == DISK_FULL:
            raise DiskFull(
                f"{disturbed[0].case.key} cannot be measured: {reasons[-1]}. Make room; {_GOES_ON}",
                case=disturbed[0].case.key,
                reason=reasons[-1],
            )
        reasons.pop()
    return tuple(_with_attempts(result, reasons=reasons) for result in results)


def _with_attempts(result: CaseResult, *, reasons: Sequence[str]) -> CaseResult:
    if not reasons:
        return result
    warning = RunWarning(
        code="measured-again",
        text=f"attempt {len(reasons) + 1}; before it: {'; '.join(reasons)}",
        hint="look at the system's log (`journalctl -k`) for who killed the worker",
    )
    return replace(result, warnings=(*result.warnings, warning))
