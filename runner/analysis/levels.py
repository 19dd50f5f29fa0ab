"""The level of each launch: the number that comparisons take for what a launch measured.

Method: on a CPU the lower decile of a launch's samples, for a speedup the ratio of two such levels;
elsewhere the median. Whatever else the machine does makes a sample slower, never faster, so its
fastest samples are those that the code alone decides. Measured (docs/methodology.md, "The level of
a launch"): launches of one build differ by their deciles 0.7 times as much as by their medians on a
calm machine and half as much on a busy one.
Assumptions: a launch's samples differ by what disturbs them. What the code itself does to fewer
than nine of ten samples is not seen.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from db.records import CaseResult, Measurement
from runner.analysis.stats import launch_quantiles

LEVEL_QUANTILE = 0.1
MEDIAN = 0.5

_TIMES = ("latency_s", "latency_cpu_s", "eager_latency_s", "eager_latency_cpu_s")
# The clocks that a speedup may be taken on, the steadier one first, as in the worker.
_SPEEDUP_CLOCKS = (("eager_latency_cpu_s", "latency_cpu_s"), ("eager_latency_s", "latency_s"))


def launch_levels(result: CaseResult, metric: str) -> np.ndarray:
    """Return the level of `metric` in each launch that took it, in the metric's unit.

    Raises ValueError when `result` does not have `metric`.
    """
    measured = {item.metric: item for item in result.measurements}
    if metric not in measured:
        raise ValueError(f"{result.case.key} has no {metric}")
    return measured_levels(measured, metric, device=result.case.device)


def measured_levels(measured: Mapping[str, Measurement], metric: str, *, device: str) -> np.ndarray:
    """Return the level of `metric`, one of `measured` on a `device`, in each launch."""
    if metric == "speedup" and device == "cpu":
        for names in _SPEEDUP_CLOCKS:
            eager, variant = (measured.get(name) for name in names)
            if eager is not None and variant is not None and _are_pairs(eager, variant):
                ratio = _quantiles(eager, LEVEL_QUANTILE) / _quantiles(variant, LEVEL_QUANTILE)
                return np.asarray(ratio)
    is_time = metric in _TIMES and device == "cpu"
    return _quantiles(measured[metric], LEVEL_QUANTILE if is_time else MEDIAN)


def _are_pairs(eager: Measurement, variant: Measurement) -> bool:
    return eager.launches == variant.launches and min(variant.samples) > 0


def _quantiles(measurement: Measurement, quantile: float) -> np.ndarray:
    return np.asarray(
        launch_quantiles(measurement.samples, launches=measurement.launches, quantile=quantile)
    )
