"""The figures of operators and the newest results as Prometheus text. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from compile_hud.app.data.result_figures import ResultFigures
from compile_hud.db.jobs.health import SchedulerState
from compile_hud.db.jobs.operations import Operations
from compile_hud.db.jobs.queue import JobState

# The name and the help text of each metric of a trend.
_RESULTS: Final = {
    "speedup": (
        "hud_geomean_speedup",
        "Geometric mean of the newest speedups over eager, over models.",
    ),
    "compile_cold_s": (
        "hud_geomean_compile_cold_seconds",
        "Geometric mean of the newest cold compile times.",
    ),
    "compile_warm_s": (
        "hud_geomean_compile_warm_seconds",
        "Geometric mean of the newest warm compile times.",
    ),
    "peak_bytes": ("hud_geomean_peak_bytes", "Geometric mean of the newest memory peaks."),
    "energy_j": ("hud_geomean_energy_joules", "Geometric mean of the newest energies."),
    "pass_rate": (
        "hud_pass_ratio",
        "Share of ok cases among the attempted ones, by their newest results.",
    ),
}
_NO_RESULTS: Final = ResultFigures()
# Labels by name, and a value.
Point = tuple[dict[str, str], float]


class _Figures(Collector):
    """The families that have a point, as the library collects them."""

    def __init__(self, families: Iterable[GaugeMetricFamily]) -> None:
        self._families = [family for family in families if family.samples]

    def collect(self) -> Iterable[GaugeMetricFamily]:
        return self._families


def exposition(
    operations: Operations | None,
    *,
    now: datetime,
    results: ResultFigures = _NO_RESULTS,
    encode: Callable[[CollectorRegistry], bytes] = generate_latest,
) -> str:
    """Return the text of `operations` and `results`, or only that the store cannot be read.

    `encode` writes a format of Prometheus or OpenMetrics.
    """
    families = [_one("hud_store_up", "Whether the store can be read.", float(bool(operations)))]
    if operations is not None:
        families += [*_of_store(operations), *_of_schedulers(operations, now=now)]
        families += _of_results(results, now=now)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Figures(families))
    return encode(registry).decode("utf-8")


def _of_store(operations: Operations) -> Iterator[GaugeMetricFamily]:
    yield _one(
        "hud_store_generation", "Increases with every write.", float(operations.store_version)
    )
    yield _one("hud_runs_running", "Runs in progress.", float(operations.health.num_running))
    yield _gauge(
        "hud_jobs",
        "Jobs by state.",
        points=(
            ({"state": state}, float(operations.health.num_jobs.get(state, 0)))
            for state in JobState
        ),
    )
    yield _gauge(
        "hud_last_run_timestamp_seconds",
        "When the newest finished run began.",
        points=(
            (
                {"machine": last.machine, "suite": last.suite, "toolchain": last.toolchain},
                last.started_at.timestamp(),
            )
            for last in operations.last_runs
        ),
    )
    yield _gauge(
        "hud_alerts",
        "Alerts by state and verdict, without the muted ones.",
        points=(
            ({"state": state, "verdict": verdict}, float(number))
            for (state, verdict), number in sorted(operations.num_alerts.items())
        ),
    )
    yield _gauge(
        "hud_muted_alerts",
        "Muted alerts by state and verdict.",
        points=(
            ({"state": state, "verdict": verdict}, float(number))
            for (state, verdict), number in sorted(operations.num_muted_alerts.items())
        ),
    )
    yield _gauge(
        "hud_notifications",
        "Notifications by receiver and state; dead ones failed for good.",
        points=(
            ({"receiver": receiver, "state": state}, float(number))
            for (receiver, state), number in sorted(operations.num_notifications.items())
        ),
    )


def _of_schedulers(operations: Operations, *, now: datetime) -> Iterator[GaugeMetricFamily]:
    schedulers = operations.health.schedulers

    def each(
        name: str, text: str, values: Iterable[tuple[SchedulerState, float]]
    ) -> GaugeMetricFamily:
        return _gauge(
            name, text, points=(({"machine": item.machine}, value) for item, value in values)
        )

    yield each(
        "hud_scheduler_up",
        "Whether the scheduler sent a heartbeat in the last three minutes.",
        ((item, float(item.is_alive(now=now))) for item in schedulers),
    )
    yield each(
        "hud_scheduler_heartbeat_timestamp_seconds",
        "Time of the scheduler's last heartbeat.",
        ((item, item.heartbeat_at.timestamp()) for item in schedulers),
    )
    yield each(
        "hud_spool_waiting_results",
        "Results in the spool that wait for the store.",
        ((item, float(item.num_waiting)) for item in schedulers),
    )
    yield each(
        "hud_spool_broken_results",
        "Results that were set aside as broken.",
        ((item, float(item.num_broken)) for item in schedulers),
    )
    yield _gauge(
        "hud_schedule_next_timestamp_seconds",
        "When a schedule fires next.",
        points=(
            ({"machine": item.machine, "schedule": rule.name}, rule.next_at.timestamp())
            for item in schedulers
            for rule in item.schedules
            if rule.next_at is not None
        ),
    )
    for name, text in (("free", "Bytes free on a disk."), ("total", "Bytes of a disk.")):
        yield _gauge(
            f"hud_disk_{name}_bytes",
            text,
            points=(
                (
                    {"machine": item.machine, "disk": disk.name},
                    float(disk.free_bytes if name == "free" else disk.total_bytes),
                )
                for item in schedulers
                for disk in item.disks
            ),
        )


def _of_results(results: ResultFigures, *, now: datetime) -> Iterator[GaugeMetricFamily]:
    for metric, (name, text) in _RESULTS.items():
        yield _of_values(name, text, results, metric=metric)
    for name, text, field in (
        ("hud_cohort_models", "Models in the cohort of hud_geomean_speedup.", "num_counted"),
        ("hud_models", "Models with a result, in the cohort or not.", "num_subjects"),
    ):
        yield _of_values(name, text, results, metric="speedup", field=field)
    yield _gauge(
        "hud_open_alerts",
        "Ongoing regressions by severity, without the muted ones.",
        points=(
            ({"machine": machine, "severity": severity}, float(number))
            for (machine, severity), number in results.num_open(now=now).items()
        ),
    )


def _of_values(
    name: str, text: str, results: ResultFigures, *, metric: str, field: str = "value"
) -> GaugeMetricFamily:
    points = (
        (
            {
                "machine": machine,
                "toolchain": toolchain,
                "phase": value.phase,
                "device": value.device,
                "mode": value.mode,
            },
            float(getattr(value, field)),
        )
        for (machine, toolchain), values in results.values.items()
        for value in values
        if value.metric == metric
    )
    return _gauge(name, text, points=points)


def _one(name: str, text: str, value: float) -> GaugeMetricFamily:
    return _gauge(name, text, points=[({}, value)])


def _gauge(name: str, text: str, *, points: Iterable[Point]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text)
    for labels, value in points:
        family.add_sample(name, labels, value)
    return family
