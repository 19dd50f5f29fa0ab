"""Compare the seconds of a case here and under optimum-benchmark.

Both measure the same BERT (catalog size `small`, fp32, one thread), eager and under torch.compile,
in two fresh processes each. The first has an empty compile cache, the second the cache of the
first, and each samples for a second. optimum-benchmark runs under an interpreter of its own
(`--peer`), since it needs another transformers; both have the same torch. It gets the model from a
local directory.

These differences are not corrected. Compile HUD also samples eager in the compiled case, checks the
result against an fp64 oracle, counts memory and work, and stores all of it. It compiles the C++
header once a toolchain (`priming`), the peer in each empty cache. Writes one JSON document.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.overhead import run_hud
from benchmarks.startup import RESULTS, describe_machine
from compile_hud.models_zoo.catalog.catalog import CATALOG

# 1: first version.
SCHEMA_VERSION = 1
NUM_LAUNCHES = 2
BUDGET_S = 1.0
MODES = ("eager", "default")
SETTINGS = f"""[run]
launches = {NUM_LAUNCHES}
max_launches = {NUM_LAUNCHES}
budget_s = {BUDGET_S}
"""
# This runs under the peer's interpreter: one parent, one isolated process a launch, as its sweeps
# do.
PEER = """
import json, os, sys, time, importlib.metadata
from optimum_benchmark import Benchmark, BenchmarkConfig, InferenceConfig, ProcessConfig
from optimum_benchmark import PyTorchConfig
from transformers import BertConfig, BertForMaskedLM

if __name__ == "__main__":
    order = json.loads(sys.argv[1])
    size, folder = order["size"], order["folder"]
    BertForMaskedLM(
        BertConfig(
            vocab_size=size["vocab_size"],
            hidden_size=size["hidden_size"],
            intermediate_size=4 * size["hidden_size"],
            num_hidden_layers=size["num_layers"],
            num_attention_heads=size["num_heads"],
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    ).save_pretrained(folder)
    launches = []
    for mode in order["modes"]:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(folder, "cache-" + mode)
        for number in range(order["num_launches"]):
            config = BenchmarkConfig(
                name="bert",
                launcher=ProcessConfig(),
                scenario=InferenceConfig(
                    iterations=10,
                    duration=order["budget_s"],
                    warmup_runs=10,
                    input_shapes={"batch_size": size["batch"], "sequence_length": size["length"]},
                ),
                backend=PyTorchConfig(
                    model=folder,
                    task="fill-mask",
                    library="transformers",
                    model_type="bert",
                    device="cpu",
                    intra_op_num_threads=1,
                    inter_op_num_threads=1,
                    torch_compile=mode != "eager",
                    torch_compile_config={} if mode == "eager" else {"mode": mode},
                ),
            )
            start_s = time.monotonic()
            latency = Benchmark.launch(config).forward.latency
            launches.append(
                {
                    "mode": mode,
                    "launch": number,
                    "wall_s": round(time.monotonic() - start_s, 3),
                    "num_samples": len(latency.values),
                    "latency_s": float(latency.p50),
                }
            )
    names = ("optimum-benchmark", "transformers", "torch")
    versions = {name: importlib.metadata.version(name) for name in names}
    print(json.dumps({"versions": versions, "launches": launches}))
"""


def run_peer(python: Path, *, folder: Path, timeout_s: float) -> dict[str, Any]:
    """Return the cost of the same launches under optimum-benchmark."""
    script = folder / "peer.py"
    script.write_text(PEER, encoding="ascii")
    order = {
        "size": dict(CATALOG["bert"].sizes["small"].config),
        "folder": str(folder / "model"),
        "modes": MODES,
        "num_launches": NUM_LAUNCHES,
        "budget_s": BUDGET_S,
    }
    start_s = time.monotonic()
    done = subprocess.run(
        [str(python), str(script), json.dumps(order)],
        cwd=folder,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=(folder / "peer.log").open("wb"),
        timeout=timeout_s,
        check=True,
    )
    document: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {"wall_s": round(time.monotonic() - start_s, 2), **document}


def compare(ours: Mapping[str, Any], peer: Mapping[str, Any]) -> dict[str, Any]:
    """Return seconds a case of both sides, and the ratio of the peer to ours."""
    rows: dict[str, Any] = {}
    for mode in MODES:
        case_s = sum(row["wall_s"] for row in ours["launches"] if f"/{mode}" in row["case"])
        peer_s = sum(row["wall_s"] for row in peer["launches"] if row["mode"] == mode)
        rows[mode] = {"ours_s": case_s, "peer_s": peer_s, "peer_over_ours": peer_s / case_s}
    return {
        **rows,
        "whole_run": {
            "ours_s": ours["wall_s"],
            "peer_s": peer["wall_s"],
            "peer_over_ours": peer["wall_s"] / ours["wall_s"],
        },
    }


def main() -> int:
    """Measure, write the document and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", type=Path, required=True, help="a Python with optimum-benchmark")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds, for each side")
    parser.add_argument("--output", type=Path, default=RESULTS / "overhead_peer.json")
    options = parser.parse_args()
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "benchmark": "overhead_peer",
        "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": describe_machine(),
        "num_launches": NUM_LAUNCHES,
        "budget_s": BUDGET_S,
    }
    arguments = ["--model=bert", "--shape=small", "--no-reference"]
    arguments += [f"--mode={mode}" for mode in MODES]
    with tempfile.TemporaryDirectory(prefix="hud-peer-") as name:
        folder = Path(name)
        (folder / "hud.toml").write_text(SETTINGS, encoding="ascii")
        first = run_hud(folder, arguments=arguments, timeout_s=options.timeout)
        peer = run_peer(options.peer.absolute(), folder=folder, timeout_s=options.timeout)
        second = run_hud(folder, arguments=arguments, timeout_s=options.timeout)
    document["first_start"] = compare(first, peer)
    document["second_start"] = compare(second, peer)
    document |= {"ours": [first, second], "peer": peer}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({key: document[key] for key in ("first_start", "second_start")}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
