"""Condense a run of one model with several masks: speedups, and the kernels of its attention.

The run is a result document, as of `hud run --model bert --shape small --shape small_padded --shape
small_unmasked --mode eager --mode default --dtype fp32 --dtype bf16 --json FILE`. `--out` writes
the document from which docs/reference/zoo.md is generated.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.startup import RESULTS

# 1: first version.
SCHEMA_VERSION = 1
FACTS = ("cpu_model", "os", "python_version", "torch_version")


def condense(document: dict[str, Any], *, model: str) -> dict[str, Any]:
    """Return the cases of `model` in `document`; a case is compared with eager of its shape."""
    run = document["run"]
    environment = run["environment"]
    return {
        "schema_version": SCHEMA_VERSION,
        "benchmark": "attention_masks",
        "at": run["started_at"],
        "machine": {
            **{name: environment.get(name) for name in FACTS},
            "transformers": environment.get("packages", {}).get("transformers"),
        },
        "rows": [
            row_of(result) for result in document["results"] if result["case"]["model"] == model
        ],
    }


def row_of(result: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of one result; times are CPU time."""
    measured = {item["metric"]: item for item in result["measurements"]}
    attention = [kernel for kernel in result["kernels"] if kernel["kind"] == "attention"]
    speedup = measured.get("speedup")
    return {
        **{name: result["case"][name] for name in ("model", "shape", "dtype", "variant")},
        "latency_cpu_s": measured["latency_cpu_s"]["median"],
        "speedup": speedup and [speedup["median"], *speedup["interval"]],
        "num_attention_kernels": sum(kernel["count"] for kernel in attention),
        # A call lists query, key and value, and then its mask if it has one.
        "has_mask": any(kernel["shapes"].count(",") > 2 for kernel in attention),
        "num_kernels": sum(
            kernel["count"] for kernel in result["kernels"] if kernel["kind"] != "dispatch"
        ),
    }


def main(arguments: Sequence[str]) -> int:
    """Write the document; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="a result document")
    parser.add_argument("--model", default="bert")
    parser.add_argument("--out", type=Path, default=RESULTS / "attention_masks.json")
    options = parser.parse_args(arguments)
    document = json.loads(options.run.read_text(encoding="utf-8"))
    condensed = condense(document, model=options.model)
    options.out.write_text(json.dumps(condensed, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
