"""Synthetic kernels of synthetic nights: the same few dozen of a case, with new times."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

import numpy as np
import pyarrow as pa

from benchmarks.dashboard.history import MODES, Night, chosen

NOISE: Final = 0.02
# One in five is a kernel of a library, whose code is not available.
LIBRARY_EVERY: Final = 5
OPERATIONS: Final = ("add", "mul", "relu", "softmax", "layer_norm", "gelu", "cat", "mean")
CONFIGS: Final = tuple(
    json.dumps({"num_warps": warps, "num_stages": stages, "XBLOCK": 256 * warps})
    for warps in (2, 4, 8)
    for stages in (1, 2, 3)
)
LAUNCHES: Final = tuple(
    json.dumps({"grid": [grid, 1, 1], "block": [128, 1, 1], "registers": 32}) for grid in range(64)
)


def kernel_table(nights: Sequence[Night], *, num_kernels: int, seed: int) -> pa.Table:
    """Return the rows of `kernels` of every compiled or eager result that is ok."""
    random = np.random.default_rng(seed)
    return pa.concat_tables([_kernels(night, num_kernels, random) for night in nights])


def source_rows(num_models: int, *, num_kernels: int) -> list[dict[str, Any]]:
    """Return the rows of `kernel_sources`: the variants of a model share their code."""
    return [
        {
            "hash": _hash("source", model, index),
            "language": "triton",
            "text": f"# {_name(index)}\n" + "tmp = tl.load(in_ptr0 + x0, xmask)\n" * 40,
        }
        for model in range(num_models)
        for index in range(num_kernels)
        if index % LIBRARY_EVERY
    ]


def origin_rows(num_models: int, *, num_kernels: int) -> list[dict[str, Any]]:
    """Return the rows of `kernel_origins`."""
    return [
        {
            "hash": _hash("origins", model, index),
            "origins": [
                {
                    "node": f"add_{index}",
                    "target": f"aten.{OPERATIONS[index % len(OPERATIONS)]}.default",
                    "module": f"layers.{index}",
                    "file": "model.py",
                    "line": 10 + index,
                    "code": "x = x + y",
                }
            ],
        }
        for model in range(num_models)
        for index in range(num_kernels)
        if index % LIBRARY_EVERY
    ]


def _kernels(night: Night, num_kernels: int, random: np.random.Generator) -> pa.Table:
    machine = night.machine
    measured = np.flatnonzero(night.is_ok[machine.num_references :])
    results = np.repeat(measured, num_kernels)
    places = np.tile(np.arange(num_kernels), len(measured))
    num_rows = len(results)
    templates = _templates(len(machine.cases) - machine.num_references, num_kernels)
    codes = results // len(MODES) * num_kernels + places
    shares = np.exp(-places / 10.0)
    shares /= np.exp(-np.arange(num_kernels) / 10.0).sum()
    latency_s = night.values[results, 0]
    total_s = latency_s * 0.9 * shares * np.exp(NOISE * random.standard_normal(num_rows))
    counts = 1.0 + places % 4
    return pa.table(
        {
            "result_id": chosen(night.result_ids[machine.num_references :], results),
            "position": pa.array(places.astype(np.int32)),
            "name": chosen(templates["name"], places),
            "label": chosen(templates["label"], places),
            "kind": chosen(templates["kind"], places),
            "library": chosen(templates["library"], places),
            "device": chosen([machine.cases[0].device], np.zeros(num_rows)),
            "count": pa.array(counts),
            "total_s": pa.array(total_s),
            "mean_s": pa.array(total_s / counts),
            "min_s": pa.array(total_s / counts * 0.98),
            "share": pa.array(total_s / latency_s),
            "num_bytes": pa.array(1e6 * (1.0 + places)),
            "flops": pa.array(np.full(num_rows, np.nan), mask=np.ones(num_rows, bool)),
            "roofline": pa.array(np.full(num_rows, 0.4)),
            "operators": chosen(templates["operators"], places),
            "module": chosen(templates["module"], places),
            "shapes": chosen(templates["shapes"], places),
            "source_hash": chosen(templates["source_hash"], codes),
            "config": chosen(CONFIGS, (results + places) % len(CONFIGS)),
            "launch": chosen(LAUNCHES, places % len(LAUNCHES)),
            "origins_hash": chosen(templates["origins_hash"], codes),
        }
    )


def _templates(num_cases: int, num_kernels: int) -> dict[str, list[str]]:
    every = range(num_kernels)
    num_models = num_cases // len(MODES)
    return {
        "name": [f"{_name(index)}_{index}" for index in every],
        "label": [f"{_name(index)}_{index // len(OPERATIONS)}x" for index in every],
        "kind": [_kind(index) for index in every],
        "library": ["triton" if index % LIBRARY_EVERY else "cublas" for index in every],
        "operators": [
            json.dumps([f"aten.{OPERATIONS[index % len(OPERATIONS)]}"]) for index in every
        ],
        "module": [f"layers.{index}" for index in every],
        "shapes": [f"bf16[{8 * (1 + index)},512]" for index in every],
        "source_hash": _hashes("source", num_models, num_kernels),
        "origins_hash": _hashes("origins", num_models, num_kernels),
    }


def _hashes(what: str, num_models: int, num_kernels: int) -> list[str]:
    return [
        _hash(what, model, index) if index % LIBRARY_EVERY else ""
        for model in range(num_models)
        for index in range(num_kernels)
    ]


def _hash(what: str, model: int, index: int) -> str:
    return sha256(f"{what} {model} {index}".encode()).hexdigest()


def _name(index: int) -> str:
    operation = OPERATIONS[index % len(OPERATIONS)]
    return f"triton_poi_fused_{operation}" if index % LIBRARY_EVERY else f"gemm_{operation}"


def _kind(index: int) -> str:
    return "fused" if index % LIBRARY_EVERY else "gemm"
