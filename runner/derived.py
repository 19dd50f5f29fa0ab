"""Measurements that follow from others of the same case result. Pure; knows no process."""

from __future__ import annotations

from collections.abc import Mapping

from db.metrics import METRICS
from db.records import Measurement


def break_even(measured: Mapping[str, Measurement]) -> tuple[Measurement, ...]:
    """Return after how many calls the cold and the warm compile are paid back by faster ones.

    Nothing where the variant is not significantly faster: the interval of its speedup holds 1.
    """
    speedup = measured.get("speedup")
    # The clock of the speedup: wall time grows with whatever else the machine does.
    latency = measured.get("latency_cpu_s") or measured.get("latency_s")
    if speedup is None or latency is None or speedup.interval[0] <= 1:
        return ()
    found = []
    for name, cost in (
        ("break_even_calls", measured.get("compile_cold_s")),
        ("break_even_warm_calls", measured.get("compile_warm_s")),
    ):
        if cost is None:
            continue
        # Eager minus compiled latency, by the ratio of the two: it repeats where either one drifts.
        least, most = (
            side * (ratio - 1)
            for side, ratio in zip(latency.interval, speedup.interval, strict=True)
        )
        calls = cost.median / (latency.median * (speedup.median - 1))
        found.append(
            Measurement(
                metric=name,
                unit=METRICS[name].unit,
                samples=(calls,),
                launches=(1,),
                median=calls,
                interval=(cost.interval[0] / most, cost.interval[1] / least),
                method=f"{cost.metric} / ({latency.metric} x (speedup - 1))",
            )
        )
    return tuple(found)
