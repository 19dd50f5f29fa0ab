"""Sessions that begin anew with each launch."""

from __future__ import annotations

from compile_hud.db.records.results import Outcome
from compile_hud.runner.execution.cold_cache_sessions import ColdCacheSessions
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.protocol.messages import LaunchReport, MeasureSettings, RawMetric, Workload
from tests.support.builders import make_case
from tests.support.fakes import FakeExecutor

ORDER = CaseOrder(
    run_id="run-1",
    case=make_case(),
    workload=Workload(build="fake", config={}, num_samples=1, num_tokens=None),
    settings=MeasureSettings(num_launches=2),
)


def draw(_order: CaseOrder, number: int) -> LaunchReport:
    """Return a cold compile of 3 s, then a warm one of 1 s."""
    metric, seconds = ("compile_cold_s", 3.0) if number == 0 else ("compile_warm_s", 1.0)
    return LaunchReport(
        outcome=Outcome.OK, metrics={metric: RawMetric(samples=(seconds,), method="wall")}
    )


def test_every_launch_is_the_first_of_a_session() -> None:
    executor = FakeExecutor(draw=draw)
    session = ColdCacheSessions(executor, num_launches=1).begin(ORDER)
    assert session.needs_launch
    for _ in range(3):
        session.launch()
    assert not session.needs_launch
    measured = session.finish().measurement("compile_cold_s")
    assert measured is not None
    assert (measured.samples, measured.launches) == ((3.0, 3.0, 3.0), (1, 1, 1))
    session.close()
    assert [inner.is_closed for inner in executor.sessions] == [True, True, True]


def test_what_comes_second_is_measured_second_each_time() -> None:
    session = ColdCacheSessions(FakeExecutor(draw=draw), num_launches=2).begin(ORDER)
    for _ in range(2):
        session.launch()
    measured = session.finish().measurement("compile_warm_s")
    assert measured is not None
    assert measured.samples == (1.0, 1.0)


def test_a_launch_that_fails_is_the_last_of_its_session() -> None:
    def fail(_order: CaseOrder, _number: int) -> LaunchReport:
        return LaunchReport(outcome=Outcome.FAILED, reason="it broke")

    executor = FakeExecutor(draw=fail)
    session = ColdCacheSessions(executor, num_launches=2).begin(ORDER)
    assert session.launch().outcome is Outcome.FAILED
    assert session.finish().outcome is Outcome.FAILED
    assert [inner.num_launches for inner in executor.sessions] == [1]
