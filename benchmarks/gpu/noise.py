"""Differences between processes of the same compiled case, in one campaign and between two."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.gpu.eager import launch_levels
from benchmarks.gpu.ledger import Row, rows
from compile_hud.db.records.results import Outcome, RunDocument

# From this share on the host decides the time of an iteration.
HOST_BOUND = 0.9
# Of a normal distribution, the standard deviation over the median of the absolute values.
_NORMAL_MAD = 1.4826


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSpread:
    """The spread of `metric` between two processes of a case, as relative standard deviations."""

    metric: str
    waits_for: str
    num_cases: int
    median_sd: float
    root_mean_square: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """One case in two campaigns of the same torch and transformers."""

    first: Row
    again: Row

    def agrees(self, metric: str) -> bool:
        """Return whether the 95 % intervals of `metric` overlap."""
        earlier = self.first.result.measurement(metric)
        later = self.again.result.measurement(metric)
        assert earlier is not None
        assert later is not None
        (low, high), (other_low, other_high) = earlier.interval, later.interval
        return low <= other_high and other_low <= high


def launch_spreads(documents: Sequence[RunDocument], *, device: str) -> Iterator[LaunchSpread]:
    """Yield the spreads of the compiled cases that were launched twice in one campaign."""
    distances: dict[tuple[str, str], list[float]] = {}
    for row in _compiled(documents, device=device):
        conditions = (row.result.details.get("conditions") or [None])[0] or {}
        is_host = float(conditions.get("host_share") or 0.0) >= HOST_BOUND
        for metric in ("latency_s", "speedup"):
            measurement = row.result.measurement(metric)
            levels = [] if measurement is None else list(launch_levels(measurement))
            if len(levels) == 2:
                distance = abs(math.log(levels[0] / levels[1])) / math.sqrt(2)
                distances.setdefault((metric, "host" if is_host else "GPU"), []).append(distance)
    for (metric, waits_for), values in sorted(distances.items()):
        yield LaunchSpread(
            metric=metric,
            waits_for=waits_for,
            num_cases=len(values),
            median_sd=_NORMAL_MAD * statistics.median(values),
            root_mean_square=math.sqrt(statistics.fmean(value * value for value in values)),
        )


def repeats(documents: Sequence[RunDocument], *, device: str) -> list[Repeat]:
    """Return each compiled case that two campaigns measured, the last two of them."""
    by_case: dict[tuple[str, ...], list[Row]] = {}
    for row in _compiled(documents, device=device):
        by_case.setdefault((row.case.key, *_versions(row)), []).append(row)
    return [Repeat(first=same[-2], again=same[-1]) for same in by_case.values() if same[1:]]


def _versions(row: Row) -> tuple[str, ...]:
    names = ("torch_version", "transformers_version")
    return tuple(str(row.run.environment.get(name)) for name in names)


def _compiled(documents: Sequence[RunDocument], *, device: str) -> Iterator[Row]:
    for row in rows(documents):
        is_compiled = row.result.measurement("speedup") is not None
        if row.device_name == device and row.result.outcome is Outcome.OK and is_compiled:
            yield row
