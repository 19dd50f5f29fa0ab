"""A suspect from a node of a cluster is measured again on that node."""

from __future__ import annotations

import dataclasses
import signal
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.queries.alerts import load_alerts
from compile_hud.db.queries.results import load_document
from compile_hud.db.records.results import Outcome, Run
from compile_hud.runner.cluster.api import SETUP_LIMIT_S, Nodes, Reply, Setup, Slot, Status
from compile_hud.runner.cluster.confirm import BUSY_LIMIT_S, NodeExecutor
from compile_hud.runner.config.load import load_config
from compile_hud.runner.detection.confirm import confirm_run
from compile_hud.runner.errors import ExecutorError
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.execution.retries import MAX_ATTEMPTS
from compile_hud.runner.planning.plan import plan_case
from compile_hud.runner.protocol.messages import LaunchReport, MeasureSettings
from compile_hud.runner.workspace import Dependencies, Workspace
from tests.support.builders import make_case, make_result
from tests.support.fake_cluster import SILENT, Behaviour, FakeCluster, measured
from tests.support.fakes import FACTS, FakeClock, make_catalog
from tests.support.runs.nights import Launches, Nights, history, slower

SETUP = Setup(device="cpu", num_threads=1, release="test")
PLANNED = plan_case(make_case(model="a"), catalog=make_catalog("a"))
ORDER = CaseOrder(
    run_id="run", case=PLANNED.case, workload=PLANNED.workload, settings=MeasureSettings()
)


def executor_on(cluster: FakeCluster, *, machine: str, clock: FakeClock) -> NodeExecutor:
    nodes = Nodes(cluster=cluster, setup=SETUP, trace_folder=Path("spool"), machine=machine)
    return NodeExecutor(nodes, now=clock)


class Here:
    """A cluster of two machines, one of which is asked again."""

    def __init__(self, behave: Behaviour = measured) -> None:
        self.clock = FakeClock()
        self.cluster = FakeCluster("alpha", "beta", clock=self.clock, behave=behave)
        self.executor = executor_on(self.cluster, machine="beta", clock=self.clock)


def busy(_order: CaseOrder, _slot: Slot) -> Reply:
    return Reply(status=Status.BUSY, reason="another run measures there")


def test_the_machine_of_the_run_is_queried_and_no_other() -> None:
    here = Here()
    here.executor.start()
    assert here.executor.open() == FACTS
    assert here.executor.execute(ORDER).outcome is Outcome.OK
    assert here.cluster.assigned == [("beta", "a")]
    here.executor.close()
    assert not here.cluster.is_open


def test_launches_on_another_machine_are_not_interleaved(words: SnapshotAssertion) -> None:
    here = Here()
    with pytest.raises(ExecutorError) as caught:
        here.executor.begin(ORDER)
    assert caught.value.parameters == {"machine": "beta"}
    assert str(caught.value) == words
    assert not here.cluster.assigned


def test_connecting_restores_the_handler_of_sigterm(monkeypatch: pytest.MonkeyPatch) -> None:
    here, before = Here(), signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(here.cluster, "open", lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN))
    here.executor.start()
    assert signal.getsignal(signal.SIGTERM) == before
    here.executor.close()


def test_a_machine_that_is_not_there_is_reported(words: SnapshotAssertion) -> None:
    here = Here()
    here.cluster.present.pop()
    with pytest.raises(ExecutorError) as caught:
        here.executor.open()
    assert caught.value.parameters == {"machine": "beta"}
    assert str(caught.value) == words


@pytest.mark.parametrize(
    ("behave", "took_s"),
    [
        (lambda _order, _slot: None, 1),
        (busy, BUSY_LIMIT_S),
        (lambda _order, _slot: SILENT, SETUP_LIMIT_S),
    ],
)
def test_a_machine_that_does_not_measure_is_reported(
    behave: Behaviour, took_s: float, words: SnapshotAssertion
) -> None:
    here = Here(behave)
    started_at = here.clock()
    with pytest.raises(ExecutorError) as caught:
        here.executor.execute(ORDER)
    assert str(caught.value) == words
    assert (here.clock() - started_at).total_seconds() >= took_s


def test_the_limit_of_a_task_covers_its_waits_and_its_attempts() -> None:
    setup = dataclasses.replace(SETUP, wait_idle_s=60.0)
    assert setup.limit_s(0.0) == SETUP_LIMIT_S + 60.0
    assert setup.limit_s(100.0) == SETUP_LIMIT_S + 60.0 + MAX_ATTEMPTS * 100.0


def test_a_machine_that_is_busy_for_a_while_is_waited_for() -> None:
    here = Here()
    here.cluster.behave = lambda order, slot: (
        busy(order, slot) if len(here.cluster.assigned) < 3 else measured(order, slot)
    )
    assert here.executor.execute(ORDER).outcome is Outcome.OK


def test_what_is_stopped_is_killed_there() -> None:
    here = Here(lambda _order, _slot: SILENT)
    here.cluster.on_submit = here.executor.cancel
    with pytest.raises(ExecutorError, match="machine beta: stopped"):
        here.executor.execute(ORDER)
    assert here.cluster.cancelled == ["beta"]


def test_a_suspect_is_measured_again_where_it_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    terminal = Nights(tmp_path, made=tmp_path / "made")
    history(terminal)
    broken = LaunchReport(outcome=Outcome.FAILED, reason="it broke")
    Launches(terminal, slower(0.010, 0.010, 0.010)).on_launch = lambda _name, _place: broken
    terminal.tonight("--no-confirm")
    document = load_document(terminal.store(), "latest")

    def break_again(order: CaseOrder, _slot: Slot) -> Reply:
        result = make_result("again", run_id=order.run_id, case=order.case, measurements=())
        failed = dataclasses.replace(result, outcome=Outcome.FAILED, reason="it broke")
        return Reply(status=Status.DONE, results=(failed,), traces=(b"",))

    machine = document.run.machine
    cluster = FakeCluster("other", machine, clock=terminal.clock, behave=break_again)
    cluster.looks[machine] = Reply(status=Status.DONE, facts=(document.run.environment,))

    def elsewhere(run: Run) -> NodeExecutor:
        return executor_on(cluster, machine=run.machine, clock=terminal.clock)

    env = {"HUD_LOCK_DIR": str(tmp_path / "ours")}
    report = confirm_run(
        document,
        alerts=load_alerts(terminal.store()),
        workspace=Workspace(
            config=load_config(tmp_path / "hud.toml", env=env),
            dependencies=Dependencies(now=terminal.clock, env=env),
            elsewhere=elsewhere,
        ),
        notify=lambda _event: None,
    )
    assert [alert.is_confirmed for alert in report.alerts] == [True]
    assert cluster.assigned == [(machine, "net")]
    # The machine holds its own lock; with ours as well a node on this machine would wait for us.
    assert not (tmp_path / "ours").exists()
