"""The eager latencies of the ledger, process by process: the base of a speedup, and its spread.

Every launch of a compiled case measures eager too, and so does the eager case. If the device waits
for the host, processes of the same code differ by up to a factor of two. That is far more than the
spread of one process. If the host waits for the device, they differ by a per cent.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.gpu.ledger import Row, rows
from compile_hud.db.records.results import Case, Measurement, Outcome, RunDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The work of a case, independent of the variant."""

    model: str
    phase: str
    shape: str
    dtype: str

    @classmethod
    def of(cls, case: Case, *, dtype: str = "") -> Workload:
        """Return the workload of `case`, in `dtype` if that is given."""
        return cls(
            model=case.model,
            phase=str(case.phase),
            shape=case.shape,
            dtype=dtype or str(case.dtype),
        )


class EagerLevels:
    """The eager latencies of the processes on one device."""

    def __init__(self, documents: Sequence[RunDocument], *, device: str) -> None:
        self.by_workload: dict[Workload, list[float]] = {}
        self.host_shares: dict[Workload, float] = {}
        for row in rows(documents):
            if row.device_name != device or row.result.outcome is not Outcome.OK:
                continue
            workload = Workload.of(row.case)
            is_eager = row.case.variant == "eager"
            measurement = row.result.measurement("latency_s" if is_eager else "eager_latency_s")
            if measurement is not None:
                self.by_workload.setdefault(workload, []).extend(launch_levels(measurement))
            conditions = row.result.details.get("conditions") or [None]
            if is_eager and conditions[0]:
                self.host_shares[workload] = float(conditions[0].get("host_share") or 0.0)

    def speedup_range(self, row: Row, *, baseline_dtype: str = "") -> tuple[float, float]:
        """Return the speedup of `row` over the fastest and over the slowest eager process."""
        latency = row.result.measurement("latency_s")
        assert latency is not None
        levels = self.by_workload[Workload.of(row.case, dtype=baseline_dtype)]
        return min(levels) / latency.median, max(levels) / latency.median


def launch_levels(measurement: Measurement) -> Iterator[float]:
    """Yield the median of each launch."""
    first = 0
    for number in measurement.launches or (len(measurement.samples),):
        if number:
            yield statistics.median(measurement.samples[first : first + number])
        first += number
