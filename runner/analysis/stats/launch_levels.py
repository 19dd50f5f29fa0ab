"""The level of each launch: the number that represents a launch in comparisons.

Method: the median of a launch's samples. A time on a CPU is then normalised: divided by the speed
probe of the same launch (the CPU time of a fixed piece of work, taken in every round between the
samples), times a common probe. Measured (docs/explanation/measurement.md, "Machine speed"):
launches of one build then differ half as much. Assumptions: a slowdown of the machine (its clock, a
neighbour on the same core) slows the fixed work and the model alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from compile_hud.db.records.results import CaseResult, Measurement
from compile_hud.runner.analysis.stats.estimates import launch_medians

SPEED_PROBE = "pace_s"
NORMALISED_TIMES = ("latency_s", "latency_cpu_s", "eager_latency_s", "eager_latency_cpu_s")


def launch_levels(
    result: CaseResult, metric: str, *, speed_probe_s: float | None = None
) -> np.ndarray:
    """Return the level of `metric` in each launch that measured it, in the metric's unit.

    A time with a speed probe is normalised to `speed_probe_s`, by default the median probe of the
    result's own launches. Raises ValueError if `result` does not have `metric`.
    """
    measured = {item.metric: item for item in result.measurements}
    if metric not in measured:
        raise ValueError(f"{result.case.key} has no {metric}")
    return measured_levels(measured, metric, speed_probe_s=speed_probe_s)


def level_at(result: CaseResult, metric: str, *, speed_probe_s: float | None) -> float:
    """Return the level of `metric` in `result`, a time normalised to a known `speed_probe_s`.

    Raises ValueError if `result` does not have `metric`.
    """
    measured = result.measurement(metric)
    if measured is not None and (speed_probe_s is None or metric not in NORMALISED_TIMES):
        return measured.median
    return float(np.median(launch_levels(result, metric, speed_probe_s=speed_probe_s)))


def measured_levels(
    measured: Mapping[str, Measurement], metric: str, *, speed_probe_s: float | None = None
) -> np.ndarray:
    """Return the level of `metric`, one of `measured`, in each launch (see `launch_levels`)."""
    levels = _medians(measured[metric])
    paces = _speed_probes(measured, metric)
    if paces is None:
        return levels
    common = float(np.median(paces)) if speed_probe_s is None else speed_probe_s
    return np.asarray(levels * (common / paces))


def speed_probe_levels(result: CaseResult, metric: str) -> np.ndarray | None:
    """Return the speed probe of each launch of the time `metric`; None unless all have one."""
    measured = {item.metric: item for item in result.measurements}
    return _speed_probes(measured, metric) if metric in measured else None


def common_speed_probe_s(*results: CaseResult) -> float | None:
    """Return the geometric mean of the speed probes of `results`; None unless all have one."""
    logs = []
    for result in results:
        probe = result.measurement(SPEED_PROBE)
        if probe is None or probe.median <= 0:
            return None
        logs.append(math.log(float(np.median(_medians(probe)))))
    return math.exp(sum(logs) / len(logs))


def _speed_probes(measured: Mapping[str, Measurement], metric: str) -> np.ndarray | None:
    """Return the speed probe of each launch of the time `metric`, None unless all have one."""
    probe = measured.get(SPEED_PROBE)
    if (
        metric not in NORMALISED_TIMES
        or probe is None
        or probe.launches != measured[metric].launches
    ):
        return None
    paces = _medians(probe)
    return paces if paces.min() > 0 else None


def _medians(measurement: Measurement) -> np.ndarray:
    return np.asarray(launch_medians(measurement.samples, launches=measurement.launches))
