"""Measurements that follow from others of the same case result. Pure; knows no process."""

from __future__ import annotations

from collections.abc import Mapping

from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.results import Measurement
from compile_hud.runner.analysis.stats.break_even import calls_to_pay_back
from compile_hud.runner.analysis.stats.estimates import Estimate


def break_even(measured: Mapping[str, Measurement]) -> tuple[Measurement, ...]:
    """Return after how many calls the cold and the warm compile are paid back by faster ones.

    Nothing where the variant is not significantly faster: the interval of its speedup holds 1.
    """
    speedup = measured.get("speedup")
    # The clock of the speedup: wall time grows with whatever else the machine does.
    latency = measured.get("latency_cpu_s") or measured.get("latency_s")
    if speedup is None or latency is None:
        return ()
    found = []
    for name, cost in (
        ("break_even_calls", measured.get("compile_cold_s")),
        ("break_even_warm_calls", measured.get("compile_warm_s")),
    ):
        if cost is None:
            continue
        calls = calls_to_pay_back(
            _estimate(cost), latency=_estimate(latency), speedup=_estimate(speedup)
        )
        if calls is not None:
            found.append(
                Measurement(
                    metric=name,
                    unit=METRICS[name].unit,
                    samples=(calls.value,),
                    launches=(1,),
                    median=calls.value,
                    interval=(calls.low, calls.high),
                    method=f"{cost.metric} / ({latency.metric} x (speedup - 1))",
                )
            )
    return tuple(found)


def _estimate(measured: Measurement) -> Estimate:
    return Estimate(measured.median, *measured.interval)
