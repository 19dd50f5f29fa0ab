"""Wait until no other process uses the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from compile_hud.db.records.results import CaseResult
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.runner.events import LogMessage, Notify
from compile_hud.runner.format import clock

# A process that ends frees the device at once; a look costs nvidia-smi 0.1 s of a core.
POLL_INTERVAL_S = 15.0

# The same code as the worker's (measure/telemetry.py): it is one fact, seen from two places.
SHARED = "shared-gpu"

DeviceUsers = Callable[[str], tuple[str, ...]]


def with_users(result: CaseResult, *, users: Sequence[str]) -> CaseResult:
    """Return `result` with a warning when `users` had its device before it was measured.

    The worker adds the same warning from its own readings where NVML is available.
    """
    if not users or any(warning.code == SHARED for warning in result.warnings):
        return result
    warning = RunWarning(
        code=SHARED,
        text=f"when the run began, this GPU was used by {', '.join(users)}",
        hint="leave the device to one process at a time, or let [run] wait_idle be longer",
    )
    return replace(result, warnings=(*result.warnings, warning))


def wait_until_idle(
    device: str,
    *,
    users: DeviceUsers,
    limit_s: float,
    now: Callable[[], datetime],
    sleep: Callable[[float], None],
    notify: Notify,
) -> tuple[str, ...]:
    """Return the processes that still use `device` after at most `limit_s` seconds.

    Reports the start of the wait and a device that stays busy.
    """
    present = users(device)
    if not present:
        return ()
    until = now() + timedelta(seconds=limit_s)
    if limit_s:
        text = f"waiting up to {clock(limit_s)} for device {device}, used by {', '.join(present)}"
        notify(LogMessage(text=text))
    while present and now() < until:
        sleep(min(POLL_INTERVAL_S, (until - now()).total_seconds()))
        present = users(device)
    if present:
        text = f"device {device} is used by {', '.join(present)}; measuring all the same"
        notify(LogMessage(text=text, is_warning=True))
    return present
