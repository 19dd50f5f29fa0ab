"""The figures of operators and the newest results as Prometheus text, version 0.0.4. Pure.

https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from compile_hud.app.data.result_figures import ResultFigures
from compile_hud.db.jobs.health import SchedulerState
from compile_hud.db.jobs.operations import Operations
from compile_hud.db.jobs.queue import JobState

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFamily:
    """A metric with its help text."""

    name: str
    text: str
    points: tuple[Point, ...]


def exposition(
    operations: Operations | None, *, now: datetime, results: ResultFigures = _NO_RESULTS
) -> str:
    """Return the text of `operations` and `results`, or only that the store cannot be read."""
    families = [_one("hud_store_up", "Whether the store can be read.", float(bool(operations)))]
    if operations is not None:
        families += [*_of_store(operations), *_of_schedulers(operations, now=now)]
        families += _of_results(results, now=now)
    return "".join(_lines(families))


def _of_store(operations: Operations) -> Iterator[MetricFamily]:
    yield _one(
        "hud_store_generation", "Increases with every write.", float(operations.store_version)
    )
    yield _one("hud_runs_running", "Runs in progress.", float(operations.health.num_running))
    yield MetricFamily(
        name="hud_jobs",
        text="Jobs by state.",
        points=tuple(
            ({"state": state}, float(operations.health.num_jobs.get(state, 0)))
            for state in JobState
        ),
    )
    yield MetricFamily(
        name="hud_last_run_timestamp_seconds",
        text="When the newest finished run began.",
        points=tuple(
            (
                {"machine": last.machine, "suite": last.suite, "toolchain": last.toolchain},
                last.started_at.timestamp(),
            )
            for last in operations.last_runs
        ),
    )
    yield MetricFamily(
        name="hud_alerts",
        text="Alerts by state and verdict, without the muted ones.",
        points=tuple(
            ({"state": state, "verdict": verdict}, float(number))
            for (state, verdict), number in sorted(operations.num_alerts.items())
        ),
    )
    yield MetricFamily(
        name="hud_muted_alerts",
        text="Muted alerts by state and verdict.",
        points=tuple(
            ({"state": state, "verdict": verdict}, float(number))
            for (state, verdict), number in sorted(operations.num_muted_alerts.items())
        ),
    )
    yield MetricFamily(
        name="hud_notifications",
        text="Notifications by receiver and state; dead ones failed for good.",
        points=tuple(
            ({"receiver": receiver, "state": state}, float(number))
            for (receiver, state), number in sorted(operations.num_notifications.items())
        ),
    )


def _of_schedulers(operations: Operations, *, now: datetime) -> Iterator[MetricFamily]:
    schedulers = operations.health.schedulers

    def each(name: str, text: str, values: Iterable[tuple[SchedulerState, float]]) -> MetricFamily:
        points = tuple(({"machine": item.machine}, value) for item, value in values)
        return MetricFamily(name=name, text=text, points=points)

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
    yield MetricFamily(
        name="hud_schedule_next_timestamp_seconds",
        text="When a schedule fires next.",
        points=tuple(
            ({"machine": item.machine, "schedule": rule.name}, rule.next_at.timestamp())
            for item in schedulers
            for rule in item.schedules
            if rule.next_at is not None
        ),
    )
    for name, text in (("free", "Bytes free on a disk."), ("total", "Bytes of a disk.")):
        yield MetricFamily(
            name=f"hud_disk_{name}_bytes",
            text=text,
            points=tuple(
                (
                    {"machine": item.machine, "disk": disk.name},
                    float(disk.free_bytes if name == "free" else disk.total_bytes),
                )
                for item in schedulers
                for disk in item.disks
            ),
        )


def _of_results(results: ResultFigures, *, now: datetime) -> Iterator[MetricFamily]:
    for metric, (name, text) in _RESULTS.items():
        yield _of_values(name, text, results, metric=metric)
    for name, text, field in (
        ("hud_cohort_models", "Models in the cohort of hud_geomean_speedup.", "num_counted"),
        ("hud_models", "Models with a result, in the cohort or not.", "num_subjects"),
    ):
        yield _of_values(name, text, results, metric="speedup", field=field)
    yield MetricFamily(
        name="hud_open_alerts",
        text="Ongoing regressions by severity, without the muted ones.",
        points=tuple(
            ({"machine": machine, "severity": severity}, float(number))
            for (machine, severity), number in results.num_open(now=now).items()
        ),
    )


def _of_values(
    name: str, text: str, results: ResultFigures, *, metric: str, field: str = "value"
) -> MetricFamily:
    points = tuple(
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
    return MetricFamily(name=name, text=text, points=points)


def _one(name: str, text: str, value: float) -> MetricFamily:
    return MetricFamily(name=name, text=text, points=(({}, value),))


def _lines(families: Iterable[MetricFamily]) -> Iterator[str]:
    for family in families:
        if not family.points:
            continue
        yield f"# HELP {family.name} {family.text}\n# TYPE {family.name} gauge\n"
        for labels, value in family.points:
            named = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
            yield f"{family.name}{{{named}}} {value!r}\n" if named else f"{family.name} {value!r}\n"


def _escaped(text: str) -> str:
    return str(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
