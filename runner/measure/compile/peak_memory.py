"""Peak memory of the first calls, which compile, on the host and on the device.

The kernel's high-water mark of this process is exact and costs two accesses to /proc. The compilers
are other processes, and their marks are gone when they end. A thread therefore samples their marks.
It sleeps for most of the time.

Both are memory beyond the level before the first call: the model and the imports are there anyway.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from compile_hud.runner.measure.device import Device

PROC = Path("/proc")
# A C++ compiler takes seconds for a file, and its memory grows until it ends.
MIN_INTERVAL_S = 0.1
# The sampler may take this share of a core: compile times are measured at the same time. On a busy
# machine a compilation gets a fifth of a core, and its sampler then is 1 % of its CPU time.
MAX_SHARE = 0.002
# The value that resets the high-water mark, as in `man 5 proc_pid_clear_refs`.
_RESET_MARK = "5"
_MAX_FILE_BYTES = 1 << 16
NO_MARK = (
    "this system does not let a process reset its high-water mark (/proc/self/clear_refs);"
    " a Linux kernel does, some sandboxes such as gVisor do not"
)
NO_CHILDREN = (
    "this system does not list the children of a process (/proc/self/task/*/children, a setting of"
    " the kernel)"
)
NO_COMPILER = (
    "no compiler was running at any sample: the cache had its code, or it ran for less than an"
    f" interval of {MIN_INTERVAL_S} s"
)
METHOD_HOST = (
    "VmHWM of this process over the first calls, reset before them, less its VmRSS before;"
    " cache empty"
)
METHOD_COMPILERS = (
    "highest sum of the high-water marks (VmHWM) of the running processes that this one started,"
    " of forked workers of their Pss; sampled at least every {interval_s:.2f} s; cache empty"
)
METHOD_DEVICE = (
    "torch.cuda.max_memory_allocated over the first calls after reset_peak_memory_stats,"
    " less memory_allocated before; cache empty"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPeak:
    """Bytes before the first call, and the highest number of bytes until the last one."""

    before: int
    peak: int

    @property
    def growth(self) -> int:
        """Return the bytes beyond the level before, at least 0."""
        return max(0, self.peak - self.before)


@dataclass(slots=True)
class CompilePeaks:
    """The peaks of a compilation; None where the system or the device has no such number.

    `compilers_missing` is the reason for no peak of the compilers, "" with one.
    """

    host: MemoryPeak | None = None
    device: MemoryPeak | None = None
    compilers_bytes: int | None = None
    compilers_missing: str = NO_CHILDREN
    interval_s: float = 0.0


@contextmanager
def recorded_peaks(device: Device, *, proc: Path = PROC) -> Iterator[CompilePeaks]:
    """Record the peaks of the block; they are complete after it."""
    peaks = CompilePeaks()
    sampler = CompilerSampler(proc)
    before = _device_bytes(device)
    resident = _reset_mark(proc)
    sampler.start()
    try:
        yield peaks
    finally:
        sampler.stop()
        peaks.compilers_bytes, peaks.compilers_missing = sampler.peak_bytes, sampler.missing
        peaks.interval_s = sampler.longest_interval_s
        mark = _own_bytes(proc, "VmHWM")
        if resident is not None and mark is not None:
            peaks.host = MemoryPeak(before=resident, peak=mark)
        if before is not None:
            peak = torch.cuda.max_memory_allocated()
            peaks.device = MemoryPeak(before=before, peak=peak)


class CompilerSampler:
    """Samples the memory of all descendants of this process in a thread of its own."""

    def __init__(self, proc: Path = PROC) -> None:
        self._proc = proc
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hud-compilers", daemon=True)
        # None until a sample has seen a compiler; `missing` is the reason.
        self.peak_bytes: int | None = None
        self.missing = NO_CHILDREN
        self._bytes_before = 0
        self.longest_interval_s = 0.0

    def start(self) -> None:
        """Start sampling if this system lists the children of a process."""
        if (self._proc / "thread-self" / "children").exists():
            self._bytes_before = _compilers_bytes(self._proc)
            self.missing = NO_COMPILER
            self._thread.start()

    def stop(self) -> None:
        """Stop sampling and wait for the end of the thread."""
        self._is_done.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        wait_s = 0.0
        last_s = time.perf_counter()
        while not self._is_done.wait(wait_s):
            start_cpu_s = time.thread_time()
            self.sample()
            wait_s = max(MIN_INTERVAL_S, (time.thread_time() - start_cpu_s) / MAX_SHARE)
            now_s = time.perf_counter()
            self.longest_interval_s = max(self.longest_interval_s, now_s - last_s)
            last_s = now_s
        # The compilers have ended by now: the time since the last sample was not seen.
        self.longest_interval_s = max(self.longest_interval_s, time.perf_counter() - last_s)

    def sample(self) -> None:
        """Take one sample."""
        growth = _compilers_bytes(self._proc) - self._bytes_before
        # Processes from before that did not grow compiled nothing.
        if growth > 0:
            self.peak_bytes = max(self.peak_bytes or 0, growth)
            self.missing = ""


def _compilers_bytes(proc: Path) -> int:
    """Return the memory of all running descendants of this process."""
    total = 0
    own = _text(f"{proc}/self/cmdline")
    waiting = [(f"{proc}/self", own)]
    while waiting:
        parent, parents_command = waiting.pop()
        for child in _children(parent):
            process = f"{proc}/{child}"
            command = _text(f"{process}/cmdline")
            waiting.append((process, command))
            # A child that has not started its program yet still has the memory of this process.
            if command and command != own:
                total += _process_bytes(process, is_fork=command == parents_command)
    return total


def _children(process: str) -> list[str]:
    try:
        threads = os.listdir(f"{process}/task")
    except OSError:
        # The process has ended.
        return []
    return [
        child for thread in threads for child in _text(f"{process}/task/{thread}/children").split()
    ]


def _process_bytes(process: str, *, is_fork: bool) -> int:
    # A fork shares pages with its parent; each of them counts in its share alone. This costs more.
    if is_fork:
        return _field_bytes(_text(f"{process}/smaps_rollup"), "Pss") or 0
    return _field_bytes(_text(f"{process}/status"), "VmHWM") or 0


def _reset_mark(proc: Path) -> int | None:
    """Reset the high-water mark of this process; return its resident bytes, None if refused."""
    try:
        (proc / "self" / "clear_refs").write_text(_RESET_MARK, encoding="ascii")
    except OSError:
        return None
    return _own_bytes(proc, "VmRSS")


def _device_bytes(device: Device) -> int | None:
    if not device.is_cuda:
        return None
    device.synchronize()
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated()


def _own_bytes(proc: Path, name: str) -> int | None:
    return _field_bytes(_text(f"{proc}/self/status"), name)


def _field_bytes(text: str, name: str) -> int | None:
    """Return the value of the line `name: 12 kB` in bytes, None without such a line."""
    _, mark, rest = f"\n{text}".partition(f"\n{name}:")
    return int(rest.split(maxsplit=1)[0]) * 1024 if mark else None


def _text(path: str) -> str:
    """Return the text of a file below /proc, empty once its process has ended."""
    try:
        # The thread competes with the compilation, so it reads without buffers and decoders.
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(file, _MAX_FILE_BYTES).decode("ascii", errors="replace")
    except OSError:
        return ""
    finally:
        os.close(file)
