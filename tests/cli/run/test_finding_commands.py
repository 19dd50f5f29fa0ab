"""hud try: a finding, and what its remedy brings, with launches that are drawn."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from compile_hud.db.ingest.results import put_documents
from compile_hud.db.records.results import Measurement
from compile_hud.models_zoo.catalog.variants import VARIANTS
from compile_hud.runner.cli.run.remedy import DEFAULT_MINUTES
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.protocol.messages import LaunchReport
from tests.support.builders import (
    START,
    make_case,
    make_document,
    make_measurement,
    make_result,
    make_run,
)
from tests.support.fakes import Draw, FakeExecutor, draw_latencies
from tests.support.terminal import Terminal

# Seconds of an iteration; compiled code is slower here.
LEVELS = {"eager": 0.010, "default": 0.012}


def measurements(name: str) -> list[Measurement]:
    eager_s, own_s = LEVELS["eager"], LEVELS[name]
    levels = {"latency_s": own_s, "latency_cpu_s": own_s}
    if name != "eager":
        levels |= {"eager_latency_s": eager_s, "eager_latency_cpu_s": eager_s}
        levels["speedup"] = eager_s / own_s
    return [
        make_measurement(metric, samples=[level * (1 + 0.001 * number) for number in range(8)])
        for metric, level in levels.items()
    ]


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path)
    cases = {
        name: make_case(
            model="bert",
            shape="tiny",
            variant=name,
            mode=VARIANTS[name].mode,
            backend=VARIANTS[name].backend,
        )
        for name in LEVELS
    }
    run = make_run("slow", plan=tuple(cases.values()), toolchain="current", machine="box")
    results = [
        make_result(name, run=run, case=case, measurements=measurements(name))
        for name, case in cases.items()
    ]
    with terminal.store().write() as connection:
        put_documents(connection, [make_document(run, results=results)], at=START)
    draws: dict[str, Draw] = {
        name: draw_latencies(level, launch_sd=0.005, seed=number)
        for number, (name, level) in enumerate(LEVELS.items())
    }

    def draw(order: CaseOrder, number: int) -> LaunchReport:
        terminal.clock.advance(2.0)
        return draws[order.case.variant](order, number)

    def equip(executor: FakeExecutor, _python: Path) -> None:
        executor.draw = draw

    terminal.on_executor = equip
    return terminal


def test_the_remedy_is_measured_in_turn_with_the_case(terminal: Terminal) -> None:
    document = terminal.json("try", "slow", "default", "slower-than-eager", "--json")
    assert document["finding"]["code"] == "slower-than-eager"
    assert document["remedy"] == "eager"
    assert document["baseline"]["variant"] == "default"
    assert document["candidate"]["variant"] == "eager"
    (row,) = [row for row in document["rows"] if row["metric"] == "latency_cpu_s"]
    low, high = row["interval"]
    assert low < LEVELS["eager"] / LEVELS["default"] < high
    assert row["verdict"] == "improvement"
    (executor,) = terminal.executors
    launches = [key.split("/")[-2] for key in executor.launched]
    assert launches[:4] == ["default", "eager", "eager", "default"]
    # A trial is no run.
    assert len(terminal.json("runs", "--json")) == 1


def test_the_answer_has_the_cost_of_the_finding_and_the_change(terminal: Terminal) -> None:
    result = terminal.hud("try", "slow", "default", "slower-than-eager")
    assert result.exit_code == 0, result.output
    first = result.stdout.splitlines()[0]
    assert first.startswith("slower-than-eager (cost 2.0")
    assert "latency -1" in first


def test_a_trial_ends_when_its_time_is_up(terminal: Terminal) -> None:
    document = terminal.json(
        "try", "slow", "default", "slower-than-eager", "--minutes", "0.1", "--json"
    )
    assert document["num_pairs"] == 1
    assert document["took_s"] < 60 * DEFAULT_MINUTES


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("graph-brake", ". Did you mean graph-break"),
        ("slower-then-eager", ". Did you mean slower-than-eager?"),
        ("host-bound", "'host-bound'. It has slower-than-eager"),
    ],
)
def test_a_finding_that_the_case_has_not_is_an_error_that_lists_them(
    terminal: Terminal, code: str, words: str
) -> None:
    result = terminal.hud("try", "slow", "default", code)
    assert result.exit_code != 0
    assert words in result.stderr
    assert terminal.executors == []


def test_findings_are_exported_with_their_run_and_case(terminal: Terminal) -> None:
    result = terminal.hud("export", "slow", "--format", "findings", "--case", "default")
    assert result.exit_code == 0, result.output
    (row,) = csv.DictReader(io.StringIO(result.stdout))
    assert (row["run_id"], row["model"], row["variant"]) == ("slow", "bert", "default")
    assert row["finding"] == "slower-than-eager"
    assert float(row["cost_s"]) == pytest.approx(LEVELS["default"] - LEVELS["eager"], rel=0.01)
    # Eager of the run is needed for it, and has no finding itself.
    none = terminal.hud("export", "slow", "--format", "findings", "--case", "eager")
    assert list(csv.DictReader(io.StringIO(none.stdout))) == []


def test_findings_have_no_metrics(terminal: Terminal) -> None:
    result = terminal.hud("export", "slow", "--format", "findings", "--metric", "latency_s")
    assert result.exit_code == 2
    assert "--metric" in result.stderr
