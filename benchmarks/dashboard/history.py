"""Synthetic years of nights in a store, written in bulk: no number of it was measured.

Every night each machine measures all its cases. Results come in the order of the nights, as ingest
writes them, and their ids begin with the time, as real ones do. Only the last nights have kernels
and samples. The same seed makes the same store.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from hashlib import sha256
from typing import Any, Final

import numpy as np
import pyarrow as pa

from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.results import (
    REFERENCE_FAMILY,
    Case,
    Dtype,
    Outcome,
    Phase,
    Run,
    RunState,
    series_key,
)
from compile_hud.db.rows.mapping import series_hash
from compile_hud.models_zoo.catalog.variants import VARIANTS

MODES: Final = (
    "eager",
    "default",
    "reduce-overhead",
    "max-autotune",
    "max-autotune-no-cudagraphs",
    "dynamic",
    "fullgraph",
    "channels-last",
)
# The centre of the levels of a metric's series.
LEVELS: Final = {
    "latency_s": 0.012,
    "speedup": 1.6,
    "pace_s": 0.0011,
    "compile_cold_s": 30.0,
    "compile_warm_s": 6.0,
    "peak_bytes": 2.0e9,
}
REFERENCE_LEVELS: Final = {"latency_s": 0.004, "latency_cpu_s": 0.004}
REFERENCES: Final = ("ref_gemm", "ref_copy", "ref_chain")
MACHINES: Final = (("gpu-large", "cuda"), ("gpu-small", "cuda"), ("server", "cpu"))
FAMILIES: Final = ("transformer", "convnet", "diffusion", "recommender")
START: Final = datetime(2024, 1, 1, 2, 30, tzinfo=timezone.utc)
TOOLCHAIN: Final = "nightly"
SUITE: Final = "nightly"
METHOD: Final = "made up"
# One result in a thousand failed, and has no numbers.
FAILED_SHARE: Final = 0.001
# One series in twenty changes once and for good, by up to a third.
STEP_SHARE, LARGEST_STEP = 0.05, 0.3
NOISE: Final = 0.006
_SECONDS_PER_CASE: Final = 12
_LATEST_COLUMNS: Final = [
    "case_key",
    "metric",
    "unit",
    "num_samples",
    "median",
    "low",
    "high",
    "method",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The size of a history; only the last nights have kernels and samples."""

    num_models: int
    num_nights: int
    num_kernel_nights: int
    num_kernels: int
    num_sample_nights: int
    num_samples: int


FULL: Final = Size(
    num_models=200,
    num_nights=730,
    num_kernel_nights=60,
    num_kernels=49,
    num_sample_nights=7,
    num_samples=10,
)
MIDDLE: Final = Size(
    num_models=200,
    num_nights=12,
    num_kernel_nights=5,
    num_kernels=49,
    num_sample_nights=2,
    num_samples=10,
)
SMALL: Final = Size(
    num_models=10,
    num_nights=40,
    num_kernel_nights=5,
    num_kernels=20,
    num_sample_nights=2,
    num_samples=10,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine with the cases that it measures, its references first."""

    name: str
    number: int
    fingerprint: str
    cases: tuple[Case, ...]
    num_references: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """The results of one machine in one night, in columns; `values` are by case and metric."""

    run: Run
    machine: Machine
    result_ids: list[str]
    is_ok: np.ndarray
    values: np.ndarray
    reference_values: np.ndarray


class History:
    """All nights of a size, drawn from a seed."""

    def __init__(self, size: Size, *, seed: int = 1) -> None:
        """Draw the level of every series, and the series that change with their nights."""
        self.size = size
        self._random = np.random.default_rng(seed)
        self.machines = [
            _machine(number, name, device, num_models=size.num_models)
            for number, (name, device) in enumerate(MACHINES)
        ]
        self._levels = [self._drawn_levels(machine) for machine in self.machines]

    def nights(self) -> Iterator[list[Night]]:
        """Yield the nights of all machines, oldest first; each is drawn when it is yielded."""
        for number in range(self.size.num_nights):
            yield [self._night(machine, number) for machine in self.machines]

    def _drawn_levels(self, machine: Machine) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        shape = (len(machine.cases) - machine.num_references, len(LEVELS))
        spread = np.exp(0.5 * self._random.standard_normal(shape))
        levels = np.array(list(LEVELS.values())) * spread
        moves = self._random.random(shape) < STEP_SHARE
        steps = np.where(moves, 1 + LARGEST_STEP * self._random.uniform(-0.3, 1, shape), 1.0)
        onsets = self._random.integers(1, max(2, self.size.num_nights), shape)
        return levels, steps, onsets

    def _night(self, machine: Machine, number: int) -> Night:
        levels, steps, onsets = self._levels[machine.number]
        noise = np.exp(NOISE * self._random.standard_normal(levels.shape))
        num_cases = len(machine.cases)
        is_ok = self._random.random(num_cases) >= FAILED_SHARE
        references = np.array(list(REFERENCE_LEVELS.values())) * np.exp(
            NOISE * self._random.standard_normal((machine.num_references, len(REFERENCE_LEVELS)))
        )
        at = START + timedelta(days=number, minutes=machine.number)
        return Night(
            run=_run(machine, at, number),
            machine=machine,
            result_ids=self._ids(at, num_cases),
            is_ok=is_ok,
            values=levels * noise * np.where(number >= onsets, steps, 1.0),
            reference_values=references,
        )

    def _ids(self, at: datetime, num_cases: int) -> list[str]:
        drawn = self._random.bytes(10 * num_cases).hex()
        start_ms = int(at.timestamp() * 1000)
        step_ms = 1000 * _SECONDS_PER_CASE
        return [
            f"{start_ms + step_ms * index:012x}{drawn[20 * index : 20 * index + 20]}"
            for index in range(num_cases)
        ]


def _machine(number: int, name: str, device: str, *, num_models: int) -> Machine:
    variants = {variant.name: variant for variant in VARIANTS.values()}
    references = [
        _case(model, family=REFERENCE_FAMILY, device=device, variant="eager", mode="eager")
        for model in REFERENCES
    ]
    cases = [
        _case(
            f"{FAMILIES[index % len(FAMILIES)]}-{index:03}",
            family=FAMILIES[index % len(FAMILIES)],
            device=device,
            variant=variant,
            mode=variants[variant].mode,
        )
        for index in range(num_models)
        for variant in MODES
    ]
    return Machine(
        name=name,
        number=number,
        fingerprint=sha256(name.encode()).hexdigest(),
        cases=(*references, *cases),
        num_references=len(references),
    )


def _case(model: str, *, family: str, device: str, variant: str, mode: str) -> Case:
    return Case(
        model=model,
        family=family,
        phase=Phase.INFERENCE,
        shape="small",
        dtype=Dtype.BF16,
        mode=mode,
        variant=variant,
        backend="eager" if mode == "eager" else "inductor",
        device=device,
    )


def _run(machine: Machine, at: datetime, number: int) -> Run:
    took = timedelta(seconds=_SECONDS_PER_CASE * len(machine.cases))
    return Run(
        id=f"{int(at.timestamp() * 1000):012x}{machine.fingerprint[:20]}",
        started_at=at,
        finished_at=at + took,
        state=RunState.FINISHED,
        suite=SUITE,
        toolchain=TOOLCHAIN,
        revision=f"2.14.0.dev{at:%Y%m%d}+git{number:07x}",
        machine=machine.name,
        environment={"device_name": machine.name, "torch": f"2.14.0.dev{at:%Y%m%d}"},
        fingerprint=machine.fingerprint,
        plan=machine.cases,
        trigger="schedule",
        is_synthetic=True,
    )


def result_table(nights: Sequence[Night]) -> pa.Table:
    """Return the rows of `case_results`."""
    starts: list[datetime] = []
    for night in nights:
        base = night.run.started_at
        starts += [
            base + timedelta(seconds=_SECONDS_PER_CASE * index)
            for index in range(len(night.machine.cases))
        ]
    started_at = pa.array(starts, pa.timestamp("us", tz="UTC"))
    is_ok = np.concatenate([night.is_ok for night in nights])
    outcomes = pa.DictionaryArray.from_arrays(
        pa.array(np.where(is_ok, 0, 1).astype(np.int32)),
        pa.array([str(Outcome.OK), str(Outcome.FAILED)]),
    )
    reasons = pa.DictionaryArray.from_arrays(
        pa.array(np.where(is_ok, 0, 1).astype(np.int32)), pa.array(["", "RuntimeError: made up"])
    )
    num_rows = len(starts)
    ended = [start + timedelta(seconds=_SECONDS_PER_CASE - 1) for start in starts]
    return pa.table(
        {
            "id": pa.array([name for night in nights for name in night.result_ids]),
            "run_id": _repeated(
                [night.run.id for night in nights],
                [len(night.machine.cases) for night in nights],
            ),
            "case_key": pa.array([case.key for night in nights for case in night.machine.cases]),
            "outcome": outcomes,
            "reason": reasons,
            "effective_mode": pa.array(
                [case.mode for night in nights for case in night.machine.cases]
            ),
            "started_at": started_at,
            "finished_at": pa.array(ended, pa.timestamp("us", tz="UTC")),
            "warnings": _constant("[]", num_rows),
            "details": _constant('{"graphs": 1, "accuracy": {"cosine": 0.9999}}', num_rows),
            "log_tail": _constant("", num_rows),
        }
    )


def measurement_table(nights: Sequence[Night], *, num_samples: int) -> pa.Table:
    """Return the rows of `measurements`, in the order of the results."""
    return pa.concat_tables([_measurements(night, num_samples) for night in nights])


def _measurements(night: Night, num_samples: int) -> pa.Table:
    machine, run = night.machine, night.run
    results, metrics, values = cells(night)
    names = metric_names()
    units = [METRICS[name].unit for name in names]
    num_rows = len(values)
    keys = _series_keys(machine)
    return pa.table(
        {
            "result_id": chosen(night.result_ids, results),
            "metric": chosen(names, metrics),
            "series_key": chosen(keys, results * len(names) + metrics),
            "run_id": _constant(run.id, num_rows),
            "case_key": chosen([case.key for case in machine.cases], results),
            "run_started_at": pa.array([run.started_at], pa.timestamp("us", tz="UTC")).take(
                pa.array(np.zeros(num_rows, np.int32))
            ),
            "unit": chosen(units, metrics),
            "num_samples": pa.array(np.full(num_rows, num_samples)),
            "median": pa.array(values),
            "low": pa.array(values * 0.998),
            "high": pa.array(values * 1.002),
            "method": _constant(METHOD, num_rows),
            "launches": _constant("[]", num_rows),
            "series_hash": pa.array(
                np.array([series_hash(key) for key in keys], np.int32)[
                    results * len(names) + metrics
                ]
            ),
        }
    )


def cells(night: Night) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the index of the case, that of the metric and the value of each measurement."""
    names = metric_names()
    num_references = night.machine.num_references
    values = np.full((len(night.machine.cases), len(names)), np.nan)
    values[num_references:, [names.index(name) for name in LEVELS]] = night.values
    # Eager is the base of the speedups and has none.
    values[num_references :: len(MODES), names.index("speedup")] = 1.0
    values[:num_references, [names.index(name) for name in REFERENCE_LEVELS]] = (
        night.reference_values
    )
    values[~night.is_ok] = np.nan
    results, metrics = np.nonzero(~np.isnan(values))
    return results, metrics, values[results, metrics]


def metric_names() -> list[str]:
    """Return the names of all metrics, those of reference cases last."""
    return list(dict.fromkeys((*LEVELS, *REFERENCE_LEVELS)))


def _series_keys(machine: Machine) -> list[str]:
    return [
        series_key(case, metric=name, fingerprint=machine.fingerprint)
        for case in machine.cases
        for name in metric_names()
    ]


def latest_tables(night: Night, *, num_samples: int) -> tuple[pa.Table, pa.Table]:
    """Return the rows of `latest_results` and `latest_measurements` after the last night."""
    results = result_table([night]).drop_columns(["details", "log_tail"])
    results = results.rename_columns({"id": "result_id"})
    measured = measurement_table([night], num_samples=num_samples).select(_LATEST_COLUMNS)
    run = night.run
    start = pa.array([run.started_at] * len(results), pa.timestamp("us", tz="UTC"))
    results = results.append_column("run_started_at", start)
    for name in ("revision", "fingerprint"):
        results = results.append_column(name, _constant(getattr(run, name), len(results)))
    tables = []
    for table in (results, measured):
        for name in ("machine", "toolchain"):
            table = table.append_column(name, _constant(getattr(run, name), len(table)))
        tables.append(table)
    return tables[0], tables[1]


def sample_table(nights: Sequence[Night], *, num_samples: int, seed: int) -> pa.Table:
    """Return the rows of `samples`: as many as each measurement states, near its value."""
    random = np.random.default_rng(seed)
    tables = []
    for night in nights:
        results, metrics, values = cells(night)
        num_rows = len(values) * num_samples
        noise = np.exp(NOISE * random.standard_normal(num_rows))
        tables.append(
            pa.table(
                {
                    "result_id": chosen(night.result_ids, np.repeat(results, num_samples)),
                    "metric": chosen(metric_names(), np.repeat(metrics, num_samples)),
                    "is_warmup": pa.array(np.zeros(num_rows, bool)),
                    "position": pa.array(
                        np.tile(np.arange(num_samples, dtype=np.int32), len(values))
                    ),
                    "launch": pa.array(np.zeros(num_rows, np.int32)),
                    "value": pa.array(np.repeat(values, num_samples) * noise),
                }
            )
        )
    return pa.concat_tables(tables)


def chosen(values: Sequence[Any], places: np.ndarray) -> pa.DictionaryArray:
    """Return the `values` at `places`, each stored once."""
    return pa.DictionaryArray.from_arrays(pa.array(places.astype(np.int32)), pa.array(values))


def _constant(value: str, num_rows: int) -> pa.DictionaryArray:
    return chosen([value], np.zeros(num_rows, np.int32))


def _repeated(values: Sequence[str], counts: Sequence[int]) -> pa.DictionaryArray:
    return chosen(values, np.repeat(np.arange(len(values)), counts))
