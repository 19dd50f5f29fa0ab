"""PyTorch's benchmark records in its uploader's form; a call names only the tested fields."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

# 2026-01-01 00:00 UTC.
FIRST_NIGHT_S = 1_767_225_600
DAY_S = 86_400
A100 = "NVIDIA A100-SXM4-40GB"


def commit_of(night: int) -> str:
    """Return the commit that is measured in a night: hashes differ from their first digits on."""
    return hashlib.sha1(str(night).encode(), usedforsecurity=False).hexdigest()


def make_record(
    metric: str = "abs_latency",
    value: float | str | Sequence[float] = 10.0,
    *,
    model: str = "BertForMaskedLM",
    mode: str = "default",
    night: int = 0,
    runner: str = A100,
    **fields: Any,
) -> dict[str, Any]:
    """Return a record of PyTorch's nightly suite; a text is the word of an accuracy check."""
    if isinstance(value, str):
        measured: dict[str, Any] = {"name": metric, "extra_info": {"benchmark_values": [value]}}
    else:
        values = [value] if isinstance(value, float | int) else list(value)
        measured = {"name": metric, "benchmark_values": values}
    return {
        "timestamp": FIRST_NIGHT_S + night * DAY_S,
        "schema_version": "v3",
        "name": "compilers",
        "repo": "pytorch/pytorch",
        "head_branch": "main",
        "head_sha": commit_of(night),
        "workflow_id": 1000 + night,
        "run_attempt": 1,
        "job_id": 7,
        "runners": [{"name": "cuda", "type": runner, "gpu_info": runner, "gpu_count": 1}],
        "benchmark": {
            "name": "TorchInductor",
            "mode": "inference",
            "dtype": "bfloat16",
            "extra_info": {"compile_mode": mode, "device": "cuda", "batch_size": 16},
        },
        "model": {
            "name": model,
            "type": "OSS model",
            "backend": "eager" if mode == "eager" else "inductor",
            "origins": ["huggingface"],
        },
        "metric": measured,
        **fields,
    }


def write_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> Path:
    """Write one JSON document a line, packed if the name says so; return `path`."""
    text = "".join(f"{json.dumps(record)}\n" for record in records)
    content = text.encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path
