"""Peak memory of a compilation: of this process, of the compilers it starts and of the device."""

from __future__ import annotations

import mmap
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from compile_hud.runner.measure.compile import peak_memory
from compile_hud.runner.measure.compile.peak_memory import (
    NO_CHILDREN,
    NO_COMPILER,
    CompilePeaks,
    CompilerSampler,
    MemoryPeak,
    recorded_peaks,
)
from compile_hud.runner.measure.device import Device
from tests.support.runs.launches import MEGABYTE

CPU = Device(kind="cpu", num_threads=1)
CUDA = Device(kind="cuda", num_threads=1)


def test_the_peak_of_the_process_is_what_the_block_took_and_freed() -> None:
    with recorded_peaks(CPU) as peaks:
        with mmap.mmap(-1, 96 * MEGABYTE) as memory:
            memory.write(b"1" * len(memory))
        with mmap.mmap(-1, 8 * MEGABYTE) as memory:
            memory.write(b"1" * len(memory))
    assert peaks.host is not None
    # The written bytes are a copy, so the block takes them twice.
    assert peaks.host.growth == pytest.approx(2 * 96 * MEGABYTE, rel=0.05)


def test_the_peak_of_an_idle_block_is_that_of_this_block_alone() -> None:
    with recorded_peaks(CPU), mmap.mmap(-1, 64 * MEGABYTE) as memory:
        memory.write(b"1" * len(memory))
    with recorded_peaks(CPU) as peaks:
        pass
    assert peaks.host is not None
    assert peaks.host.growth < 4 * MEGABYTE
    assert (peaks.compilers_bytes, peaks.compilers_missing) == (None, NO_COMPILER)


# A program that takes 80 MB, and starts another one that takes 40 MB and waits for its input.
COMPILER = (
    "import subprocess, sys; memory = bytearray(80 << 20);"
    " subprocess.run([sys.executable, '-S', '-c',"
    " \"memory = bytearray(40 << 20); print('ready', flush=True); input()\"])"
)


def test_the_peak_of_a_compiler_is_what_it_took() -> None:
    sampler = CompilerSampler()
    sampler.start()
    sampler.stop()
    with subprocess.Popen(
        [sys.executable, "-S", "-c", COMPILER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as compiler:
        assert compiler.stdin is not None
        assert compiler.stdout is not None
        assert compiler.stdout.readline() == "ready\n"
        sampler.sample()
        compiler.stdin.write("\n")
    sampler.sample()
    assert sampler.peak_bytes is not None
    # Each interpreter takes some megabytes itself.
    assert 120 * MEGABYTE < sampler.peak_bytes < 150 * MEGABYTE


def test_a_block_that_starts_processes_has_their_peak() -> None:
    command = [sys.executable, "-S", "-c", "input()"]
    with recorded_peaks(CPU), subprocess.Popen(command, stdin=subprocess.PIPE):
        threads = [item for item in threading.enumerate() if item.name == "hud-compilers"]
        assert len(threads) == 1
    assert not threads[0].is_alive()


def process(proc: Path, name: str, *, command: str, children: str = "", **files: str) -> None:
    """Write the folder of a process as the kernel shows it."""
    thread = proc / name / "task" / name
    thread.mkdir(parents=True)
    (thread / "children").write_text(children)
    (proc / name / "cmdline").write_text(command)
    for file, text in files.items():
        (proc / name / file).write_text(text)


def test_a_fork_counts_in_its_share_and_a_program_with_its_own_mark(tmp_path: Path) -> None:
    process(tmp_path, "self", command="python", children="10 20 30 40")
    # This child has not started its program yet.
    process(tmp_path, "10", command="python", status="VmHWM: 9000 kB\n")
    process(tmp_path, "20", command="cc1plus", status="VmRSS: 2 kB\nVmHWM:   3 kB\n")
    process(tmp_path, "30", command="pool", children="31", status="VmHWM: 100 kB\n")
    process(tmp_path, "31", command="pool", smaps_rollup="Rss: 80 kB\nPss: 20 kB\n")
    # This one ended between the two readings.
    process(tmp_path, "40", command="")
    sampler = CompilerSampler(tmp_path)
    assert (sampler.peak_bytes, sampler.missing) == (None, NO_CHILDREN)
    sampler.sample()
    assert sampler.missing == ""
    assert sampler.peak_bytes == (3 + 100 + 20) * 1024
    (tmp_path / "20" / "status").write_text("VmHWM: 1 kB\n")
    sampler.sample()
    assert sampler.peak_bytes == (3 + 100 + 20) * 1024


def test_the_time_after_the_last_sample_was_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peak_memory, "MIN_INTERVAL_S", 60.0)
    sampler = CompilerSampler()
    sampler.start()
    time.sleep(0.3)
    sampler.stop()
    assert sampler.longest_interval_s >= 0.25


def test_a_system_without_these_files_has_no_peaks(tmp_path: Path) -> None:
    with recorded_peaks(CPU, proc=tmp_path) as peaks:
        pass
    assert peaks == CompilePeaks()


def test_the_peak_of_the_device_is_beyond_the_level_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(Device, "synchronize", lambda _: calls.append("wait"))
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: calls.append("reset"))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 300)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 1000)
    with recorded_peaks(CUDA) as peaks:
        assert calls == ["wait", "reset"]
    assert peaks.device == MemoryPeak(before=300, peak=1000)
    assert peaks.device.growth == 700
    assert MemoryPeak(before=3, peak=2).growth == 0
