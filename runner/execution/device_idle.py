"""Wait until nobody else computes on the device that is about to be measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from compile_hud.db.records.results import CaseResult
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.runner.events import LogMessage, Notify
from compile_hud.runner.format import clock

# A process that ends gives the device back at once; looking takes nvidia-smi 0.1 s of a core.
POLL_INTERVAL_S = 15.0

# The same code as the worker's (measure/telemetry.py): it is one fact, seen from two places.
SHARED = "shared-gpu"

DeviceUsers = Callable[[str], tuple[str, ...]]


def with_users(result: CaseResult, *, users: Sequence[str]) -> CaseResult:
    """Return `result` with a warning when `users` had its device before it was measured.

    The worker says the same, with what it saw itself, where it can ask NVML.
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
    """Return who still computes on `device` after at most `limit_s` seconds; nobody when idle.

    Said once when it begins to wait, and once when it is over.
    """
    users_present = users(device)
    if not users_present:
        return ()
    until = now() + timedelta(seconds=limit_s)
    if limit_s:
        text = f"waiting up to {clock(limit_s)} for device {device}, used by {', '.join(users_present)}"
        notify(LogMessage(text=text))
    while users_present and now() < until:
        sleep(min(POLL_INTERVAL_S, (until - now()).total_seconds()))
        users_present = users(device)
    if users_present:
        text = f"device {device} is used by {', '.join(users_present)}; measuring all the same"
        notify(LogMessage(text=text, is_warning=True))
    return users_present
