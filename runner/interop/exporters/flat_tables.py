"""Runs as tables: a measurement a row, with its run and its case, as CSV or Parquet.

A failed case has one row without a metric, so that it is not missing.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from compile_hud.db.records.json_fields import time_to_json
from compile_hud.db.records.results import CaseResult, Measurement, Run, RunDocument
from compile_hud.db.shared.text import spreadsheet_text

_TEXT = pa.string()
SCHEMA = pa.schema(
    {
        "run_id": _TEXT,
        "started_at": pa.timestamp("us", tz="UTC"),
        "suite": _TEXT,
        "toolchain": _TEXT,
        "revision": _TEXT,
        "machine": _TEXT,
        "fingerprint": _TEXT,
        "model": _TEXT,
        "family": _TEXT,
        "phase": _TEXT,
        "shape": _TEXT,
        "dtype": _TEXT,
        "mode": _TEXT,
        "variant": _TEXT,
        "backend": _TEXT,
        "device": _TEXT,
        "outcome": _TEXT,
        "reason": _TEXT,
        "metric": _TEXT,
        "unit": _TEXT,
        "median": pa.float64(),
        "low": pa.float64(),
        "high": pa.float64(),
        "samples": pa.list_(pa.float64()),
        "launches": pa.list_(pa.int32()),
    }
)


def to_csv(documents: Iterable[RunDocument]) -> Iterator[bytes]:
    """Yield a CSV file with a header; samples and launches are divided by spaces.

    No text is a formula to a spreadsheet. Parquet has every text unchanged.
    """
    yield csv_line(SCHEMA.names)
    for document in documents:
        for row in _rows(document):
            yield csv_line([csv_cell(row[name]) for name in SCHEMA.names])


def to_parquet(documents: Iterable[RunDocument]) -> Iterator[bytes]:
    """Yield a Parquet file, a row group for each run."""
    buffer = io.BytesIO()
    with pq.ParquetWriter(buffer, SCHEMA) as writer:
        for document in documents:
            writer.write_table(pa.Table.from_pylist(list(_rows(document)), schema=SCHEMA))
    yield buffer.getvalue()


def _rows(document: RunDocument) -> Iterator[dict[str, Any]]:
    for result in document.results:
        common = {**run_cells(document.run), **case_cells(result)}
        for item in result.measurements or (None,):
            yield {**common, **_measurement_cells(item)}


def run_cells(run: Run) -> dict[str, Any]:
    """Return the columns of a run."""
    return {
        "run_id": run.id,
        "started_at": run.started_at,
        "suite": run.suite,
        "toolchain": run.toolchain,
        "revision": run.revision,
        "machine": run.machine,
        "fingerprint": run.fingerprint,
    }


def case_cells(result: CaseResult) -> dict[str, Any]:
    """Return the columns of a case and its outcome."""
    return {**result.case.to_json(), "outcome": str(result.outcome), "reason": result.reason}


def _measurement_cells(item: Measurement | None) -> dict[str, Any]:
    if item is None:
        names = ("metric", "unit", "median", "low", "high", "samples", "launches")
        return dict.fromkeys(names)
    return {
        "metric": item.metric,
        "unit": item.unit,
        "median": item.median,
        "low": item.interval[0],
        "high": item.interval[1],
        "samples": list(item.samples),
        "launches": list(item.launches),
    }


def csv_cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return " ".join(map(repr, value))
    if isinstance(value, datetime):
        return time_to_json(value)
    return spreadsheet_text(value) if isinstance(value, str) else repr(value)


def csv_line(cells: Iterable[str]) -> bytes:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue().encode("utf-8", "replace")
