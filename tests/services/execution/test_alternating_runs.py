"""The same cases under several toolchains: one run each, all or none of them interrupted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compile_hud.db.queries.runs import load_runs
from compile_hud.db.records.results import RunDocument, RunState
from compile_hud.runner.errors import ExecutorError, SpoolFull, ToolchainUnusable
from compile_hud.runner.events import CaseFinished, CaseStarted, RunEnded, RunStarted
from compile_hud.runner.execution.executor import CaseOrder
from tests.support.fakes import FACTS, FakeExecutor
from tests.support.runs.runs import REQUEST, RunSandbox, interrupt, on_case, wait_until

STABLE = replace(REQUEST, toolchain="stable")
NIGHTLY = replace(REQUEST, toolchain="nightly")
NEWER_FACTS = {**FACTS, "torch_version": "2.14.0", "python_minor": "3.13"}


@pytest.fixture
def sandbox(tmp_path: Path) -> RunSandbox:
    return RunSandbox(tmp_path)


def run_both(
    sandbox: RunSandbox, *, on_stable_case: Any = lambda _order: None
) -> list[RunDocument]:
    executors = (FakeExecutor(on_execute=on_stable_case), FakeExecutor(facts=NEWER_FACTS))
    return sandbox.run_together([STABLE, NIGHTLY], executors=executors)


def test_each_toolchain_has_a_run_of_its_own_with_the_same_plan(sandbox: RunSandbox) -> None:
    stable, nightly = run_both(sandbox)
    assert (stable.run.toolchain, nightly.run.toolchain) == ("stable", "nightly")
    assert nightly.run.revision.startswith("2.14.0")
    assert stable.run.plan == nightly.run.plan
    assert stable.run.fingerprint != nightly.run.fingerprint
    assert [sandbox.load(document.run.id) for document in (stable, nightly)] == [stable, nightly]
    assert [result.case for result in nightly.results] == list(nightly.run.plan)


def test_a_case_is_over_everywhere_before_the_next_one_starts(sandbox: RunSandbox) -> None:
    run_both(sandbox)
    kinds = [type(event).__name__ for event in sandbox.events if not hasattr(event, "text")]
    case = ["CaseStarted", "CaseFinished", "CaseFinished"]
    assert kinds == ["RunStarted"] * 2 + case * 4 + ["RunEnded"] * 2


def test_results_of_every_toolchain_are_stored_while_the_next_case_runs(
    sandbox: RunSandbox,
) -> None:
    cases: list[str] = []

    def num_stored() -> int:
        assert sandbox.store is not None
        summaries = load_runs(sandbox.store)
        return sum(sum(item.num_by_outcome.values()) for item in summaries)

    def look(order: CaseOrder) -> None:
        wait_until(lambda: num_stored() == 2 * len(cases))
        cases.append(order.case.key)

    run_both(sandbox, on_stable_case=look)
    assert len(cases) == 4


def test_a_host_starts_after_the_facts_of_the_previous_one(sandbox: RunSandbox) -> None:
    log: list[str] = []

    class Logging(FakeExecutor):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def start(self) -> None:
            log.append(f"{self.name} starts")

        def open(self) -> Any:
            log.append(f"{self.name} opens")
            return super().open()

    executors = (Logging("a"), Logging("b"))
    sandbox.run_together([STABLE, NIGHTLY], executors=executors)
    assert log == ["a starts", "a opens", "b opens"]


def test_ctrl_c_interrupts_every_run_after_the_same_case(sandbox: RunSandbox) -> None:
    executors = (FakeExecutor(on_execute=on_case(3, interrupt)), FakeExecutor())
    documents = sandbox.run_together([STABLE, NIGHTLY], executors=executors)
    assert [len(document.results) for document in documents] == [2, 2]
    assert {document.run.state for document in documents} == {RunState.INTERRUPTED}
    assert [executor.is_cancelled for executor in executors] == [True, True]
    assert [executor.is_open for executor in executors] == [False, False]


def test_each_run_is_resumed_on_its_own(sandbox: RunSandbox) -> None:
    stable, nightly = run_both(sandbox, on_stable_case=on_case(3, interrupt))
    executor = FakeExecutor(facts=NEWER_FACTS)
    resumed = sandbox.run(replace(NIGHTLY, resume_id=nightly.run.id), executor=executor)
    assert resumed.run.state is RunState.FINISHED
    assert executor.executed == [case.key for case in nightly.run.plan[2:]]
    assert sandbox.load(stable.run.id).run.state is RunState.INTERRUPTED


def test_no_run_is_made_when_one_toolchain_does_not_start(sandbox: RunSandbox) -> None:
    class Unusable(FakeExecutor):
        def open(self) -> dict[str, object]:
            raise ExecutorError("no torch there")

    executors = (FakeExecutor(), Unusable())
    with pytest.raises(ToolchainUnusable, match="no torch there"):
        sandbox.run_together([STABLE, NIGHTLY], executors=executors)
    assert sandbox.store is not None
    assert load_runs(sandbox.store) == []
    assert executors[0].is_open is False


def test_a_host_that_is_gone_interrupts_every_run(sandbox: RunSandbox) -> None:
    def host_dies() -> None:
        raise ExecutorError("no host can be started any more")

    with pytest.raises(ExecutorError):
        run_both(sandbox, on_stable_case=on_case(2, host_dies))
    assert sandbox.store is not None
    states = [
        (item.run.state, sum(item.num_by_outcome.values())) for item in load_runs(sandbox.store)
    ]
    assert states == [(RunState.INTERRUPTED, 1)] * 2


def test_a_run_that_never_started_is_not_ended(
    sandbox: RunSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sandbox.spool is not None
    write = sandbox.spool.write

    def write_one(run: Any, **values: Any) -> None:
        if run.toolchain == "nightly":
            raise SpoolFull("no room")
        write(run, **values)

    monkeypatch.setattr(sandbox.spool, "write", write_one)
    with pytest.raises(SpoolFull):
        run_both(sandbox)
    (ended,) = [event for event in sandbox.events if isinstance(event, RunEnded)]
    assert (ended.run.toolchain, ended.run.state) == ("stable", RunState.INTERRUPTED)
    started = [event for event in sandbox.events if isinstance(event, (RunStarted, CaseStarted))]
    assert len(started) == 1
    assert not [event for event in sandbox.events if isinstance(event, CaseFinished)]


def test_every_run_has_heartbeats(sandbox: RunSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    beats: list[str] = []

    def beat(_writer: object, run_id: str, **_: object) -> None:
        beats.append(run_id)

    monkeypatch.setattr(
        "compile_hud.runner.persistence.result_writer.ResultWriter.record_heartbeat", beat
    )

    class AtOnce:
        def __init__(self, beat: Any) -> None:
            beat()

        def __enter__(self) -> None:
            return None

        def __exit__(self, *_error: object) -> None:
            return None

    monkeypatch.setattr("compile_hud.runner.execution.run_plan.heartbeat", AtOnce)
    stable, nightly = run_both(sandbox)
    assert beats == [stable.run.id, nightly.run.id]
