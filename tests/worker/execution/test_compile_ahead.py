"""Real launches that compile at the same time, and sample one after the other."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from compile_hud.db.records.results import (
    ALONE_S,
    SAME_CODE_AS,
    TURNS,
    WAITED_S,
    CaseResult,
    Outcome,
)
from compile_hud.runner.execution.ahead.cases import CompileAhead
from compile_hud.runner.execution.ahead.phases import Phases
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.execution.local_executor import LocalExecutor
from tests.support.runs.launches import is_alive, order, step_names

# The steps of a launch that need the device alone.
ALONE = (
    *("warm up", "sample", "memory", "allocations", "energy", "counters", "work", "kernels"),
    "shapes",
)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[LocalExecutor]:
    """Return an executor of one test: its lanes are its own, and it may be cancelled."""
    executor = LocalExecutor(python=Path(sys.executable), state_dir=tmp_path / "state")
    yield executor
    executor.close()


@pytest.fixture
def ahead(own: LocalExecutor) -> CompileAhead:
    """Return phases of two processes on all cores of this machine."""
    own.open()
    lanes = own.open_lanes(3, cores_each=1)
    cores = sorted(os.sched_getaffinity(0))
    groups = (frozenset(cores[:1]), frozenset(cores[-1:]))
    phases = Phases(lanes, core_groups=groups, pause=lambda: time.sleep(0.01))
    return CompileAhead(executor=own, phases=phases, num_processes=2, cores_each=1)


def measure(ahead: CompileAhead, *orders: CaseOrder) -> dict[str, CaseResult]:
    results = ahead.measure(orders, is_stopped=lambda: False)
    return {f"{result.case.model} {result.case.variant}": result for result in results}


@pytest.mark.nightly
def test_launches_that_compile_together_sample_alone_and_equal_code_once(
    ahead: CompileAhead,
) -> None:
    orders = [
        replace(order("plain", variant=variant), skips_same_code=True)
        for variant in ("default", "max-autotune-no-cudagraphs")
    ]
    compiled, same = measure(ahead, *orders).values()
    assert compiled.outcome is Outcome.OK, (compiled.reason, compiled.log_tail)
    (steps,) = step_names(compiled)
    turn = steps.index("turn")
    assert not set(steps[:turn]) & set(ALONE)
    assert "compile" in steps[:turn]
    assert "sample" in steps[turn:]
    # Whether the code is known shows only when both have compiled.
    assert (same.outcome, same.reason) == (Outcome.SAME_CODE, f"{SAME_CODE_AS}default")
    assert step_names(same)[0][-1] == "turn"


@pytest.mark.nightly
def test_results_are_those_of_cases_that_compile_alone(
    ahead: CompileAhead, own: LocalExecutor
) -> None:
    orders = [
        order("plain", variant="default", num_launches=2),
        order("raising", variant="default"),
        order("plain", num_launches=2),
    ]
    results = measure(ahead, *orders)
    alone = own.execute(orders[0])
    compiled = results["plain default"]
    assert compiled.outcome is Outcome.OK, (compiled.reason, compiled.log_tail)
    # A compiler that runs for less than an interval has no peak.
    by_chance = {"compile_peak_compilers_bytes"}
    assert {item.metric for item in compiled.measurements} - by_chance == {
        item.metric for item in alone.measurements
    } - by_chance
    assert compiled.details["generated_code_sha256"] == alone.details["generated_code_sha256"]
    # Kernels are in the order of their time.
    names = sorted(kernel.name for kernel in compiled.kernels)
    assert names == sorted(kernel.name for kernel in alone.kernels)
    assert compiled.kernels
    assert results["plain eager"].outcome is Outcome.OK
    assert results["raising default"].outcome is Outcome.FAILED


@pytest.mark.nightly
def test_waiting_for_a_turn_does_not_count_for_the_time_limit(ahead: CompileAhead) -> None:
    quick, slow = order("plain"), order("plain", variant="default")
    results = measure(ahead, quick, slow)
    (steps,) = results["plain eager"].details["steps"]
    (wall_s,) = results["plain eager"].details["launch_wall_s"]
    waited_s = next(step["end_s"] - step["start_s"] for step in steps if step["name"] == "turn")
    # The eager case is ready seconds before the compiled one.
    assert waited_s > 0.2
    assert wall_s < steps[-1]["end_s"]
    # Nor for the duration of the case.
    quick_result = results["plain eager"]
    turns = quick_result.details[TURNS]
    assert turns[WAITED_S] > 0.2
    assert quick_result.took_s == pytest.approx(wall_s, abs=0.1)
    assert 0 < turns[ALONE_S] < wall_s


@pytest.mark.nightly
def test_a_hanging_launch_is_ended_and_the_others_have_their_results(
    ahead: CompileAhead, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    hanging = order("hanging", config={"pid_path": str(pids)}, timeout_s=20.0)
    results = measure(ahead, hanging, order("plain"))
    assert results["plain eager"].outcome is Outcome.OK
    assert results["hanging eager"].outcome is Outcome.TIMEOUT
    assert results["hanging eager"].details["ended_in"] == "eager oracle"
    worker, stray = map(int, pids.read_text(encoding="ascii").split())
    assert not is_alive(worker)
    assert not is_alive(stray)


@pytest.mark.nightly
def test_a_stop_ends_all_launches(ahead: CompileAhead, own: LocalExecutor) -> None:
    stopped: list[bool] = []

    def orders() -> Iterator[CaseOrder]:
        yield order("plain", variant="default")
        yield order("stack", variant="default")
        own.cancel()
        stopped.append(True)

    assert list(ahead.measure(orders(), is_stopped=lambda: bool(stopped))) == []
