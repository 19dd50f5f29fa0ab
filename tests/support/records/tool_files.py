"""Files of general benchmark tools, in the form that each tool writes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.records.v3_records import FIRST_NIGHT_S, commit_of

ASV_COLUMNS = (
    *("result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_ci_99_b"),
    *("stats_q_25", "stats_q_75", "stats_number", "stats_repeat", "samples", "profile"),
)


def write_json(path: Path, content: Any) -> Path:
    """Write `content` to `path`, in folders that may not exist yet; return `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def pytest_session(*benchmarks: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a session of pytest-benchmark; `fields` replace those of the session."""
    return {
        "machine_info": {
            "node": "oak",
            "machine": "aarch64",
            "python_implementation": "CPython",
            "python_version": "3.12.4",
            "system": "Linux",
            "cpu": {"brand_raw": "Ampere Altra", "count": 80},
        },
        "commit_info": {
            "id": commit_of(3),
            "time": "2026-01-03T08:00:00+01:00",
            "dirty": False,
            "project": "kernels",
            "branch": "main",
        },
        "benchmarks": list(benchmarks),
        "datetime": "2026-01-04T05:06:07.250000+00:00",
        "version": "5.1.0",
        **fields,
    }


def pytest_benchmark(
    name: str = "test_attention", *, rounds: Sequence[Any] = (), median: Any = 0.5, **fields: Any
) -> dict[str, Any]:
    """Return one benchmark of a session, without the list of rounds if it is empty."""
    stats = {"median": median, "iterations": 4, "rounds": 9}
    return {
        "group": None,
        "name": name,
        "fullname": f"bench/test_ops.py::{name}",
        "params": None,
        "param": None,
        "extra_info": {},
        "options": {"timer": "perf_counter"},
        "stats": {**stats, "data": list(rounds)} if rounds else stats,
        **fields,
    }


def google_context(**fields: Any) -> dict[str, Any]:
    """Return the context of an executable of Google Benchmark."""
    return {
        "date": "2026-01-05T20:30:00+02:00",
        "host_name": "birch",
        "executable": "./build/bench_gemm",
        "num_cpus": 12,
        "mhz_per_cpu": 3400,
        "cpu_scaling_enabled": False,
        "caches": [{"type": "Unified", "level": 3, "size": 16_777_216, "num_sharing": 6}],
        "load_avg": [0.5],
        "library_version": "v1.9.4",
        "library_build_type": "release",
        "json_schema_version": 1,
        **fields,
    }


def google_entry(name: str, real_time: float, **fields: Any) -> dict[str, Any]:
    """Return one repetition of a benchmark, in microseconds."""
    return {
        "name": name,
        "family_index": 0,
        "per_family_instance_index": 0,
        "run_name": name,
        "run_type": "iteration",
        "repetitions": 1,
        "repetition_index": 0,
        "threads": 1,
        "iterations": 100,
        "real_time": real_time,
        "cpu_time": real_time / 2,
        "time_unit": "us",
        **fields,
    }


def google_aggregate(name: str, kind: str, real_time: float, **fields: Any) -> dict[str, Any]:
    """Return one aggregate of the repetitions of a benchmark, in microseconds."""
    entry = google_entry(f"{name}_{kind}", real_time, run_name=name, run_type="aggregate")
    return {**entry, "aggregate_name": kind, "aggregate_unit": "time", **fields}


def asv_result(
    results: Mapping[str, Mapping[str, Any]],
    *,
    night: int = 0,
    machine: str = "elm",
    environment: str = "virtualenv-py3.12",
    **fields: Any,
) -> dict[str, Any]:
    """Return a result file of asv; `results` has the columns of each benchmark by name."""
    rows = {}
    for name, columns in results.items():
        row = [{"params": [], "version": "v1", **columns}.get(column) for column in ASV_COLUMNS]
        while row and row[-1] is None:
            row.pop()
        rows[name] = row
    return {
        "commit_hash": commit_of(night),
        "env_name": environment,
        "date": (FIRST_NIGHT_S + night * 86_400) * 1000,
        "params": {
            "arch": "x86_64",
            "cpu": "Xeon",
            "machine": machine,
            "num_cpu": "16",
            "os": "Linux 6",
            "ram": "64G",
        },
        "python": "3.12",
        "requirements": {"numpy": "2.1"},
        "env_vars": {},
        "result_columns": list(ASV_COLUMNS),
        "results": rows,
        "durations": {"<build>": 3.5},
        "version": 2,
        **fields,
    }


def write_asv(folder: Path, *documents: Mapping[str, Any], benchmarks: Any = None) -> Path:
    """Write result files as asv does, with its lists of machines and benchmarks."""
    for document in documents:
        machine = folder / document["params"]["machine"]
        write_json(machine / "machine.json", {**document["params"], "version": 1})
        name = f"{document['commit_hash'][:8]}-{document['env_name']}.json"
        write_json(machine / name, document)
    write_json(folder / "benchmarks.json", {**(benchmarks or {}), "version": 2})
    return folder
