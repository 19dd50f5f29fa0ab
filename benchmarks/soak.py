"""Whether anything grows while thousands of cases are measured in a row.

One process works through jobs as `hud schedule` does: real worker hosts, a real store, each run
judged. After each case it looks at itself: resident memory, open files, threads, processes below
it, and files in the state directory. It also counts what is allocated, bytes by malloc, which
resident memory follows from afar, and blocks by Python. Kernels are recorded in every fourth run,
since they take as long as the rest of so small a case. Slopes are of Theil and Sen, over the ends
of runs after the first quarter, when caches have filled; their interval is that of Sen (1968) at
95 %, which takes neighbours as independent.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import click
from scipy.stats import theilslopes

from benchmarks.startup import RESULTS, describe_machine
from db.health import load_health
from db.records import Outcome
from runner.alerts.outlet import send_waiting
from runner.commands.judging import judge
from runner.config import Config, load_config
from runner.events import CaseFinished, Event
from runner.jobloop import JobLoop
from runner.jobs import JobRequest, JobRequests
from runner.wiring import Seams, Workplace

# 1: first version.
SCHEMA_VERSION = 1
PER = 1000
KERNELS_EVERY = 4
# The fields of `struct mallinfo2`, in their order.
MALLOC_COUNTS = (
    "arena",
    "ordblks",
    "smblks",
    "hblks",
    "hblkhd",
    "usmblks",
    "fsmblks",
    "uordblks",
    "fordblks",
    "keepcost",
)
MODEL = """
import torch
from torch import nn

def build(config):
    return nn.Linear(32, config["width"])

def example_inputs(config, *, seed):
    return {"input": torch.randn(4, 32, generator=torch.Generator().manual_seed(seed))}
"""
CONFIG = """
[machine]
name = "soak"
[run]
launches = 1
max_launches = 1
target_interval = 0
rounds = 6
budget_s = 0.02
confirm = false
reference_cases = false
[suites.soak]
models = "tiny"
modes = ["eager"]
phases = ["inference"]
shape = "*"
[models.tiny]
build = "tiny.py"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What the process was after so many cases; files of traces are kept on purpose.

    `heap_bytes` are those that malloc gave out, `num_blocks` what Python allocated.
    """

    num_cases: int
    at_s: float
    resident_bytes: int
    heap_bytes: int
    num_blocks: int
    num_descriptors: int
    num_threads: int
    num_processes: int
    host_bytes: int
    num_files: int
    num_trace_files: int


QUANTITIES = tuple(
    item.name for item in fields(Look) if item.name not in ("num_cases", "at_s", "num_trace_files")
)


def look(num_cases: int, *, config: Config, started_s: float) -> Look:
    """Return what this process and its state directory are now."""
    below = tuple(descendants(os.getpid()))
    files = [path for path in config.state_dir.rglob("*") if path.is_file()]
    num_traces = sum(config.traces_dir in path.parents for path in files)
    return Look(
        num_cases=num_cases,
        at_s=round(time.monotonic() - started_s, 2),
        resident_bytes=resident_bytes(os.getpid()),
        heap_bytes=heap_bytes(),
        num_blocks=sys.getallocatedblocks(),
        num_descriptors=len(os.listdir("/proc/self/fd")),
        num_threads=len(os.listdir("/proc/self/task")),
        num_processes=len(below),
        host_bytes=sum(resident_bytes(pid) for pid in below),
        num_files=len(files) - num_traces,
        num_trace_files=num_traces,
    )


def resident_bytes(pid: int) -> int:
    """Return the resident memory of process `pid`, 0 when it is gone."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


class _MallocInfo(ctypes.Structure):
    """What `mallinfo2` of the GNU C library fills in."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in MALLOC_COUNTS)


def heap_bytes() -> int:
    """Return the bytes that malloc has given out in this process, mapped blocks included."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = _MallocInfo
    info = mallinfo()
    return int(info.uordblks) + int(info.hblkhd)


def descendants(pid: int) -> Iterator[int]:
    """Yield the processes below `pid`."""
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = path.read_text(encoding="ascii").split()
        except OSError:
            continue
        for child in map(int, children):
            yield child
            yield from descendants(child)


class Soak:
    """A process that measures cases in a row and looks at itself."""

    def __init__(self, folder: Path, *, num_shapes: int, toolchains: str) -> None:
        # Not the looks: this process must not grow by what it knows of itself.
        self.most = dict.fromkeys(QUANTITIES, 0)
        self.ends: list[Look] = []
        self.outcomes: dict[str, int] = {}
        self._started_s = time.monotonic()
        self._state_dir = folder / "state"
        (folder / "tiny.py").write_text(MODEL, encoding="ascii")
        sizes = "".join(
            f"[models.tiny.sizes.w{number}]\nwidth = {number}\n"
            for number in range(1, num_shapes + 1)
        )
        (folder / "hud.toml").write_text(CONFIG + sizes + toolchains, encoding="ascii")
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HUD_")}
        env = {
            **kept,
            "HUD_STATE_DIR": str(self._state_dir),
            "HUD_LOCK_DIR": str(folder / "locks"),
        }
        config = load_config(folder / "hud.toml", env=env)
        self.workplace = Workplace(config=config, seams=Seams(env=env, has_gpu=lambda: False))
        self._requests = JobRequests(self._state_dir / "jobs")
        self._wake = threading.Event()

    def run(self, number: int) -> None:
        """Measure one run as job `number`."""
        self._requests.write(
            JobRequest(
                dedupe_key=f"soak {number:05d}",
                suite="soak",
                toolchain="current",
                trigger="soak",
            )
        )
        if trouble := self._loop(has_kernels=number % KERNELS_EVERY == 0).run_queued():
            raise RuntimeError(f"the queue cannot be read: {trouble}")
        # What only waits for the collector is no growth.
        gc.collect()
        self.ends.append(self._look())

    def _loop(self, *, has_kernels: bool) -> JobLoop:
        config = self.workplace.config
        config = replace(config, measure=replace(config.measure, kernels=has_kernels))
        workplace = replace(self.workplace, config=config)
        return JobLoop(
            workplace=workplace,
            notify=self._on_event,
            judge=partial(judge, workplace=workplace),
            send=partial(send_waiting, workplace, notify=self._on_event),
            wake=self._wake,
        )

    def _on_event(self, event: Event) -> None:
        if isinstance(event, CaseFinished):
            outcome = str(event.result.outcome)
            self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
            seen = self._look()
            self.most = {name: max(most, getattr(seen, name)) for name, most in self.most.items()}

    def _look(self) -> Look:
        num_cases = sum(self.outcomes.values())
        return look(num_cases, config=self.workplace.config, started_s=self._started_s)


def slope_of(looks: Sequence[Look], name: str) -> dict[str, float]:
    """Return by how much quantity `name` grew per 1,000 cases, with the ends of its interval."""
    later = looks[len(looks) // 4 :]
    values = [float(getattr(item, name)) for item in later]
    slope: dict[str, float] = {}
    if len(later) > 1:
        found = theilslopes(values, [item.num_cases for item in later], 0.95)
        ends = {"slope": found.slope, "low": found.low_slope, "high": found.high_slope}
        slope = {f"{key}_per_{PER}_cases": PER * float(value) for key, value in ends.items()}
    return {"first": values[0], "last": values[-1], **slope}


def soak(
    folder: Path, *, num_cases: int, num_shapes: int, toolchains: str = ""
) -> Iterator[dict[str, Any]]:
    """Measure at least `num_cases`, `num_shapes` in a run, and yield what grew after each run.

    `toolchains` is that table of hud.toml, where it is to be another than this Python.
    """
    it = Soak(folder, num_shapes=num_shapes, toolchains=toolchains)
    for number in range(-(-num_cases // num_shapes)):
        it.run(number)
        yield {
            "schema_version": SCHEMA_VERSION,
            "num_cases": it.ends[-1].num_cases,
            "num_runs": len(it.ends),
            "wall_s": it.ends[-1].at_s,
            "outcomes": dict(it.outcomes),
            "num_open_jobs": len(load_health(it.workplace.store()).open_jobs),
            "slopes": {name: slope_of(it.ends, name) for name in QUANTITIES},
            "most_while_measuring": dict(it.most),
            "ends": [asdict(item) for item in it.ends],
        }


@click.command()
@click.option("--cases", "num_cases", default=2000, show_default=True)
@click.option("--shapes", "num_shapes", default=50, show_default=True, help="Cases of a run.")
@click.option("--output", type=click.Path(path_type=Path), default=RESULTS / "soak.json")
def main(*, num_cases: int, num_shapes: int, output: Path) -> None:
    """Measure tiny cases in a row, and write what grew meanwhile; anew after each run."""
    machine = describe_machine()
    with tempfile.TemporaryDirectory() as folder:
        for found in soak(Path(folder), num_cases=num_cases, num_shapes=num_shapes):
            document = {**found, "machine": machine}
            output.write_text(json.dumps(document, indent=1) + "\n", encoding="ascii")
            click.echo(f"{found['num_cases']} cases, {found['wall_s']:.0f} s", err=True)
    for name, slope in found["slopes"].items():
        click.echo(f"{name}: {slope}")
    sys.exit(int(found["outcomes"] != {str(Outcome.OK): found["num_cases"]}))


if __name__ == "__main__":
    main()
