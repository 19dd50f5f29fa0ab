"""A run as an MLPerf log: `:::MLLOG` lines, as mlperf_logging writes and reads them.

Each executed case has one interval `run_start` to `run_stop`, in the order of execution, with its
measurements as `tracked_stats` in between. The namespace of a line is its case. The log is for
tools that read such logs. It is no submission, which would train to a quality and name an
organisation and a division.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from compile_hud.db.records.results import CaseResult, Outcome, Run, RunDocument

TOKEN = ":::MLLOG"
POINT, START, END = "POINT_IN_TIME", "INTERVAL_START", "INTERVAL_END"
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
# Imported numbers of two sources may have no batch in common.
_LARGEST_BATCH = 1e12
_MILLISECOND = timedelta(milliseconds=1)


def to_mll(document: RunDocument) -> str:
    """Return the run as a log, the same text for the same run."""
    results = sorted(document.results, key=lambda result: (result.started_at, result.id))
    events = [event for result in results for event in _events(result, run=document.run)]
    # The call site of a converted log is the run and the line.
    return "".join(
        _line(event, file=f"run {document.run.id}", lineno=number)
        for number, event in enumerate(events, start=1)
    )


def _events(result: CaseResult, *, run: Run) -> Iterator[dict[str, Any]]:
    start = {"namespace": result.case.key, "time_ms": _milliseconds(result.started_at)}
    end = start | {"time_ms": _milliseconds(result.finished_at)}
    platform = run.environment.get("device_name") or result.case.device
    yield _event(start, POINT, key="submission_benchmark", value=result.case.model)
    yield _event(start, POINT, key="submission_platform", value=platform)
    batch = global_batch_size(result)
    if batch is not None:
        yield _event(start, POINT, key="global_batch_size", value=batch)
    about = result.case.to_json() | {
        "effective_mode": result.effective_mode,
        "run": run.id,
        "revision": run.revision,
        "toolchain": run.toolchain,
        "machine": run.machine,
    }
    yield _event(start, START, key="run_start", metadata=about)
    if result.measurements:
        yield _event(
            end,
            POINT,
            key="tracked_stats",
            value=tracked_stats(result),
            metadata={"step": 1, "units": {item.metric: item.unit for item in result.measurements}},
        )
    status = "success" if result.outcome is Outcome.OK else "aborted"
    ending = {"status": status, "outcome": str(result.outcome), "reason": result.reason}
    yield _event(end, END, key="run_stop", metadata=ending)


def tracked_stats(result: CaseResult) -> dict[str, float]:
    """Return the median of every metric, and the throughput under MLPerf's name."""
    stats = {item.metric: item.median for item in result.measurements}
    throughput = stats.get("throughput_samples_per_s")
    return stats if throughput is None else {"throughput": throughput, **stats}


def global_batch_size(result: CaseResult) -> int | None:
    """Return the samples of one iteration, None where the throughput does not give them."""
    throughput = result.measurement("throughput_samples_per_s")
    latency = result.measurement("latency_s")
    if throughput is None or latency is None:
        return None
    # The throughput is the batch over the latency, sample by sample.
    batch = throughput.samples[0] * latency.samples[0]
    num_samples = round(batch) if abs(batch) <= _LARGEST_BATCH else 0
    return num_samples if num_samples > 0 else None


def _event(
    location: Mapping[str, Any],
    event_type: str,
    *,
    key: str,
    value: Any = None,
    metadata: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    return {
        "namespace": location["namespace"],
        "time_ms": location["time_ms"],
        "event_type": event_type,
        "key": key,
        "value": value,
        "metadata": dict(metadata or {}),
    }


def _line(event: Mapping[str, Any], *, file: str, lineno: int) -> str:
    metadata = {"file": file, "lineno": lineno, **event["metadata"]}
    return f"{TOKEN} {json.dumps({**event, 'metadata': metadata}, allow_nan=False)}\n"


def _milliseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // _MILLISECOND
