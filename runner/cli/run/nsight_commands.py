"""The commands that profile one launch of one case with NVIDIA's tools.

Options are those of NVIDIA's documentation (runner/interop/importers/nsight.py names the pages).
PyTorch's ranges are no registered strings, which Nsight Systems requires an option for. A slash in
the name of a range is escaped for Nsight Compute, which would interpret it.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from compile_hud.runner.errors import ProfilerFailed

# The metrics of `hud kernels`: throughput of compute and memory, and the time of a call.
METRICS = (
    "gpu__time_duration.sum",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "lts__t_sector_hit_rate.pct",
    "launch__registers_per_thread",
)


class Tool(StrEnum):
    """A profiler of NVIDIA, by the name of its program."""

    NSYS = "nsys"
    NCU = "ncu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program with its arguments, its environment variables, and its output file."""

    words: Sequence[str]
    variables: Mapping[str, str] = field(default_factory=dict)
    output: Path | None = None

    @property
    def text(self) -> str:
        """Return the command as one types it in a POSIX shell."""
        variables = [f"{name}={shlex.quote(value)}" for name, value in self.variables.items()]
        output = [] if self.output is None else [">", shlex.quote(str(self.output))]
        return " ".join([*variables, shlex.join(self.words), *output])


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedLaunch:
    """A launch to watch: its request, the interpreter for it, and its PYTHONPATH."""

    request: Path
    python: Path
    python_path: str


def commands_of(tool: Tool, launch: WatchedLaunch) -> tuple[Command, ...]:
    """Return the commands that leave `csv_of(tool, launch)`, in their order."""
    make = _nsys if tool is Tool.NSYS else _ncu
    return make(launch)


def csv_of(tool: Tool, launch: WatchedLaunch) -> Path:
    """Return the CSV file that the commands of `tool` leave."""
    return launch.request.with_name(f"{tool}.csv")


def _program(launch: WatchedLaunch) -> list[str]:
    return [
        str(launch.python),
        "-m",
        "compile_hud.runner.measure.single_launch",
        str(launch.request),
    ]


def _nsys(launch: WatchedLaunch) -> tuple[Command, ...]:
    report = launch.request.with_name("nsys")
    profile = [
        *("nsys", "profile", "--trace=cuda,nvtx,cublas,cudnn", "--sample=none", "--cpuctxsw=none"),
        "--cuda-graph-trace=node",
        # In this launch the step consists of iterations only.
        *("--capture-range=nvtx", "--nvtx-capture=hud/kernels", "--capture-range-end=stop"),
        *("--force-overwrite=true", f"--output={report}"),
        *_program(launch),
    ]
    stats = [
        *("nsys", "stats", "--report=cuda_gpu_kern_sum", "--format=csv", "--force-export=true"),
        f"{report}.nsys-rep",
    ]
    variables = {
        "PYTHONPATH": launch.python_path,
        "PYTHONSAFEPATH": "1",
        "NSYS_NVTX_PROFILER_REGISTER_ONLY": "0",
    }
    return (
        Command(words=profile, variables=variables),
        Command(words=stats, output=csv_of(Tool.NSYS, launch)),
    )


def _ncu(launch: WatchedLaunch) -> tuple[Command, ...]:
    words = [
        *("ncu", "--target-processes", "all", "--nvtx", "--nvtx-include", r"hud\/iteration/"),
        *("--metrics", ",".join(METRICS), "--csv", "--page", "raw", "--print-units", "base"),
        *("--print-kernel-base", "demangled", "--rename-kernels", "off"),
        *("--log-file", str(csv_of(Tool.NCU, launch))),
        *_program(launch),
    ]
    return (
        Command(
            words=words,
            variables={"PYTHONPATH": launch.python_path, "PYTHONSAFEPATH": "1", "LC_ALL": "C"},
        ),
    )


def run_commands(commands: Sequence[Command]) -> None:
    """Run the commands one after the other; raise ProfilerFailed for the first that fails."""
    for command in commands:
        output = nullcontext() if command.output is None else command.output.open("wb")
        with output as stream:
            ended = subprocess.run(
                command.words,
                env={**os.environ, **command.variables},
                # Without an output file, the profiler's text goes to standard error for the user.
                stdout=2 if stream is None else stream,
                check=False,
            )
        if ended.returncode:
            raise ProfilerFailed(
                f"`{' '.join(command.words[:2])}` ended with {ended.returncode}; what it said"
                f" stands above. The whole command is `{command.text}`",
                returncode=ended.returncode,
                command=command.text,
            )
