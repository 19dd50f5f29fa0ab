"""Measure how often the script of a case file reproduces a planted incident, with torch alone.

Makes a workspace with a model of its own for each incident. Measures nights, makes the models
slower in several ways, and measures nights until each has its alert. Exports each alert, verifies
its numbers, and runs its script in an environment without Compile HUD. Writes one document after
each incident; a later call goes on with the incidents that it lacks.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
import zipfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from string import Template
from typing import Any

from benchmarks.hud_command import run_hud
from benchmarks.startup import RESULTS, describe_machine

# 1: first version.
SCHEMA_VERSION = 1
# Twelve nights show the noise, and three the change; a small one needs some more.
NUM_GOOD, MIN_BAD, MAX_BAD = 12, 3, 7
NUM_PASSES = 10
VARIANT = "tuned"
# The vectors of the options' change: none.
SIMD_BITS = 1
# The first that has an alert is exported: on a CPU the detector judges the CPU's clock.
METRICS = ("latency_cpu_s", "latency_s", "speedup")
_MODEL = Template("""\
import torch
from torch import nn
from torch.nn import functional

ARCHITECTURE = "$architecture"
# The planted change: more passes, and passes that change the layout or the dtype.
EXTRA, NUM_LAYOUT, NUM_DOUBLE = $extra, $num_layout, $num_double


class Planted(nn.Module):
    def __init__(self, passes):
        super().__init__()
        self.passes = passes + EXTRA
        self.weight = nn.Parameter(torch.randn(256, 256) / 16)
        self.mixed = nn.Parameter(torch.randn(768, 256) / 16)
        self.scale = nn.Parameter(torch.ones(256))
        self.filters = nn.Parameter(torch.randn(16, 16, 3, 3) / 12)

    def block(self, x):
        if ARCHITECTURE == "linear":
            return functional.gelu(x @ self.weight.to(x.dtype))
        if ARCHITECTURE == "norm":
            y = functional.layer_norm(x, (256,), self.scale.to(x.dtype))
            return torch.tanh(y) * torch.sigmoid(x)
        if ARCHITECTURE == "softmax":
            return functional.softmax(functional.gelu(x), dim=-1)
        if ARCHITECTURE == "chain":
            return torch.exp(-x.square()) * torch.sin(x) + torch.log1p(x.abs())
        if ARCHITECTURE == "mixed":
            return torch.tanh(x @ self.weight.to(x.dtype)) * torch.sigmoid(torch.sin(x))
        if ARCHITECTURE == "attention":
            parts = (x @ self.mixed.to(x.dtype).T).view(4, 64, 3, 8, 32).permute(2, 0, 3, 1, 4)
            y = functional.scaled_dot_product_attention(*parts)
            return x + y.transpose(1, 2).reshape(4, 64, 256)
        return torch.relu(functional.conv2d(x, self.filters.to(x.dtype), padding=1))

    def forward(self, x):
        for number in range(self.passes):
            if number < NUM_LAYOUT:
                x = x.transpose(-1, -2).contiguous().transpose(-1, -2)
            if number < NUM_DOUBLE:
                x = self.block(x.double()).float()
            else:
                x = self.block(x)
        return x


def build(config):
    shape = (4, 16, 32, 32) if ARCHITECTURE == "convolution" else (4, 64, 256)
    return Planted(config["passes"]), {"x": torch.randn(*shape)}
""")


# A cache of g++: nights compile equal code again, and no compile time is planted. Inductor names a
# file by its content, and has a folder of its own for each launch.
_COMPILER = Template("""\
#!/bin/sh
for word; do
    case $$previous in -o) output=$$word ;; esac
    previous=$$word
done
[ -n "$$output" ] || exec g++ "$$@"
key=$$(echo "$$*" | sed "s#$${TORCHINDUCTOR_CACHE_DIR:-/none}##g" | sha256sum | cut -c1-32)
[ -e $folder/$$key ] && exec cp $folder/$$key "$$output"
g++ "$$@" || exit
cp "$$output" $folder/$$key
""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """A model and its planted change, of which `amount` is the size.

    The kinds `work`, `layout` and `dtype` change the code of the model, `config` its configuration
    and `options` an option of Inductor.
    """

    kind: str
    architecture: str
    amount: int

    @property
    def model(self) -> str:
        """Return the name of the model."""
        return f"{self.kind}-{self.architecture}-{self.amount}"

    @property
    def mode(self) -> str:
        """Return the variant that the model is measured under."""
        return VARIANT if self.kind == "options" else "default"


_PLANTS: Mapping[str, Sequence[tuple[str, int]]] = {
    "work": (("linear", 7), ("norm", 8), ("convolution", 8), ("attention", 8)),
    # Inductor fuses other layouts into the kernels before and after, but for convolutions.
    "layout": tuple(("convolution", amount) for amount in (7, 8, 9, 10)),
    "options": tuple((name, SIMD_BITS) for name in ("norm", "softmax", "chain", "mixed")),
    "dtype": (("linear", 5), ("norm", 5), ("convolution", 3), ("attention", 5)),
    "config": (("linear", 8), ("norm", 8), ("convolution", 7), ("attention", 7)),
}
# Each way comes once before any comes again.
INCIDENTS = [
    Incident(kind=kind, architecture=architecture, amount=amount)
    for number in range(4)
    for kind, rows in _PLANTS.items()
    for architecture, amount in [rows[number]]
]


def write_workspace(folder: Path, incidents: Sequence[Incident], *, is_planted: bool) -> None:
    """Write the models and the settings, with the planted changes if `is_planted`."""
    settings = [
        "[run]", "launches = 1", "max_launches = 1", "rounds = 30", "budget_s = 0.8",
        "kernels = false", "sweep = false", "reference_cases = false", "confirm = false",
        f"[variants.{VARIANT}]",
    ]  # fmt: skip
    if is_planted:
        settings.append(f'inductor = {{ "cpp.simdlen" = {SIMD_BITS} }}')
    for incident in incidents:
        amount = incident.amount if is_planted else 0
        text = _MODEL.substitute(
            architecture=incident.architecture,
            extra=amount if incident.kind == "work" else 0,
            num_layout=amount if incident.kind == "layout" else 0,
            num_double=amount if incident.kind == "dtype" else 0,
        )
        (folder / f"{incident.model}.py").write_text(text, encoding="utf-8")
    for incident in incidents:
        passes = NUM_PASSES
        if incident.kind == "config" and is_planted:
            passes += incident.amount
        settings += [
            f"[models.{incident.model}]", f'build = "{incident.model}.py:build"',
            "keep_source = true", 'phases = ["inference"]',
            f"[models.{incident.model}.sizes.default]", f"passes = {passes}",
        ]  # fmt: skip
    (folder / "hud.toml").write_text("\n".join(settings) + "\n", encoding="utf-8")


def cache_compiler(folder: Path) -> None:
    """Let launches of this process use a cache of g++ in `folder`."""
    folder.mkdir()
    compiler = folder / "g++"
    compiler.write_text(_COMPILER.substitute(folder=folder), encoding="utf-8")
    compiler.chmod(0o755)
    os.environ["CXX"] = str(compiler)


def run_night(folder: Path, incidents: Sequence[Incident]) -> None:
    """Measure each model under its variant; a run has the models of one variant."""
    for mode in dict.fromkeys(incident.mode for incident in incidents):
        models = [incident.model for incident in incidents if incident.mode == mode]
        options = [word for model in models for word in ("--model", model)]
        run_hud(folder, "run", *options, "--mode", mode, "--fail-on", "none")


def alerts_of(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the alert to export of each model that has one."""
    alerts = json.loads(run_hud(folder, "alerts", "list", "--json"))
    chosen: dict[str, dict[str, Any]] = {}
    for metric in METRICS:
        for alert in alerts:
            if alert["metric"] == metric and alert["verdict"] == "regression":
                chosen.setdefault(alert["model"], alert)
    return chosen


def run_nights(folder: Path, incidents: Sequence[Incident]) -> dict[str, dict[str, Any]]:
    """Measure good nights, then bad ones until each model has an alert; return the alerts."""
    alerts: dict[str, dict[str, Any]] = {}
    for number in range(NUM_GOOD + MAX_BAD):
        started_s = time.monotonic()
        write_workspace(folder, incidents, is_planted=number >= NUM_GOOD)
        run_night(folder, incidents)
        if number + 1 >= NUM_GOOD + MIN_BAD:
            alerts = alerts_of(folder)
        took_s = time.monotonic() - started_s
        sys.stderr.write(f"night {number + 1}: {took_s:.0f} s, {len(alerts)} alerts\n")
        if len(alerts) == len(incidents):
            break
    return alerts


def make_clean_environment(folder: Path) -> Path:
    """Return an interpreter with the packages of this one, without Compile HUD."""
    venv.create(folder, with_pip=False)
    packages = next((folder / "lib").glob("python*")) / "site-packages"
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if "compile_hud" not in path.name and path.suffix != ".pth":
            (packages / path.name).symlink_to(path)
    python = folder / "bin" / "python"
    done = subprocess.run([python, "-I", "-c", "import compile_hud"], capture_output=True)
    if done.returncode == 0:
        raise RuntimeError(f"{python} imports Compile HUD, so it is no clean environment")
    return python


def reproduce(
    incident: Incident, *, alert: Mapping[str, Any], folder: Path, python: Path, launches: int
) -> dict[str, Any]:
    """Export and verify an alert, run its script, and return the figures of both."""
    started_s = time.monotonic()
    path = folder / f"{incident.model}.zip"
    run_hud(folder, "alerts", "export", alert["id"], "--output", str(path), "--script")
    verified = run_hud(folder, "alerts", "verify", str(path), "--json", expected=(0, 1))
    numbers = json.loads(verified)["numbers"]
    with zipfile.ZipFile(path) as archive:
        script = archive.extract("script.py", folder / incident.model)
        notes = [
            line.removeprefix("Note: ")
            for line in archive.read("README.md").decode().splitlines()
            if line.startswith("Note: ")
        ]
    done = subprocess.run(
        [python, "-I", script, "--json", "--launches", str(launches)],
        capture_output=True,
        text=True,
        cwd=folder / incident.model,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        },
    )
    answer = json.loads(done.stdout) if done.returncode == 0 else None
    change = answer and answer["changes"].get(alert["metric"])
    return {
        **asdict(incident),
        "metric": alert["metric"],
        "alert": _figures(alert),
        "script": None if change is None else _figures(change),
        "is_inside": bool(change) and _is_inside(change["change_pct"], alert["interval_pct"]),
        "is_overlapping": bool(change) and _overlaps(change, alert),
        "num_numbers": len(numbers),
        "is_verified": bool(numbers) and all(number["is_same"] for number in numbers),
        "notes": notes,
        "error": done.stderr.strip()[-300:] if answer is None else "",
        "took_s": round(time.monotonic() - started_s, 1),
        "load": round(os.getloadavg()[0], 2),
    }


def _figures(change: Mapping[str, Any]) -> list[float]:
    """Return a change in percent, and its interval."""
    return [round(value, 2) for value in (change["change_pct"], *change["interval_pct"])]


def _is_inside(value: float, interval: Sequence[float]) -> bool:
    return interval[0] <= value <= interval[1]


def _overlaps(change: Mapping[str, Any], alert: Mapping[str, Any]) -> bool:
    low, high = change["interval_pct"]
    other_low, other_high = alert["interval_pct"]
    return bool(low <= other_high and other_low <= high)


def summary(incidents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the counts of incidents, in all and by kind."""
    kinds = dict.fromkeys(incident["kind"] for incident in incidents)
    names = ("is_verified", "is_inside", "is_overlapping")
    return {
        "num_incidents": len(incidents),
        "num_alerts": sum(incident["alert"] is not None for incident in incidents),
        **{f"num_{name.removeprefix('is_')}": _count(incidents, name) for name in names},
        "inside_by_kind": {
            kind: [
                _count([item for item in incidents if item["kind"] == kind], "is_inside"),
                sum(item["kind"] == kind for item in incidents),
            ]
            for kind in kinds
        },
    }


def _count(incidents: Collection[Mapping[str, Any]], name: str) -> int:
    return sum(bool(incident[name]) for incident in incidents)


def _without_figures(incident: Incident) -> dict[str, Any]:
    flags = dict.fromkeys(("is_inside", "is_overlapping", "is_verified"), False)
    return {**asdict(incident), "metric": None, "alert": None, "script": None, **flags}


def main() -> int:
    """Reproduce the incidents that the document lacks, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=RESULTS / "case_files_planted.json")
    parser.add_argument("--incidents", type=int, default=len(INCIDENTS))
    parser.add_argument("--launches", type=int, default=5, help="launches of each script")
    parser.add_argument("--core", type=int, help="run all on this core")
    options = parser.parse_args()
    if options.core is not None:
        os.sched_setaffinity(0, {options.core})
    done: list[dict[str, Any]] = []
    if options.output.exists():
        done = json.loads(options.output.read_text(encoding="utf-8"))["incidents"]
    incidents = INCIDENTS[len(done) : options.incidents]
    machine = describe_machine()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = make_clean_environment(folder / "clean")
        cache_compiler(folder / "compiler")
        alerts = run_nights(folder, incidents) if incidents else {}
        for incident in incidents:
            answer = _answer(
                incident,
                alert=alerts.get(incident.model),
                folder=folder,
                python=python,
                launches=options.launches,
            )
            done.append(answer)
            sys.stderr.write(f"{json.dumps(answer)}\n")
            _write(options.output, done, machine=machine)
    return 0


def _answer(
    incident: Incident,
    *,
    alert: Mapping[str, Any] | None,
    folder: Path,
    python: Path,
    launches: int,
) -> dict[str, Any]:
    """Return the figures of an incident; one without an alert or a script has none."""
    if alert is None:
        return _without_figures(incident)
    try:
        return reproduce(incident, alert=alert, folder=folder, python=python, launches=launches)
    except RuntimeError as error:
        known = {"metric": alert["metric"], "alert": _figures(alert), "error": str(error)}
        return _without_figures(incident) | known


def _write(path: Path, incidents: list[dict[str, Any]], *, machine: Mapping[str, Any]) -> None:
    document = {
        "schema_version": SCHEMA_VERSION,
        "measured_at": datetime.now(timezone.utc).isoformat(),
        "machine": machine,
        "num_good_nights": NUM_GOOD,
        "summary": summary(incidents),
        "incidents": incidents,
    }
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
