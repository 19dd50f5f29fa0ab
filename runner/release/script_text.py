"""The text of a script that runs the graphs of a case with torch alone, and times them.

Method: a launch is a fresh process. In it all sides take turns, eager and compiled, so that the
pace of the machine falls on all alike. A change is the mean over launches of the logarithm of the
median ratio; its 95 % interval is Student's. Sides with other environment variables cannot share a
process and have launches of their own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from string import Template

from compile_hud.db.records.results import Case, Dtype, Phase
from compile_hud.runner.protocol.graphs import CapturedCase, CapturedGraph

# The metrics whose change a script measures.
SCRIPT_METRICS = ("latency_s", "latency_cpu_s", "speedup", "eager_latency_s", "eager_latency_cpu_s")

_HEAD = Template('''\
"""$title

It needs torch alone: python FILE [--launches N] [--json]
Each graph has the operators that torch.compile got, with inputs that are drawn anew.
Of a training step it has the forward and the backward pass.
"""

import argparse
import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
import time

import torch
import torch.fx._pytree as fx_pytree
import torch.utils._pytree as pytree
from torch import device, inf, nan
from torch.nn.attention import SDPBackend, sdpa_kernel

NoneType = type(None)
DEVICE = "$device"
AUTOCAST = $autocast
IS_TRAINING = $is_training
torch.set_num_threads($num_threads)
# One thread of a CPU has a clock of its own, which other work does not stretch.
HAS_CPU_CLOCK = DEVICE == "cpu" and torch.get_num_threads() == 1
$precision# Seconds of a sample, and of all samples of a launch.
SAMPLE_S, BUDGET_S = 0.005, 2.0
NUM_WARMUPS, MIN_ROUNDS, MAX_ROUNDS = 5, 10, 100
# Student's 97.5 % quantiles for 1, 2, ... degrees of freedom.
STUDENT = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
# The change that is to be reproduced.
ALERT = $alert


def tensor(dtype, sizes, strides, low, high, mean, sd, needs_grad, dynamic=None):
    """Return a tensor with values from `low` to `high`, of floating-point ones normal ones.

    `dynamic` has the dimensions that torch.compile is not to take as constants.
    """
    made = torch.empty_strided(sizes, strides, dtype=dtype, device=DEVICE)
    with torch.no_grad():
        if dtype is torch.bool:
            made.copy_(torch.rand(sizes) < (low + high) / 2)
        elif dtype.is_floating_point:
            made.copy_(torch.empty(sizes).normal_(mean, sd).clamp_(low, high))
        elif dtype.is_complex:
            made.copy_(torch.randn(sizes, dtype=torch.complex64))
        else:
            made.copy_(torch.randint(int(low), int(high) + 1, sizes))
    if dynamic is not None:
        for dimension in range(made.dim()):
            if dimension in dynamic:
                torch._dynamo.maybe_mark_dynamic(made, dimension)
            else:
                torch._dynamo.mark_static(made, dimension)
    return made.requires_grad_(needs_grad)

''')
_SIDE = Template("""\
    "$name": {
        "graphs": [$graphs],
        "inputs": [$inputs],
        "options": $options,
        "environment": $environment,
        "attention": "$attention",
    },
""")
_MAIN = '''\


def loss_of(outputs):
    tensors = [item for item in pytree.tree_leaves(outputs) if isinstance(item, torch.Tensor)]
    return sum(item.float().square().mean() for item in tensors if item.requires_grad)


def iterate(functions, inputs):
    for function, values in zip(functions, inputs):
        with torch.set_grad_enabled(IS_TRAINING), autocast():
            outputs = function(*values)
            loss = loss_of(outputs) if IS_TRAINING else None
        if isinstance(loss, torch.Tensor):
            loss.backward()


def autocast():
    if AUTOCAST is None:
        return contextlib.nullcontext()
    return torch.autocast(DEVICE, dtype=AUTOCAST)


def attention(name):
    """Compile with the attention `name` during the block."""
    return sdpa_kernel(getattr(SDPBackend, name)) if name else contextlib.nullcontext()


def timed(call, number):
    """Return the seconds of each of `number` iterations by both clocks."""
    started, started_cpu = time.perf_counter(), time.thread_time()
    for _ in range(number):
        iterate(*call)
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    ended, ended_cpu = time.perf_counter(), time.thread_time()
    return {"wall": (ended - started) / number, "cpu": (ended_cpu - started_cpu) / number}


def launch(names):
    """Return the samples of each side, eager and compiled, taken in turn in this process."""
    torch.manual_seed(0)
    calls, numbers = {}, {}
    for name in names:
        side = SIDES[name]
        inputs = [make() for make in side["inputs"]]
        functions = [graph() for graph in side["graphs"]]
        calls[name + " eager"] = functions, inputs
        if side["options"] is not None:
            compiled = [torch.compile(function, **side["options"]) for function in functions]
            calls[name + " compiled"] = compiled, inputs
    for label, call in calls.items():
        name, _, kind = label.partition(" ")
        with attention(SIDES[name]["attention"] if kind == "compiled" else ""):
            shortest_s = min(timed(call, 1)["wall"] for _ in range(NUM_WARMUPS))
        numbers[label] = max(1, math.ceil(SAMPLE_S / shortest_s))
    samples = {label: [] for label in calls}
    end = time.perf_counter() + BUDGET_S
    for number in range(MAX_ROUNDS):
        if number >= MIN_ROUNDS and time.perf_counter() > end:
            break
        labels = list(calls)
        for label in reversed(labels) if number % 2 else labels:
            samples[label].append(timed(calls[label], numbers[label]))
    return samples


def started_launch(names):
    """Return the samples of a launch in a fresh process."""
    command = [sys.executable, *["-I"] * sys.flags.isolated, os.path.abspath(__file__)]
    environment = {**os.environ, **SIDES[names[0]]["environment"]}
    command += ["--launch", ",".join(names)]
    answer = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    return json.loads(answer.stdout)


def change(launches, before, after):
    """Return the change in percent from one side to the other, and its 95 % interval."""
    logs = []
    for samples in launches:
        ratios = [b / a for a, b in zip(before(samples), after(samples))]
        logs.append(math.log(statistics.median(ratios)))
    mean, half = statistics.fmean(logs), math.inf
    if len(logs) > 1:
        factor = STUDENT[min(len(logs) - 1, len(STUDENT)) - 1]
        half = factor * statistics.stdev(logs) / math.sqrt(len(logs))
    percent = [100 * math.expm1(value) for value in (mean, mean - half, min(mean + half, 700))]
    return {"change_pct": percent[0], "interval_pct": percent[1:]}


def times(name, clock):
    return lambda samples: [item[clock] for item in samples[name]]


def speedups(name, clock):
    def ratios(samples):
        pairs = zip(samples[name + " eager"], samples[name + " compiled"])
        return [eager[clock] / compiled[clock] for eager, compiled in pairs]

    return ratios


def changes_of(launches):
    """Return the change of each metric from the baseline to the candidate."""
    if "baseline" not in SIDES:
        return {}
    is_eager = SIDES["candidate"]["options"] is None
    clocks = {"wall": "_s", "cpu": "_cpu_s"} if HAS_CPU_CLOCK else {"wall": "_s"}
    own = " eager" if is_eager else " compiled"
    sides = {}
    for clock, suffix in clocks.items():
        sides["latency" + suffix] = [times(name + own, clock) for name in SIDES]
        sides["eager_latency" + suffix] = [times(name + " eager", clock) for name in SIDES]
    if not is_eager:
        sides["speedup"] = [speedups(name, list(clocks)[-1]) for name in SIDES]
    return {metric: change(launches, *both) for metric, both in sides.items()}


def report(document):
    """Print what was measured."""
    print(f"torch {torch.__version__}, {document['num_launches']} launches")
    for label, seconds in document["medians_s"].items():
        print(f"{label}: median {1e6 * seconds:.1f} us")
    for metric, measured in document["changes"].items():
        print(f"{metric}: {text_of(measured)}")
    if document["is_inside"] is not None:
        word = "inside" if document["is_inside"] else "outside"
        print(f"{ALERT['metric']} of the alert: {text_of(ALERT)}; the change is {word}")


def text_of(figures):
    low, high = figures["interval_pct"]
    return "%+.1f %% [%+.1f, %+.1f]" % (figures["change_pct"], low, high)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--launches", type=int, default=5, help="fresh processes (5)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--launch", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.launch:
        print(json.dumps(launch(options.launch.split(","))))
        return
    names = list(SIDES)
    are_alike = len({str(side["environment"]) for side in SIDES.values()}) == 1
    groups = [names] if are_alike else [[name] for name in names]
    launches = []
    for _ in range(max(1, options.launches)):
        parts = [started_launch(group) for group in groups]
        launches.append({label: taken for part in parts for label, taken in part.items()})
    changes = changes_of(launches)
    measured = changes.get(ALERT["metric"]) if ALERT else None
    low, high = ALERT["interval_pct"] if ALERT else (0, 0)
    document = {
        "torch": torch.__version__,
        "num_launches": len(launches),
        "medians_s": {
            label: statistics.median(item["wall"] for taken in launches for item in taken[label])
            for label in launches[0]
        },
        "changes": changes,
        "alert": ALERT,
        "is_inside": None if measured is None else low <= measured["change_pct"] <= high,
    }
    print(json.dumps(document)) if options.json else report(document)


if __name__ == "__main__":
    main()
'''
_TF32 = 'torch.set_float32_matmul_precision("high")\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertedChange:
    """The change of a metric that a script is to reproduce, in percent, with its interval."""

    metric: str
    change_pct: float
    interval_pct: tuple[float, float]


def script_text(
    case: Case,
    *,
    candidate: CapturedCase,
    baseline: CapturedCase | None = None,
    alerted: AlertedChange | None = None,
) -> str:
    """Return the script of `candidate`, and of `baseline` in turn with it."""
    head = _HEAD.substitute(
        title=f"{case.key}, captured with torch {candidate.torch_version}",
        device=case.device,
        autocast=candidate.autocast,
        is_training=case.phase is Phase.TRAINING,
        num_threads=candidate.num_threads,
        precision=_TF32 if case.dtype is Dtype.TF32 else "",
        alert=None if alerted is None else _dictionary(alerted),
    )
    sides = {"baseline": baseline, "candidate": candidate}
    made = {name: side for name, side in sides.items() if side is not None}
    parts, names = [head], {}
    for name, side in made.items():
        # Equal graphs are shown once: the options alone differ.
        is_shared = name == "candidate" and baseline is not None and baseline.graphs == side.graphs
        names[name] = "baseline" if is_shared else name
        if not is_shared:
            parts.extend(_definitions(side.graphs, name=name))
    parts.append("\nSIDES = {\n")
    parts.extend(_side(side, name=name, graphs=names[name]) for name, side in made.items())
    return "".join([*parts, "}\n", _MAIN])


def _dictionary(alerted: AlertedChange) -> str:
    return json.dumps(
        {
            "metric": alerted.metric,
            "change_pct": alerted.change_pct,
            "interval_pct": list(alerted.interval_pct),
        }
    )


def _definitions(graphs: tuple[CapturedGraph, ...], *, name: str) -> Iterator[str]:
    for number, graph in enumerate(graphs):
        values = "".join(f"        {text},\n" for text in graph.inputs)
        yield f"\nclass {_class(name, number)}(torch.nn.Module):\n{graph.code}\n"
        yield f"\ndef {_inputs(name, number)}():\n    return [\n{values}    ]\n\n"


def _side(side: CapturedCase, *, name: str, graphs: str) -> str:
    numbers = range(len(side.graphs))
    environment: Mapping[str, str] = dict(side.environment)
    return _SIDE.substitute(
        name=name,
        graphs=", ".join(_class(graphs, number) for number in numbers),
        inputs=", ".join(_inputs(graphs, number) for number in numbers),
        options=side.options,
        environment=repr(environment),
        attention=side.sdpa,
    )


def _class(name: str, number: int) -> str:
    return f"{name.title()}Graph{number}"


def _inputs(name: str, number: int) -> str:
    return f"{name}_inputs_{number}"
