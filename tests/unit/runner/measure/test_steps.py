"""The log of the steps of a launch, and what profilers see of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.measure.steps import StepLog


def test_no_time_of_a_step_has_the_range_that_shows_it(words: SnapshotAssertion) -> None:
    seen: list[str] = []

    def now_s() -> float:
        seen.append("clock")
        return float(len(seen))

    @contextmanager
    def range_of(name: str) -> Iterator[None]:
        seen.append(f"open {name}")
        yield
        seen.append("close")

    log = StepLog(now_s=now_s)
    log.range_of = range_of
    with log.step("warm up"):
        seen.append("work")
    assert seen[1:] == words


def test_a_step_that_fails_closes_its_range_and_has_its_times() -> None:
    closed = []

    @contextmanager
    def range_of(name: str) -> Iterator[None]:
        try:
            yield
        finally:
            closed.append(name)

    log = StepLog()
    log.range_of = range_of
    with pytest.raises(RuntimeError, match="no such model"), log.step("build"):
        raise RuntimeError("no such model")
    assert closed == ["hud/build"]
    assert log.bounds_s("build") is not None
