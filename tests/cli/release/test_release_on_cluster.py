"""hud release --executor ray: each case on one of several machines, one answer for all."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.queries.results import load_document
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.records.results import Outcome, Run, RunDocument, RunState
from compile_hud.runner.cluster.api import Reply, Slot, Status, Task
from compile_hud.runner.cluster.assignments import MAX_ASSIGNMENTS
from compile_hud.runner.cluster.coordinator import NO_NODES_LIMIT_S
from compile_hud.runner.execution.paired_launches import PairSide
from compile_hud.runner.release.cluster_cases import UntilDecided
from tests.cli.release.test_release import TOOLCHAINS, Pair
from tests.support.fake_cluster import SILENT, FakeCluster
from tests.support.fakes import FakeExecutor
from tests.support.terminal import CONFIG

RAY_CLUSTER = "compile_hud.runner.cluster.ray_cluster"
RAY = ("--executor", "ray")
RELEASE = ("release", "stable", "night", "--suite", "mine", "--device", "cpu", *RAY)
RESUME = ("release", "stable", "night", "--resume", *RAY)
# Six cases, for machines to share.
MODELS = "".join(f'[models.net{number}]\nbuild = "net.py"\n' for number in range(3))
SHARED = CONFIG.replace('models = "net"', 'models = "net?"') + MODELS + TOOLCHAINS


class MeasuringCluster(FakeCluster):
    """Nodes that measure as real ones do, with executors of `terminal`.

    `disturb` may answer in place of a node.
    """

    def __init__(self, *machines: str, terminal: Pair) -> None:
        super().__init__(*machines, clock=terminal.clock)
        self.disturb: Callable[[Task, Slot], Reply | None | str] = lambda _task, _slot: "measures"
        # The differences of a machine's facts, by machine and interpreter.
        self.facts: dict[tuple[str, str], dict[str, Any]] = {}
        self._terminal = terminal

    def _executors(self) -> list[FakeExecutor]:
        assert self.setup is not None
        return [
            self._terminal.make_executor(python=Path(python), state_dir=Path(), device="cpu")
            for python in self.setup.pythons
        ]

    def look(self, slot: Slot) -> Reply | None:
        """Return the facts under each interpreter."""
        assert self.setup is not None
        facts = tuple(
            {**executor.open(), **self.facts.get((slot.machine, python), {})}
            for executor, python in zip(self._executors(), self.setup.pythons, strict=True)
        )
        return self.looks.get(slot.machine, Reply(status=Status.DONE, facts=facts))

    def answer(self, task: Task, slot: Slot) -> Reply | None | str:
        """Measure both sides of the case, unless the node is disturbed."""
        disturbed = self.disturb(task, slot)
        if disturbed != "measures":
            return disturbed
        sides = [
            PairSide(executor=executor, order=order)
            for executor, order in zip(self._executors(), task.orders, strict=True)
        ]
        results = tuple(task.measure(sides))
        return Reply(status=Status.DONE, results=results, traces=(b"",) * len(results))


class Rack(Pair):
    """A terminal with a cluster of two machines."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (folder / "hud.toml").write_text(SHARED)
        self.cluster = self.new_cluster("rack-1", "rack-2")

    def new_cluster(self, *machines: str) -> MeasuringCluster:
        """Return the cluster that the next command connects to."""
        self.cluster = MeasuringCluster(*machines, terminal=self)
        return self.cluster

    def interrupt(self, *, after: int) -> None:
        """Press Ctrl-C when `after` cases are handed out."""

        def press() -> None:
            if len(self.cluster.assigned) == after:
                os.kill(os.getpid(), signal.SIGINT)

        self.cluster.on_submit = press

    def runs(self) -> list[Run]:
        return [summary.run for summary in load_runs(self.store())]

    def documents(self) -> list[RunDocument]:
        return [load_document(self.store(), run.id) for run in self.runs()]

    def measured(self) -> dict[str, set[tuple[str, str]]]:
        """Return the machine and the toolchain of each result, by the key of its case."""
        by_case: dict[str, set[tuple[str, str]]] = {}
        for document in self.documents():
            for result in document.results:
                side = (document.run.machine, document.run.toolchain)
                by_case.setdefault(result.case.key, set()).add(side)
        return by_case


@pytest.fixture
def rack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rack:
    monkeypatch.chdir(tmp_path)
    rack = Rack(tmp_path)
    module = SimpleNamespace(RayCluster=lambda **_options: rack.cluster)
    monkeypatch.setitem(sys.modules, RAY_CLUSTER, module)
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec",
        lambda name, *rest: True if name == "ray" else find_spec(name, *rest),
    )
    return rack


def test_machines_share_a_release_and_give_one_answer(rack: Rack, words: SnapshotAssertion) -> None:
    rack.slowdown = 2.0
    result = rack.hud(*RELEASE, "--markdown", "report.md")
    assert result.exit_code == 1, result.output
    assert result.stdout == words
    assert (rack.folder / "report.md").read_text() == words
    runs = rack.runs()
    sides = {("rack-1", "stable"), ("rack-1", "night"), ("rack-2", "stable"), ("rack-2", "night")}
    assert {(run.machine, run.toolchain) for run in runs} == sides
    assert len({(run.started_at, run.trigger) for run in runs}) == 1
    assert all(run.state is RunState.FINISHED for run in runs)
    measured = rack.measured()
    assert len(measured) == 6
    for parts in measured.values():
        assert {toolchain for _, toolchain in parts} == {"stable", "night"}
        assert len({machine for machine, _ in parts}) == 1
    assert {machine for parts in measured.values() for machine, _ in parts} == {"rack-1", "rack-2"}


def test_the_report_of_a_shared_release_is_shown_again(rack: Rack) -> None:
    rack.slowdown = 2.0
    first = rack.hud(*RELEASE)
    again = rack.hud("release", "stable", "night", "--report")
    assert (again.exit_code, again.stdout) == (1, first.stdout)
    document = rack.hud("release", "stable", "night", "--report", "--json")
    machines = json.loads(document.stdout)["machines"]
    assert [item["machine"] for item in machines] == ["rack-1", "rack-2"]
    by_id = {run.id: (run.machine, run.toolchain) for run in rack.runs()}
    assert [by_id[item["candidate_run"]] for item in machines] == [
        ("rack-1", "night"),
        ("rack-2", "night"),
    ]


def test_each_case_is_judged_by_the_standard_of_the_whole_release(rack: Rack) -> None:
    assert rack.hud(*RELEASE, "--max-launches", "9").exit_code == 0
    assert rack.cluster.measures
    for measure in rack.cluster.measures:
        assert isinstance(measure, UntilDecided)
        assert (measure.num_cases, measure.rules.max_launches) == (6, 9)
        assert measure.budget is None


def test_the_case_of_a_lost_machine_goes_to_another_with_both_sides(rack: Rack) -> None:
    died: list[str] = []

    def disturb(task: Task, slot: Slot) -> Reply | None | str:
        if slot.machine == "rack-2" and not died:
            died.append(task.orders[0].case.key)
            return None
        return "measures"

    rack.cluster.disturb = disturb
    result = rack.hud(*RELEASE)
    assert result.exit_code == 0, result.output
    assert "machine rack-2" in result.stderr
    measured = rack.measured()
    assert len(measured) == 6
    assert measured[died[0]] == {("rack-1", "stable"), ("rack-1", "night")}


def test_a_case_that_takes_machines_with_it_is_no_reason_to_ship(rack: Rack) -> None:
    cluster = rack.new_cluster("m1", "m2", "m3", "m4")
    cluster.disturb = lambda task, _slot: (
        None
        if task.orders[0].case.variant == "default" and "net1" in task.orders[0].case.key
        else "measures"
    )
    document = rack.json(*RELEASE, "--json")
    assert document["sign_off"]["num_unmeasured"] == 1
    assert document["sign_off"]["advice"] != "ship"
    unfinished = [
        result
        for item in rack.documents()
        for result in item.results
        if result.outcome is Outcome.NODE_LOST
    ]
    assert len({result.case.key for result in unfinished}) == 1
    assert len(unfinished) == 2
    assert len(cluster.present) == 4 - MAX_ASSIGNMENTS


def test_a_stopped_release_goes_on_with_what_no_machine_has_measured(
    rack: Rack, words: SnapshotAssertion
) -> None:
    rack.interrupt(after=3)
    stopped = rack.hud(*RELEASE)
    assert stopped.exit_code == 130, stopped.output
    assert stopped.stderr.splitlines()[-1] == words
    before = rack.measured()
    assert 0 < len(before) < 6
    assert {run.state for run in rack.runs()} == {RunState.INTERRUPTED}
    here = rack.hud("release", "stable", "night", "--resume")
    assert here.exit_code == 2
    assert here.stderr == words

    cluster = rack.new_cluster("rack-2", "rack-3")
    resumed = rack.hud(*RESUME)
    assert resumed.exit_code == 0, resumed.output
    assert len(cluster.assigned) == 6 - len(before)
    after = rack.measured()
    assert len(after) == 6
    assert {key: after[key] for key in before} == before
    assert {run.state for run in rack.runs()} == {RunState.FINISHED}
    assert len({run.started_at for run in rack.runs()}) == 1
    report = rack.hud("release", "stable", "night", "--report")
    assert "machine   rack-1, rack-2, rack-3" in report.stdout


def test_a_budget_leaves_the_cases_that_it_has_no_time_for(rack: Rack) -> None:
    rack.new_cluster("rack-1")
    document = rack.json(*RELEASE, "--budget", "5s", "--json")
    measured = rack.measured()
    assert 0 < len(measured) < 6
    assert document["sign_off"]["num_unmeasured"] == 6 - len(measured)
    budgets = [
        measure.budget.total_seconds()
        for measure in rack.cluster.measures
        if isinstance(measure, UntilDecided) and measure.budget is not None
    ]
    assert len(budgets) == len(measured)
    assert budgets == sorted(budgets, reverse=True)
    assert rack.hud(*RESUME).exit_code == 0
    assert len(rack.measured()) == 6


def test_a_release_that_loses_every_machine_can_be_resumed(rack: Rack) -> None:
    cluster = rack.new_cluster("rack-1")
    cluster.disturb = lambda _task, _slot: None if len(cluster.assigned) == 3 else "measures"
    at = rack.clock()
    result = rack.hud(*RELEASE)
    assert result.exit_code == 130, result.output
    assert (rack.clock() - at).total_seconds() > NO_NODES_LIMIT_S
    assert len(rack.measured()) == 2
    rack.new_cluster("rack-1")
    assert rack.hud(*RESUME).exit_code == 0
    assert len(rack.measured()) == 6
    assert len(rack.runs()) == 2


@pytest.mark.parametrize(
    ("python", "facts"),
    [
        ("/opt/night/bin/python", {"torch_git": "c" * 40}),
        ("/opt/stable/bin/python", {"torch_version": "2.12.0"}),
    ],
)
def test_a_machine_with_another_build_takes_no_part(
    rack: Rack, python: str, facts: dict[str, Any], words: SnapshotAssertion
) -> None:
    rack.cluster.facts = {("rack-2", python): facts}
    result = rack.hud(*RELEASE)
    assert result.exit_code == 0, result.output
    assert {machine for machine, _ in rack.cluster.assigned} == {"rack-1"}
    assert [line for line in result.stderr.splitlines() if "rack-2" in line] == words


def test_a_machine_whose_environment_changed_does_not_go_on(
    rack: Rack, words: SnapshotAssertion
) -> None:
    rack.interrupt(after=3)
    assert rack.hud(*RELEASE).exit_code == 130
    cluster = rack.new_cluster("rack-1")
    cluster.facts = {
        ("rack-1", python): {"cpu_model": "another"}
        for python in ("/opt/stable/bin/python", "/opt/night/bin/python")
    }
    error = rack.error(*RESUME)
    assert str(error) == words
    assert not cluster.assigned


def test_a_toolchain_that_no_node_has_is_one_error(rack: Rack, words: SnapshotAssertion) -> None:
    reply = Reply(status=Status.UNUSABLE, reason="no interpreter /opt/night/bin/python")
    rack.cluster.looks = {"rack-1": reply, "rack-2": reply}
    result = rack.hud(*RELEASE)
    assert result.exit_code == 2
    assert result.stderr == words


def test_without_a_node_for_the_device_nothing_is_measured(
    rack: Rack, words: SnapshotAssertion
) -> None:
    rack.new_cluster()
    result = rack.hud(*RELEASE)
    assert result.exit_code == 2
    assert result.stderr == words


def test_without_ray_the_missing_package_is_the_error(
    rack: Rack, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    result = rack.hud(*RELEASE)
    assert result.exit_code == 2
    assert result.stderr == words


def test_a_release_that_is_measured_is_not_resumed(rack: Rack) -> None:
    rack.interrupt(after=3)
    assert rack.hud(*RELEASE).exit_code == 130
    store = rack.store()
    for run in rack.runs():
        store.save_run(replace(run, state=RunState.RUNNING, finished_at=None))
    rack.new_cluster("rack-1")
    assert "is being measured" in str(rack.error(*RESUME))


@pytest.mark.parametrize(
    "arguments",
    [
        ("--suite", "mine", *RAY),
        ("--report", *RAY),
        ("--suite", "mine", "--device", "cpu", *RAY, "--runtime-env", "x.json"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    rack: Rack, arguments: tuple[str, ...], words: SnapshotAssertion
) -> None:
    result = rack.hud("release", "stable", "night", *arguments)
    assert result.exit_code == 2
    assert result.stderr == words
    assert not rack.cluster.is_open


def test_silent_nodes_are_stopped_with_the_command(rack: Rack) -> None:
    rack.cluster.disturb = lambda _task, _slot: SILENT
    rack.interrupt(after=1)
    result = rack.hud(*RELEASE)
    assert result.exit_code == 130, result.output
    assert rack.measured() == {}
    assert not rack.cluster.is_open
