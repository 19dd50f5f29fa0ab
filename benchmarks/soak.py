"""Measure the growth of the process while thousands of cases are measured in a row.

One process works through jobs as `hud schedule` does: real worker hosts, a real store, each run
judged. After each case it records its resident memory, open files, threads, processes below it, and
files in the state directory. It also counts allocations, bytes by malloc and blocks by Python;
resident memory follows them only roughly. Kernels are recorded in every fourth run, since they take
as long as the rest of so small a case.

Before that, bounded caches are filled that would fill up only after years of nights. numpy caches
freed blocks of up to 1 kB, seven of each size, and CPython 2,000 tuples of each length below 20.
Each further night in a history brings new sizes and more tuples.

Then the process judges a history longer than the measured one, of simulated nights in a store of
their own: more points take more room, and allocators keep a page as long as something small lies in
it. The document has the growth by that, too. The first thousand measured cases warm up the rest,
since logs, kernels and errors have other lengths than simulated ones. After them each run begins
with the store as it was then. A history that is longer by a night takes more room, which is no
leak; the nights before show how much.

Slopes and their intervals are those of `trend.py`, over the ends of the runs after that.
"""

from __future__ import annotations

import ctypes
import gc
import json
import math
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import click
import numpy as np
from sqlalchemy.engine import make_url

from benchmarks.nights.faults import FOLDER_VARIABLE
from benchmarks.startup import RESULTS, ROOT, describe_machine
from benchmarks.trend import trend_of
from compile_hud.db.jobs.health import load_health
from compile_hud.db.records.results import Outcome
from compile_hud.runner.alerting.notifier import send_waiting
from compile_hud.runner.cli.run.after_run import judge
from compile_hud.runner.config.load import Config, load_config
from compile_hud.runner.events import CaseFinished, Event
from compile_hud.runner.execution.worker_process import descendants
from compile_hud.runner.scheduling.job_requests import JobRequest, JobRequests
from compile_hud.runner.scheduling.job_worker import JobServices, JobWorker
from compile_hud.runner.workspace import Dependencies, Workspace

# 1: first version. 2: `anonymous_bytes`. 3: after nights that were judged before. 4: after caches
# that have an end were filled, and a longer history was judged, whose `slopes_before` are there.
# 5: slopes after `num_warm_up` cases, not after a quarter of them. 6: the history stays the same
# after the warm-up, and intervals count that neighbours are alike.
SCHEMA_VERSION = 6
# Constants of numpy's core, `NBUCKETS` and `NCACHE`, and of CPython 3.11, `PyTuple_MAXFREELIST` and
# `PyTuple_MAXSAVESIZE`; one more of each size is freed than is cached.
NUMPY_CACHE_BYTES, NUMPY_CACHE_BLOCKS = 1024, 8
TUPLE_CACHE_LENGTH, TUPLE_CACHE_COUNT = 20, 2001
PER = 1000
# The history that is judged before is longer by this factor.
LENGTH_BEFORE = 1.25
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
    """State of the process after so many cases; files of traces are stored on purpose.

    `anonymous_bytes` are resident and of no file: libraries come in page by page as they are used.
    `heap_bytes` are allocated by malloc, `num_blocks` by Python.
    """

    num_cases: int
    at_s: float
    resident_bytes: int
    anonymous_bytes: int
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
    """Return the state of this process and of its state directory."""
    # Allocations are counted first: the names of all files, which grow in number, are no growth of
    # memory.
    allocated = {
        "num_blocks": sys.getallocatedblocks(),
        "heap_bytes": heap_bytes(),
        "resident_bytes": resident_bytes(os.getpid()),
        "anonymous_bytes": resident_bytes(os.getpid(), is_anonymous=True),
    }
    below = [process.pid for process in descendants(os.getpid())]
    assert config.traces_dir is not None
    num_trace_files = num_files_below(config.traces_dir)
    return Look(
        num_cases=num_cases,
        at_s=round(time.monotonic() - started_s, 2),
        **allocated,
        num_descriptors=len(os.listdir("/proc/self/fd")),
        num_threads=len(os.listdir("/proc/self/task")),
        num_processes=len(below),
        host_bytes=sum(resident_bytes(pid) for pid in below),
        num_files=num_files_below(config.state_dir) - num_trace_files,
        num_trace_files=num_trace_files,
    )


def num_files_below(folder: Path) -> int:
    """Return the number of files in `folder` and all folders in it."""
    return sum(len(names) for _, _, names in os.walk(folder))


def resident_bytes(pid: int, *, is_anonymous: bool = False) -> int:
    """Return the resident memory of process `pid`, or its part without a file; 0 if it is gone."""
    try:
        _, resident, of_files, *_ = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
    except OSError:
        return 0
    pages = int(resident) - (int(of_files) if is_anonymous else 0)
    return pages * os.sysconf("SC_PAGE_SIZE")


class _MallocInfo(ctypes.Structure):
    """The result of `mallinfo2` of the GNU C library."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in MALLOC_COUNTS)


def heap_bytes() -> int:
    """Return the bytes that malloc has allocated in this process, mapped blocks included."""
    info = _mallinfo()()
    return int(info.uordblks) + int(info.hblkhd)


# Opening the library again would make new classes.
@cache
def _mallinfo() -> Callable[[], Any]:
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = _MallocInfo
    return mallinfo


class Soak:
    """A process that measures cases in a row and records its own state."""

    def __init__(
        self, folder: Path, *, num_shapes: int, toolchains: str, leak_bytes: int = 0
    ) -> None:
        self._leak_bytes = leak_bytes
        self._leaked: list[bytes] = []
        self._history = folder / "history"
        self.most = dict.fromkeys(QUANTITIES, 0)
        # A file and no list: this process must not grow by its own records.
        self._ends = folder / "ends.jsonl"
        self.outcomes: dict[str, int] = {}
        self._started_s = time.monotonic()
        self._state_dir = folder / "state"
        (folder / "tiny.py").write_text(MODEL, encoding="ascii")
        sizes = "".join(
            f"[models.tiny.sizes.w{number}]\nwidth = {number}\n"
            for number in range(1, num_shapes + 1)
        )
        (folder / "hud.toml").write_text(CONFIG + sizes + toolchains, encoding="ascii")
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith("HUD_")
        }
        env = {
            **inherited,
            "HUD_STATE_DIR": str(self._state_dir),
            "HUD_LOCK_DIR": str(folder / "locks"),
        }
        config = load_config(folder / "hud.toml", env=env)
        self.workspace = Workspace(
            config=config, dependencies=Dependencies(env=env, has_gpu=lambda: False)
        )
        self._requests = JobRequests(self._state_dir / "jobs")
        self._wake = threading.Event()

    def run(self, number: int) -> None:
        """Measure one run as job `number`, after the stored history if there is one."""
        if self._history.exists():
            shutil.copyfile(self._history, self._store_path())
        self._requests.write(
            JobRequest(
                dedupe_key=f"soak {number:05d}",
                suite="soak",
                toolchain="current",
                trigger="soak",
            )
        )
        if error_text := self._loop(has_kernels=number % KERNELS_EVERY == 0).run_queued():
            raise RuntimeError(f"the queue cannot be read: {error_text}")
        # Garbage that only waits for the collector is no growth.
        gc.collect()
        with self._ends.open("a", encoding="ascii") as file:
            file.write(json.dumps(asdict(self._look())) + "\n")

    def num_cases(self) -> int:
        """Return the number of measured cases."""
        return sum(self.outcomes.values())

    def hold_history(self) -> None:
        """Let each run from now on begin with the store as it is now."""
        if not self._history.exists():
            shutil.copyfile(self._store_path(), self._history)

    def _store_path(self) -> Path:
        path = make_url(self.workspace.config.store_url).database
        assert path is not None
        assert not Path(f"{path}.wal").exists(), "somebody has the store open"
        return Path(path)

    def summary(self, *, num_warm_up: int) -> dict[str, Any]:
        """Return the growth after the first `num_warm_up` cases, as a JSON object."""
        lines = self._ends.read_text(encoding="ascii").splitlines()
        ends = [Look(**json.loads(line)) for line in lines]
        later = [item for item in ends if item.num_cases > num_warm_up] or ends[-1:]
        return {
            "schema_version": SCHEMA_VERSION,
            "num_cases": ends[-1].num_cases,
            "num_warm_up": num_warm_up,
            "num_runs": len(ends),
            "wall_s": ends[-1].at_s,
            "outcomes": dict(self.outcomes),
            "num_open_jobs": len(load_health(self.workspace.store()).open_jobs),
            "slopes": {name: slope_of(later, name) for name in QUANTITIES},
            "most_while_measuring": dict(self.most),
            "ends": [asdict(item) for item in ends],
        }

    def _loop(self, *, has_kernels: bool) -> JobWorker:
        config = self.workspace.config
        config = replace(config, measure=replace(config.measure, kernels=has_kernels))
        workspace = replace(self.workspace, config=config)
        return JobWorker(
            workspace=workspace,
            services=JobServices(
                notify=self._on_event,
                judge=partial(judge, workspace=workspace),
                send_notifications=partial(send_waiting, workspace, notify=self._on_event),
            ),
            wake=self._wake,
        )

    def _on_event(self, event: Event) -> None:
        if isinstance(event, CaseFinished):
            outcome = str(event.result.outcome)
            self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
            if self._leak_bytes:
                self._leaked.append(bytes(self._leak_bytes))
            seen = self._look()
            self.most = {name: max(most, getattr(seen, name)) for name, most in self.most.items()}

    def _look(self) -> Look:
        return look(self.num_cases(), config=self.workspace.config, started_s=self._started_s)


def slope_of(looks: Sequence[Look], name: str) -> dict[str, float]:
    """Return the growth of quantity `name` per 1,000 cases, with its interval."""
    values = [float(getattr(item, name)) for item in looks]
    slope: dict[str, float] = {}
    if len(looks) > 1:
        trend = trend_of(np.array(values), at=np.array([item.num_cases for item in looks]))
        slope = {f"{key}_per_{PER}_cases": PER * value for key, value in asdict(trend).items()}
    return {"first": values[0], "last": values[-1], **slope}


def soak(
    folder: Path,
    *,
    num_cases: int,
    num_shapes: int,
    num_warm_up: int = 0,
    toolchains: str = "",
    leak_bytes: int = 0,
) -> Iterator[Soak]:
    """Measure at least `num_cases`, `num_shapes` in a run, and yield the process after each run.

    `toolchains` is that table of hud.toml, for another toolchain than this Python. Each case leaks
    `leak_bytes`, which tests the detection of a leak.
    """
    it = Soak(folder, num_shapes=num_shapes, toolchains=toolchains, leak_bytes=leak_bytes)
    for number in range(-(-num_cases // num_shapes)):
        it.run(number)
        if it.num_cases() >= num_warm_up:
            it.hold_history()
        yield it


def simulated(folder: Path) -> str:
    """Return the table of a toolchain, made in `folder`, that is no torch and ends at once."""
    python = folder / "python"
    variables = f'PYTHONPATH="{ROOT}:{ROOT}/src" {FOLDER_VARIABLE}="{folder}"'
    python.write_text(
        f'#!/bin/sh\n{variables} exec "{sys.executable}" -m benchmarks.nights.worker\n',
        encoding="utf-8",
    )
    python.chmod(0o755)
    return f'[toolchains]\ncurrent = "{python}"\n'


def fill_caches() -> None:
    """Fill the caches of freed blocks and tuples of numpy and CPython, some 9 MB with an upper
    limit.
    """
    blocks = [
        np.empty(size, np.uint8)
        for size in range(1, NUMPY_CACHE_BYTES)
        for _ in range(NUMPY_CACHE_BLOCKS)
    ]
    tuples = [
        tuple([None] * length)
        for length in range(1, TUPLE_CACHE_LENGTH)
        for _ in range(TUPLE_CACHE_COUNT)
    ]
    del blocks, tuples


def judge_before(folder: Path, *, num_nights: int, num_shapes: int) -> Soak:
    """Judge simulated nights one by one, in a store of their own, and return the process."""
    folder.mkdir()
    it = Soak(folder, num_shapes=num_shapes, toolchains=simulated(folder))
    for number in range(num_nights):
        it.run(number)
    return it


@click.command()
@click.option("--cases", "num_cases", default=2000, show_default=True, help="After the warm-up.")
@click.option("--warm-up", "num_warm_up", default=1000, show_default=True, help="Cases before.")
@click.option("--shapes", "num_shapes", default=50, show_default=True, help="Cases of a run.")
@click.option("--leak", "leak_bytes", default=0, help="Bytes that each case leaks on purpose.")
@click.option("--simulated", "is_simulated", is_flag=True, help="By workers without torch.")
@click.option("--output", type=click.Path(path_type=Path), default=RESULTS / "soak.json")
def main(
    *,
    num_cases: int,
    num_warm_up: int,
    num_shapes: int,
    leak_bytes: int,
    is_simulated: bool,
    output: Path,
) -> None:
    """Measure tiny cases in a row, and write the growth meanwhile, again after each run."""
    num_cases += num_warm_up
    num_nights = math.ceil(LENGTH_BEFORE * num_cases / num_shapes)
    fill_caches()
    with tempfile.TemporaryDirectory() as folder:
        before = judge_before(
            Path(folder, "before"), num_nights=num_nights, num_shapes=num_shapes
        ).summary(num_warm_up=num_warm_up)
        facts = {
            "num_nights_before": num_nights,
            "slopes_before": before["slopes"],
            "leak_bytes": leak_bytes,
            "machine": describe_machine(),
        }
        del before
        for it in soak(
            Path(folder),
            num_cases=num_cases,
            num_shapes=num_shapes,
            num_warm_up=num_warm_up,
            toolchains=simulated(Path(folder)) if is_simulated else "",
            leak_bytes=leak_bytes,
        ):
            _write(it.summary(num_warm_up=num_warm_up), output=output, facts=facts)
        summary = it.summary(num_warm_up=num_warm_up)
    for name, slope in summary["slopes"].items():
        click.echo(f"{name}: {slope}")
    sys.exit(int(summary["outcomes"] != {str(Outcome.OK): summary["num_cases"]}))


# A function of its own, so that no reference survives into the next run.
def _write(summary: dict[str, Any], *, output: Path, facts: dict[str, Any]) -> None:
    output.write_text(json.dumps({**summary, **facts}, indent=1) + "\n", encoding="ascii")
    click.echo(f"{summary['num_cases']} cases, {summary['wall_s']:.0f} s", err=True)
