"""Free memory between allocated blocks returns to the system after each job."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from compile_hud.runner.scheduling import job_worker
from compile_hud.runner.system import allocator
from compile_hud.runner.system.allocator import give_back_memory, use_one_heap
from tests.support.runs.job_queue import REQUEST, JobSandbox
from tests.support.runs.run_process import ROOT

# Prints which share is given back of the free memory between what is in use. A process of its own:
# in one that has run for long, malloc finds room wherever there is some.
FREED_PAGES = """
import ctypes, os
from benchmarks.soak import resident_bytes
from compile_hud.runner.system.allocator import give_back_memory

# Below what malloc maps by itself.
SIZE, NUM = 60_000, 600
library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
library.free.argtypes = [ctypes.c_void_p]
chunks = [library.malloc(SIZE) for _ in range(NUM)]
for chunk in chunks:
    ctypes.memset(chunk, 1, SIZE)
# Each tenth is still used, the last one among them.
for number, chunk in enumerate(reversed(chunks)):
    if number % 10:
        library.free(chunk)
before = resident_bytes(os.getpid(), is_anonymous=True)
give_back_memory()
print((before - resident_bytes(os.getpid(), is_anonymous=True)) / (SIZE * NUM))
"""


@pytest.mark.nightly
def test_free_pages_between_used_ones_go_back_to_the_system() -> None:
    output = subprocess.run(
        [sys.executable, "-c", FREED_PAGES], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert float(output) > 0.7


# Prints how many heaps malloc has after eight threads have allocated at a time.
HEAPS = """
import ctypes, sys, threading
from compile_hud.runner.system.allocator import use_one_heap
if sys.argv[1] == "one":
    use_one_heap()
library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
together = threading.Barrier(8)
def work():
    together.wait()
    library.malloc(1000)
    together.wait()
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
library.malloc_info(0, ctypes.c_void_p.in_dll(library, "stdout"))
library.fflush(None)
"""


@pytest.mark.parametrize(("heaps", "is_one"), [("one", True), ("many", False)])
def test_all_threads_of_the_command_line_share_a_heap(heaps: str, is_one: bool) -> None:
    output = subprocess.run(
        [sys.executable, "-c", HEAPS, heaps], capture_output=True, text=True, check=True
    ).stdout
    assert (output.count("<heap nr=") == 1) is is_one


def test_other_c_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[None] = []
    monkeypatch.setattr(ctypes, "CDLL", opened.append)
    allocator._malloc_trim.cache_clear()
    give_back_memory()
    use_one_heap()
    allocator._malloc_trim.cache_clear()
    assert opened == [None, None]


def test_the_loop_gives_memory_back_after_each_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = JobSandbox(tmp_path)
    calls: list[str] = []
    monkeypatch.setattr(
        job_worker, "give_back_memory", lambda: calls.append(sandbox.loop.current_job())
    )
    sandbox.requests.write(REQUEST)
    sandbox.loop.run_queued()
    assert calls == [""]
