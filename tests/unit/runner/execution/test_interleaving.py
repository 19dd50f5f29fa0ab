"""In which order the launches of several toolchains happen."""

from __future__ import annotations

import pytest

from compile_hud.runner.errors import ExecutorError
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.execution.paired_launches import PairSide, launch_interleaved
from compile_hud.runner.protocol.messages import LaunchReport, MeasureSettings, Workload
from tests.support.builders import make_case
from tests.support.fakes import FakeExecutor, FakeSession


class LoggingSession(FakeSession):
    """A session that writes its launches and its end to the log of its executor."""

    def __init__(self, order: CaseOrder, *, executor: LoggingExecutor) -> None:
        super().__init__(order, executor=executor)
        self.log, self.name = executor.log, executor.name

    def launch(self) -> LaunchReport:
        """Log it."""
        self.log.append(f"{self.name}{self.num_launches + 1}")
        return super().launch()

    def close(self) -> None:
        """Log it."""
        self.log.append(f"{self.name} closed")


class LoggingExecutor(FakeExecutor):
    """An executor whose sessions write to a log that several share."""

    def __init__(self, name: str, log: list[str]) -> None:
        super().__init__()
        self.name, self.log = name, log

    def begin(self, order: CaseOrder) -> FakeSession:
        """Return a session, except for an executor that is called dead."""
        if self.name == "dead":
            raise ExecutorError("no host")
        return LoggingSession(order, executor=self)


def side(name: str, log: list[str], *, num_launches: int) -> PairSide:
    workload = Workload(
        build="compile_hud.models_zoo.encoders.bert", config={}, num_samples=1, num_tokens=None
    )
    order = CaseOrder(
        run_id=f"run {name}",
        case=make_case(),
        workload=workload,
        settings=MeasureSettings(num_launches=num_launches),
    )
    return PairSide(executor=LoggingExecutor(name, log), order=order)


def launches(*counts: int) -> str:
    log: list[str] = []
    launch_interleaved(
        [side(name, log, num_launches=num) for name, num in zip("abc", counts, strict=False)]
    )
    return " ".join(entry for entry in log if "closed" not in entry)


def test_one_toolchain_has_its_launches_in_a_row() -> None:
    assert launches(3) == "a1 a2 a3"


def test_launches_of_two_toolchains_alternate_in_turning_order() -> None:
    assert launches(4, 4) == "a1 b1 b2 a2 a3 b3 b4 a4"


def test_three_toolchains_take_turns_as_well() -> None:
    assert launches(2, 2, 2) == "a1 b1 c1 c2 b2 a2"


def test_who_needs_more_launches_goes_on_alone() -> None:
    assert launches(1, 3) == "a1 b1 b2 b3"


def test_results_are_in_the_order_of_the_sides_and_every_session_is_closed() -> None:
    log: list[str] = []
    results = launch_interleaved([side(name, log, num_launches=2) for name in "ab"])
    assert [result.run_id for result in results] == ["run a", "run b"]
    assert {"a closed", "b closed"} < set(log)


def test_a_session_is_closed_when_the_next_one_cannot_begin() -> None:
    log: list[str] = []
    with pytest.raises(ExecutorError):
        launch_interleaved([side(name, log, num_launches=2) for name in ("a", "dead")])
    assert log == ["a closed"]
