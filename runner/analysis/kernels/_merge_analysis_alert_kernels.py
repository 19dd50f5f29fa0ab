"""Between which results the kernels behind an alert are looked for, and in which direction."""

from __future__ import annotations

from compile_hud.db.records.alerts import VANISHED
from compile_hud.db.records.results import Alert, Verdict

# What an iteration costs. What compiling costs, or memory, is not a matter of single kernels.
_METRICS = (
    "latency_s",
    "latency_cpu_s",
    "speedup",
    "throughput_samples_per_s",
    "throughput_tokens_per_s",
    "num_kernels",
)


def kernel_ends(alert: Alert) -> tuple[tuple[str, str], ...]:
    """Return run and case of the last good and of the first bad result of `alert`.

    None for alerts of which no kernel is a cause, as of a metric that is no longer there, and
    without a last good run.
    """
    if alert.metric not in _METRICS or alert.kind == VANISHED or alert.last_good is None:
        return ()
    key = alert.case.key
    return (alert.last_good.run_id, key), (alert.first_bad.run_id, key)


def is_about_slower(alert: Alert) -> bool:
    """Return whether kernels that became slower are behind `alert`."""
    return alert.verdict is not Verdict.IMPROVEMENT
