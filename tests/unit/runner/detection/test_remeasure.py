"""Measuring cases of a run again, with a fake executor."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.results import CaseResult, Outcome, Run
from compile_hud.runner.config.load import parse_config
from compile_hud.runner.detection.remeasure import Bench
from compile_hud.runner.errors import ExecutorError
from compile_hud.runner.execution.environment import fingerprint
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.execution.paired_launches import PairLimits, PairResult
from compile_hud.runner.protocol.messages import MeasureSettings
from compile_hud.runner.toolchains.registry import Probe
from compile_hud.runner.workspace import Dependencies, Workspace
from tests.support.builders import make_case, make_measurement, make_result, make_run
from tests.support.fakes import FACTS, FakeExecutor

OLD = {**FACTS, "torch_version": "2.12.0"}
CONFIG = """
[toolchains]
stable = "/opt/new/bin/python"
twin = "/opt/twin/bin/python"
broken = "/opt/broken/bin/python"
old = "/opt/old/bin/python"
"""


class ColdExecutor(FakeExecutor):
    """An executor whose cold compilations take `cold_s`, and that remembers how it was asked."""

    def __init__(self, cold_s: float, **values: Any) -> None:
        super().__init__(**values)
        self.cold_s = cold_s
        self.orders: list[CaseOrder] = []
        self.outcome = Outcome.OK

    def execute(self, order: CaseOrder) -> CaseResult:
        """Return a result with a cold compile time."""
        self.orders.append(order)
        wobble = 1 + 0.01 * (len(self.orders) % 3)
        return make_result(
            case=order.case,
            outcome=self.outcome,
            measurements=[make_measurement("compile_cold_s", samples=[self.cold_s * wobble])]
            if self.outcome is Outcome.OK
            else [],
        )


class FakeWorkspace:
    """A workspace whose executors are fakes, by the folder of their interpreter."""

    def __init__(self, facts: Mapping[str, Mapping[str, Any]]) -> None:
        self.facts = facts
        self.opened: dict[str, ColdExecutor] = {}

    def make_executor(self, *, python: Path, **_values: Any) -> ColdExecutor:
        name = python.parts[2]
        executor = ColdExecutor(10.0 if name == "old" else 13.0, facts=self.facts.get(name, FACTS))
        if name == "broken":
            executor.open = self.refuse  # type: ignore[method-assign]
        self.opened[name] = executor
        return executor

    def refuse(self) -> Mapping[str, Any]:
        raise ExecutorError("it does not start")

    def bench(self, run: Run) -> Bench:
        dependencies = Dependencies(make_executor=self.make_executor, env={}, probe=self.probe)
        return Bench(
            run,
            workspace=Workspace(
                config=parse_config(CONFIG, path=None, env={}), dependencies=dependencies
            ),
        )

    def probe(self, python: Path) -> Probe:
        is_old = python.parts[2] in ("old", "broken")
        return Probe(torch_version="2.12.0" if is_old else "2.13.0+cpu")


CASE = make_case("bert", shape="tiny")


def run_on(facts: Mapping[str, Any] = FACTS, **values: Any) -> Run:
    environment = {**facts, "num_threads": 1, **values}
    return make_run(
        plan=[CASE],
        toolchain="stable",
        revision="2.13.0+cpu@0123456789",
        environment=environment,
        fingerprint=fingerprint(environment),
    )


def test_the_baseline_is_the_toolchain_at_the_revision_whatever_its_name() -> None:
    workspace = FakeWorkspace({"old": OLD})
    bench = workspace.bench(run_on())
    baseline = bench.baseline("2.12.0@0123456789")
    assert baseline is not None
    assert (baseline.name, baseline.revision) == ("old", "2.12.0@0123456789")
    # One that does not start is passed over, and another torch is not even started.
    assert list(workspace.opened) == ["broken", "old"]
    assert bench.baseline("2.12.0@0123456789") is baseline
    assert len(workspace.opened) == 2
    bench.close()
    assert not workspace.opened["old"].is_open


@pytest.mark.parametrize(
    "facts",
    [{**OLD, "torch_git": "ffffffffffff"}, {**OLD, "cpu_model": "Another"}],
    ids=["commit", "environment"],
)
def test_another_commit_or_environment_is_no_baseline(facts: Mapping[str, Any]) -> None:
    assert FakeWorkspace({"old": facts}).bench(run_on()).baseline("2.12.0@0123456789") is None


def test_the_same_revision_needs_no_baseline() -> None:
    workspace = FakeWorkspace({})
    assert workspace.bench(run_on()).baseline("2.13.0+cpu@0123456789") is None
    assert workspace.opened == {}


def test_a_toolchain_that_changed_or_went_is_refused(words: SnapshotAssertion) -> None:
    with pytest.raises(ExecutorError) as caught:
        FakeWorkspace({"new": OLD}).bench(run_on()).candidate()
    assert caught.value.parameters["revision"] == "2.12.0@0123456789"
    assert str(caught.value) == words
    other = {**FACTS, "cpu_model": "Another"}
    with pytest.raises(ExecutorError) as caught:
        FakeWorkspace({"new": other}).bench(run_on()).candidate()
    assert caught.value.parameters["revision"] == caught.value.parameters["expected"]
    assert str(caught.value) == words
    run = make_run(plan=[CASE], toolchain="gone")
    with pytest.raises(ExecutorError) as caught:
        FakeWorkspace({}).bench(run).candidate()
    assert caught.value.parameters == {"toolchain": "gone", "problem": "missing"}
    assert str(caught.value) == words


def test_a_case_is_measured_as_in_its_run() -> None:
    workspace = FakeWorkspace({})
    bench = workspace.bench(run_on(measure_settings={"num_launches": 5, "memory_snapshot": True}))
    bench.measure(CASE)
    bench.measure(CASE, num_launches=1)
    first, second = workspace.opened["new"].orders
    assert first.settings == MeasureSettings(num_launches=5)
    assert (second.settings.num_launches, second.settings.max_launches) == (1, 1)


def test_cold_compiles_are_sessions_of_their_own_in_turn_until_it_is_enough() -> None:
    workspace = FakeWorkspace({"old": OLD})
    bench = workspace.bench(run_on())
    baseline = bench.baseline("2.12.0@0123456789")
    assert baseline is not None
    seen: list[int] = []

    def is_enough(_pair: PairResult, number: int) -> bool:
        seen.append(number)
        return number == 4

    limits = PairLimits(min_launches=3, max_launches=6)
    pair = bench.compile_in_turn(CASE, baseline=baseline, limits=limits, is_enough=is_enough)
    assert seen == [3, 4]
    sides = (workspace.opened["old"], workspace.opened["new"])
    assert [len(side.orders) for side in sides] == [4, 4]
    assert {order.settings.num_launches for order in sides[0].orders} == {1}
    cold = pair.baseline.measurement("compile_cold_s")
    assert cold is not None
    assert cold.launches == (1, 1, 1, 1)
    (row,) = [row for row in pair.rows if row.metric == "compile_cold_s"]
    assert row.comparison.ratio == pytest.approx(1.3, abs=0.02)


def test_a_cancelled_bench_opens_nothing_more() -> None:
    workspace = FakeWorkspace({"old": OLD})
    bench = workspace.bench(run_on())
    bench.candidate()
    bench.cancel()
    assert workspace.opened["new"].is_cancelled
    assert bench.baseline("2.12.0@0123456789") is None
    assert not workspace.opened["old"].is_started
