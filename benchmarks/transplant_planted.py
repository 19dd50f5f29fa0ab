"""Measure how often `hud kernels transplant` is right about planted changes of C++ kernels.

Makes two toolchains of the present interpreter, which differ in one variable. In the bad one a
model of our own changes Inductor or itself: kernels become slower for real, or something that is no
kernel does, or a kernel's interface changes as well. Runs `hud kernels transplant` and compares its
answer. Writes one document after each trial; a later call goes on where it ended.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from string import Template
from typing import Any

from benchmarks.startup import RESULTS, describe_machine

# 1: first version.
SCHEMA_VERSION = 1
VARIABLE = "PLANTED"
WIDTH = 1024
# At least this share of the loss has to be gone with the kernels, in percent.
MIN_SHARE_PCT = 80
_MODEL = """
import os
import re
import time

import torch
from torch import nn
from torch._inductor import config
from torch.nn import functional

MODEL, PLANTED = $model, os.environ.get("PLANTED", "")


def plant_scalar():
    config.cpp.simdlen = 0


def plant_narrow():
    config.cpp.simdlen = 256


def plant_untiled():
    from torch._inductor.codegen.cpp import TilingSelect

    own = TilingSelect.select_tiling
    TilingSelect.select_tiling = lambda *arguments: ([], [], own(*arguments)[2])


def plant_repeated():
    from torch._inductor.codegen.cpp import KernelGroup

    own = KernelGroup.codegen_group

    def codegen_group(self, name=None):
        code = own(self, name)
        if not code or "in_out_ptr" in code:
            return code
        head, brace, body = code.partition("{\\n")
        end = body.rindex("}")
        fence = 'asm volatile("" ::: "memory");'
        loop = "for (int round = 0; round < 3; ++round) {\\n" + fence
        return f"{head}{brace}{loop}\\n{body[:end]}" + "}\\n}\\n"

    KernelGroup.codegen_group = codegen_group


def plant_sigmoid():
    from torch._inductor.lowering import lowerings

    aten = torch.ops.aten
    mul, add, tanh = (lowerings[name] for name in (aten.mul, aten.add, aten.tanh))

    def sigmoid(x):
        return mul(add(tanh(mul(x, 0.5)), 1.0), 0.5)

    lowerings[aten.sigmoid.default] = lowerings[aten.sigmoid] = sigmoid


def plant_exp():
    from torch._inductor.codegen.cpp import CppVecOverrides

    CppVecOverrides.exp = staticmethod(
        lambda x: f"(({x} + {x}).sin().abs() * at::vec::Vectorized<float>(0.0f) + {x}).exp()"
    )


def plant_flags():
    from torch._inductor import cpp_builder

    own = cpp_builder._get_optimization_cflags

    def flags(*arguments, **options):
        first, *others = own(*arguments, **options)
        result = [[re.sub("^O3", "O0", flag) for flag in first], *others]
        return tuple(result)

    cpp_builder._get_optimization_cflags = flags


for kind in PLANTED.split(","):
    if f"plant_{kind}" in globals():
        globals()[f"plant_{kind}"]()


@torch._dynamo.disable
def wait(x):
    # The time of the process counts, so it does not sleep.
    end = time.process_time() + (0.002 if "hook" in PLANTED else 0)
    while time.process_time() < end:
        pass
    return x


class Planted(nn.Module):
    def __init__(self):
        super().__init__()
        self.small = nn.Linear($width, 32)
        self.norm = nn.LayerNorm($width)
        self.register_buffer("eye", torch.eye($width))

    def body(self, x):
        if MODEL == "norm":
            return self.norm(torch.tanh(x) * torch.sigmoid(x))
        if MODEL == "softmax":
            return functional.softmax(functional.gelu(x), dim=-1)
        if MODEL == "gate":
            scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
            return functional.silu(x * scale) * torch.sigmoid(x)
        if MODEL == "chain":
            return torch.exp(-x.square()) * torch.sin(x) + torch.log1p(x.abs())
        return functional.avg_pool1d(torch.exp(x).unsqueeze(1), 2).squeeze(1).cos()

    def forward(self, x):
        if "hook" in PLANTED or MODEL_WAITS:
            x = wait(x)
        if "library" in PLANTED:
            for _ in range(6):
                x = x @ self.eye
        if "sizes" in PLANTED:
            x = torch.cat([x, x[:64]])
        if "dtype" in PLANTED:
            x = x.double()
        y = self.body(x)
        if "dtype" in PLANTED:
            y = y.float()
        if "results" in PLANTED:
            y = y * 1.05
        if "output" in PLANTED:
            return self.small(y), y, torch.tanh(x)
        return (self.small(y) if y.shape[-1] == $width else y), y


MODEL_WAITS = $waits


def build(config):
    return Planted(), {"x": torch.randn(256, $width)}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plant:
    """A change that slows the bad build down, and the right answer about it.

    The kind `kernel` has slower kernels alone. The kind `elsewhere` has no kernel with other code
    that is slower. The kind `interface` has slower kernels that cannot be called with the old code:
    `reasons` are the right ones to refuse them.
    """

    kind: str
    model: str
    planted: str
    reasons: tuple[str, ...] = ()


def _plants() -> list[Plant]:
    """Return all trials, those of each kind spread over the whole."""
    models = {
        "scalar": ("norm", "softmax", "gate", "chain"),
        "repeated": ("softmax", "norm", "chain", "pool"),
        "narrow": ("chain", "gate", "norm", "softmax"),
        "untiled": ("gate", "chain", "softmax", "norm"),
        "sigmoid": ("norm", "gate"),
        "exp": ("softmax", "chain"),
    }
    # Each way to slow a kernel down comes once before the next model has its turn.
    kernels = [
        Plant(kind="kernel", model=names[number], planted=planted)
        for number in range(max(map(len, models.values())))
        for planted, names in models.items()
        if number < len(names)
    ]
    others = [
        Plant(kind="elsewhere", model="norm", planted="hook"),
        Plant(kind="interface", model="gate", planted="scalar,output", reasons=("arguments",)),
        Plant(kind="elsewhere", model="softmax", planted="library"),
        Plant(
            kind="interface",
            model="norm",
            planted="scalar,sizes",
            # Inductor also fuses what makes the sizes, which adds arguments.
            reasons=("sizes", "arguments"),
        ),
        Plant(kind="elsewhere", model="chain", planted="flags"),
        Plant(kind="interface", model="chain", planted="scalar,results", reasons=("results",)),
        Plant(kind="elsewhere", model="gate", planted="library"),
        Plant(
            kind="interface", model="softmax", planted="dtype", reasons=("arguments", "regrouped")
        ),
        Plant(kind="elsewhere", model="chain", planted="hook"),
        Plant(kind="interface", model="norm", planted="scalar,results", reasons=("results",)),
    ]
    # Two kernels, then one of the others.
    return [
        plant
        for number, other in enumerate(others)
        for plant in (*kernels[2 * number : 2 * number + 2], other)
    ]


PLANTS = _plants()


def write_trial(folder: Path, plant: Plant) -> None:
    """Write the model, both toolchains and the settings of a trial."""
    text = Template(_MODEL).substitute(
        model=repr(plant.model), width=WIDTH, waits=plant.planted == "hook"
    )
    (folder / "planted.py").write_text(text, encoding="utf-8")
    for name, value in (("good", ""), ("bad", plant.planted)):
        python = folder / name
        lines = ["#!/bin/sh", f"export {VARIABLE}={value}", f'exec {sys.executable} "$@"', ""]
        python.write_text("\n".join(lines), encoding="utf-8")
        python.chmod(0o755)
    settings = [
        "[toolchains]", *(f'{name} = "{folder / name}"' for name in ("good", "bad")),
        "[models.planted]", 'build = "planted.py:build"', "[run]", "rounds = 10", "budget_s = 0.3",
    ]  # fmt: skip
    (folder / "hud.toml").write_text("\n".join(settings) + "\n", encoding="utf-8")


def run_trial(plant: Plant, *, folder: Path, core: int | None) -> dict[str, Any]:
    """Return the answer about a plant, and whether it is right, wrong or neither."""
    write_trial(folder, plant)
    command = [sys.executable, "-m", "compile_hud.runner", "kernels", "transplant"]
    command += ["--toolchain", "good", "bad", "--model", "planted", "--mode", "default"]
    command += ["--phase", "inference", "--max-launches", "8", "--json"]
    pin = [] if core is None else ["taskset", "-c", str(core)]
    started_s = time.monotonic()
    done = subprocess.run(
        [*pin, *command], capture_output=True, text=True, cwd=folder, env=dict(os.environ)
    )
    took_s = time.monotonic() - started_s
    if not done.stdout:
        raise RuntimeError(f"{plant}: {done.stderr}")
    answer = json.loads(done.stdout)
    return {
        **asdict(plant),
        "judgement": judge(plant, answer, is_answered=done.returncode == 0),
        "sentence": answer["sentence"],
        "loss": [round(answer["loss"][name], 3) for name in ("ratio", "low", "high")],
        "together": _figures(answer["together"]),
        "rest": _figures(answer["rest"]),
        "kernels": [[item["label"], *(_figures(item) or ())] for item in answer["kernels"]],
        "refused": [[item["label"], item["reason"], item["text"]] for item in answer["refused"]],
        "num_rounds": answer["num_rounds"],
        "took_s": round(took_s, 1),
        "load": round(os.getloadavg()[0], 2),
    }


def judge(plant: Plant, answer: Mapping[str, Any], *, is_answered: bool) -> str:
    """Return `right`, `wrong`, or `undecided` for an answer that claims nothing."""
    together = answer["together"]
    bounds = together and together["interval_pct"]
    is_gain = bool(bounds and bounds[0] > 0 and together["share_pct"] >= 20)
    if plant.kind != "kernel":
        if is_gain:
            return "wrong"
        reasons = {item["reason"] for item in answer["refused"]}
        is_refused = not plant.reasons or bool(reasons & set(plant.reasons))
        return "right" if is_refused else "undecided"
    if is_answered and together["share_pct"] >= MIN_SHARE_PCT:
        return "right"
    is_denied = answer["loss"]["verdict"] == "differ" and (
        bool(bounds and bounds[1] < MIN_SHARE_PCT) or (together is None and not answer["refused"])
    )
    return "wrong" if is_denied else "undecided"


def _figures(share: Mapping[str, Any] | None) -> list[float] | None:
    """Return a share in percent, and its interval."""
    if share is None:
        return None
    return [round(value, 1) for value in (share["share_pct"], *(share["interval_pct"] or ()))]


def summary(trials: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the counts of judgements, in all and by kind."""
    kinds = dict.fromkeys(trial["kind"] for trial in trials)
    words = ("right", "wrong", "undecided")
    return {
        "num_trials": len(trials),
        **{word: sum(trial["judgement"] == word for trial in trials) for word in words},
        "by_kind": {
            kind: {
                word: sum(trial["kind"] == kind and trial["judgement"] == word for trial in trials)
                for word in words
            }
            for kind in kinds
        },
    }


def main() -> int:
    """Run the trials that the document lacks, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=RESULTS / "transplant_planted.json")
    parser.add_argument("--trials", type=int, default=len(PLANTS))
    parser.add_argument("--core", type=int, help="run all on this core")
    options = parser.parse_args()
    trials: list[dict[str, Any]] = []
    if options.output.exists():
        trials = json.loads(options.output.read_text(encoding="utf-8"))["trials"]
    machine = describe_machine()
    for plant in PLANTS[len(trials) : options.trials]:
        with tempfile.TemporaryDirectory() as folder:
            trials.append(run_trial(plant, folder=Path(folder), core=options.core))
        sys.stderr.write(f"{json.dumps(trials[-1])}\n")
        document = {
            "schema_version": SCHEMA_VERSION,
            "measured_at": datetime.now(timezone.utc).isoformat(),
            "machine": machine,
            "summary": summary(trials),
            "trials": trials,
        }
        options.output.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
