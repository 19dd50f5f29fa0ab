"""Free memory between what is in use goes back to the system after each job."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest

from benchmarks.soak import resident_bytes
from runner import jobloop, memory
from runner.memory import give_back_memory
from tests.integration.queueing import REQUEST, Place

# Below what malloc maps by itself.
CHUNK_BYTES = 60_000
NUM_CHUNKS = 600


def test_free_pages_between_used_ones_go_back_to_the_system() -> None:
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    library.free.argtypes = [ctypes.c_void_p]
    chunks = [library.malloc(CHUNK_BYTES) for _ in range(NUM_CHUNKS)]
    for chunk in chunks:
        ctypes.memset(chunk, 1, CHUNK_BYTES)
    # Each tenth is still used, the last one among them.
    for number, chunk in enumerate(reversed(chunks)):
        if number % 10:
            library.free(chunk)
    before = resident_bytes(os.getpid(), is_anonymous=True)
    give_back_memory()
    freed = before - resident_bytes(os.getpid(), is_anonymous=True)
    for chunk in chunks[::-1][::10]:
        library.free(chunk)
    assert freed > 0.7 * NUM_CHUNKS * CHUNK_BYTES


def test_other_c_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[None] = []
    monkeypatch.setattr(ctypes, "CDLL", opened.append)
    memory._malloc_trim.cache_clear()
    give_back_memory()
    memory._malloc_trim.cache_clear()
    assert opened == [None]


def test_the_loop_gives_memory_back_after_each_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path)
    given: list[str] = []
    monkeypatch.setattr(jobloop, "give_back_memory", lambda: given.append(place.loop.is_doing()))
    place.requests.write(REQUEST)
    place.loop.run_queued()
    assert given == [""]
