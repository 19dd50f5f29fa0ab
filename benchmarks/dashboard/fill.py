"""Write a synthetic history into a store: through the store's own tables, in Arrow."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from datetime import timezone
from typing import Any

import numpy as np
from sqlalchemy.engine import Connection

from benchmarks.dashboard.history import (
    History,
    Machine,
    Night,
    Size,
    cells,
    latest_tables,
    measurement_table,
    metric_names,
    result_table,
    sample_table,
)
from benchmarks.dashboard.kernels import kernel_table, origin_rows, source_rows
from compile_hud.db.ingest.results import put_run
from compile_hud.db.maintenance.compaction import compact_measurements
from compile_hud.db.maintenance.trend_results import rewrite_trend_results
from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.results import series_key
from compile_hud.db.rows.bulk_insert import put_batch, put_rows
from compile_hud.db.rows.mapping import case_values
from compile_hud.db.schema.tables import (
    CaseTable,
    KernelOriginsTable,
    KernelSourceTable,
    SeriesTable,
)
from compile_hud.db.store import Store

logger = logging.getLogger(__name__)

# Nights in one transaction: all their rows are in memory at once.
NIGHTS_PER_WRITE = 10
# As many samples as each measurement states.
NUM_SAMPLES = 20


class _Headers:
    """The rows of `series` of one machine, counted while its nights are written."""

    def __init__(self, machine: Machine) -> None:
        shape = (len(machine.cases), len(metric_names()))
        self._machine = machine
        self._num_points = np.zeros(shape, int)
        self._last_values = np.zeros(shape)
        self._first = np.full(shape, -1)
        self._last = np.full(shape, -1)
        self._nights: list[tuple[str, Any]] = []

    def add(self, night: Night) -> None:
        cases, metrics, values = cells(night)
        number = len(self._nights)
        self._nights.append((night.run.id, night.run.started_at))
        self._num_points[cases, metrics] += 1
        self._last_values[cases, metrics] = values
        self._last[cases, metrics] = number
        is_new = self._first[cases, metrics] < 0
        self._first[cases[is_new], metrics[is_new]] = number

    def rows(self) -> list[dict[str, Any]]:
        header_rows = []
        for case, metric in zip(*np.nonzero(self._num_points), strict=True):
            first, last = self._first[case, metric], self._last[case, metric]
            name = metric_names()[metric]
            header_rows.append(
                {
                    "key": series_key(
                        self._machine.cases[case],
                        metric=name,
                        fingerprint=self._machine.fingerprint,
                    ),
                    "case_key": self._machine.cases[case].key,
                    "metric": name,
                    "unit": METRICS[name].unit,
                    "machine": self._machine.name,
                    "fingerprint": self._machine.fingerprint,
                    "num_points": int(self._num_points[case, metric]),
                    "first_at": self._nights[first][1],
                    "last_at": self._nights[last][1],
                    "last_run_id": self._nights[last][0],
                    "last_value": float(self._last_values[case, metric]),
                    "direction": None,
                    "direction_at": None,
                }
            )
        return header_rows


def fill(store: Store, size: Size, *, seed: int) -> None:
    """Write the history of `size` into the empty `store`."""
    history = History(size, seed=seed)
    headers = [_Headers(machine) for machine in history.machines]
    with store.write() as connection:
        cases = {case.key: case for machine in history.machines for case in machine.cases}
        put_rows(connection, CaseTable, [case_values(case) for case in cases.values()])
        put_rows(
            connection,
            KernelSourceTable,
            source_rows(size.num_models, num_kernels=size.num_kernels),
        )
        put_rows(
            connection,
            KernelOriginsTable,
            origin_rows(size.num_models, num_kernels=size.num_kernels),
        )
    remaining, done = history.nights(), 0
    while batch := list(itertools.islice(remaining, NIGHTS_PER_WRITE)):
        nights = [night for every in batch for night in every]
        for night in nights:
            headers[night.machine.number].add(night)
        with store.write() as connection:
            _put_nights(connection, nights)
        done += len(batch)
        _put_details(store, size, batch, done=done, seed=seed)
        compact_measurements(store)
        logger.info("%d of %d nights", done, size.num_nights)
        last = batch[-1]
    with store.write() as connection:
        for night in last:
            results, measured = latest_tables(night, num_samples=NUM_SAMPLES)
            put_batch(connection, "latest_results", results)
            put_batch(connection, "latest_measurements", measured)
        for item in headers:
            put_rows(connection, SeriesTable, item.rows())


def _put_nights(connection: Connection, nights: Sequence[Night]) -> None:
    for night in nights:
        put_run(connection, night.run, at=night.run.started_at.astimezone(timezone.utc))
    put_batch(connection, "case_results", result_table(nights))
    put_batch(connection, "measurements", measurement_table(nights, num_samples=NUM_SAMPLES))
    rewrite_trend_results(connection, [night.run.id for night in nights])


def _put_details(
    store: Store, size: Size, batch: Sequence[Sequence[Night]], *, done: int, seed: int
) -> None:
    """Write the kernels and samples of the nights that have some."""
    left = size.num_nights - done + len(batch)
    for index, every in enumerate(batch):
        from_end = left - index
        with store.write() as connection:
            if from_end <= size.num_kernel_nights:
                rows = kernel_table(every, num_kernels=size.num_kernels, seed=seed + from_end)
                put_batch(connection, "kernels", rows)
            if from_end <= size.num_sample_nights:
                rows = sample_table(every, num_samples=size.num_samples, seed=seed + from_end)
                put_batch(connection, "samples", rows)
