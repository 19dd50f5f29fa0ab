"""The time of a step in a search: launches count, and the wait for the device does not."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from compile_hud.runner.bisect.paired_steps import PairedSteps, search_limits
from compile_hud.runner.events import LogMessage
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.execution.paired_launches import PairSide
from compile_hud.runner.protocol.messages import LaunchReport, MeasureSettings, Workload
from compile_hud.runner.system.interrupts import Interrupts
from compile_hud.runner.system.locks import device_lock
from tests.support.builders import make_case
from tests.support.fakes import FakeClock, FakeExecutor, draw_latencies

MAX_LAUNCHES = 12


def test_the_wait_for_the_device_is_no_time_of_a_step(tmp_path: Path) -> None:
    clock, other_run = FakeClock(), ExitStack()
    draw = draw_latencies(0.01, launch_sd=0.01, seed=1)

    def launch(order: CaseOrder, number: int) -> LaunchReport:
        clock.advance(1.0)
        return draw(order, number)

    def notify(event: object) -> None:
        if isinstance(event, LogMessage):
            clock.advance(600.0)
            other_run.close()

    order = CaseOrder(
        run_id="run-1",
        case=make_case("net", mode="default", device="cpu"),
        workload=Workload(build="fake", config={}, num_samples=1, num_tokens=None),
        settings=MeasureSettings(),
    )
    baseline, candidate = (
        PairSide(executor=FakeExecutor(draw=launch), order=order) for _ in range(2)
    )
    other_run.enter_context(device_lock("cpu", lock_dir=tmp_path, notify=lambda _event: None))
    with other_run, Interrupts() as interrupts:
        timed = PairedSteps(
            limits=search_limits(floor=0.05, max_launches=MAX_LAUNCHES),
            step_s=60.0,
            lock_dir=tmp_path,
            now=clock,
            notify=notify,
            interrupts=interrupts,
            cancel=lambda: None,
        ).measure(baseline, candidate, is_clear=lambda _pair: False)
    assert (timed.num_pairs, timed.took_s) == (MAX_LAUNCHES, 2.0 * MAX_LAUNCHES)
