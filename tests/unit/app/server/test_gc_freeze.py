"""Frozen objects are excluded from garbage collection, and garbage is still freed."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Iterator

import pytest

from compile_hud.app.server import gc_freeze


class _Knot:
    """An object that only a search for garbage can free."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_what_came_to_stay_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc_freeze, "MAX_LOOSE", 1000)
    knots = [_Knot() for _ in range(2000)]
    assert gc_freeze.settle()
    assert len(gc.get_objects()) < 1000
    assert gc.get_freeze_count() > len(knots)
    assert not gc_freeze.settle()


@pytest.mark.nightly
def test_garbage_that_was_frozen_is_freed_when_the_heap_settles_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gc_freeze, "MAX_LOOSE", -1)
    knot = _Knot()
    is_there = weakref.ref(knot)
    gc_freeze.settle()
    del knot
    gc.collect()
    assert is_there() is not None
    gc_freeze.settle()
    assert is_there() is None


def test_the_heap_settles_while_the_server_runs_and_not_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_steady = threading.Event()
    monkeypatch.setattr(gc_freeze, "_CHECK_S", 0.001)
    monkeypatch.setattr(gc_freeze, "settle", is_steady.set)

    async def serve() -> list[threading.Thread]:
        async with gc_freeze.settling(None):
            assert is_steady.wait(20)
            return [item for item in threading.enumerate() if item.name == "settling"]

    for thread in asyncio.run(serve()):
        thread.join(20)
        assert not thread.is_alive()
