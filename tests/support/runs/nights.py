"""A store with nights of one case, and a night to come whose launches a test decides."""

from __future__ import annotations

import dataclasses
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import Result

from compile_hud.db.ingest.results import put_documents
from compile_hud.db.queries.alerts import load_alerts
from compile_hud.db.queries.results import load_document
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.results import Case, CaseResult, RunDocument
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.protocol.messages import LaunchReport
from compile_hud.runner.toolchains.registry import Probe
from tests.support.builders import START, make_measurement
from tests.support.fakes import FACTS, Draw, FakeExecutor, draw_latencies
from tests.support.terminal import CONFIG, Terminal

OLD_TORCH = {"torch_version": "2.12.0", "torch_git": "fedcba9876543210"}
TOOLCHAINS = """
[toolchains]
old = "/opt/old/bin/python"
broken = "/opt/broken/bin/python"
"""
LAUNCH_S = 1.0


class Nights(Terminal):
    """A terminal whose store has nights of one case, and one more night to come."""

    def __init__(self, folder: Path, *, made: Path) -> None:
        super().__init__(folder)
        (folder / "hud.toml").write_text(CONFIG + TOOLCHAINS)
        # Histories that another test has made.
        self.made = made
        self.has_references = False
        # Otherwise a run of one case would have no budget for anything else.
        self.share = "10"
        self.facts_of_old: dict[str, Any] = dict(OLD_TORCH)

    def nights(self, values_s: Sequence[float], *, facts: Mapping[str, Any] | None = None) -> None:
        """Store a night of the eager case for each of these latencies, in seconds."""
        assert self.hud("run", *CASE, "--no-confirm").exit_code == 0
        first = load_document(self.store(), "latest")
        documents = [
            _night(first, number, value, facts=facts)
            for number, value in enumerate(values_s, start=1)
        ]
        with self.store().write() as connection:
            put_documents(connection, documents, at=START)

    def tonight(self, *options: str) -> Result:
        """Run the case once more."""
        text = (self.folder / "hud.toml").read_text()
        text = re.sub(r"confirm_share = .*\n", "", text)
        text = text.replace("[run]\n", f"[run]\nconfirm_share = {self.share}\n")
        (self.folder / "hud.toml").write_text(text)
        return self.hud("run", *CASE, *options)

    def alerts(self) -> dict[str, Alert]:
        """Return the alerts in the store by metric."""
        return {alert.metric: alert for alert in load_alerts(self.store())}

    def use_references(self) -> None:
        """Measure the reference cases in every run."""
        self.has_references = True
        path = self.folder / "hud.toml"
        path.write_text(path.read_text().replace("reference_cases = false\n", ""))

    def probe_all(self, python: Path) -> Probe:
        name = str(python)
        if "broken" in name:
            return Probe(problem="no torch")
        return Probe(torch_version="2.12.0" if "old" in name else "2.13.0+cpu")


CASE = ("--model", "net", "--mode", "eager", "--fail-on", "regression")


def _night(
    first: RunDocument, number: int, latency_s: float, *, facts: Mapping[str, Any] | None
) -> RunDocument:
    at = first.run.started_at + timedelta(days=number)
    environment = {**first.run.environment, **(facts or {})}
    revision = f"{environment['torch_version']}@{environment['torch_git'][:10]}"
    run = dataclasses.replace(
        first.run,
        id=f"night-{number:02d}",
        started_at=at,
        finished_at=at + timedelta(seconds=20),
        environment=environment,
        revision=revision,
    )
    return RunDocument(
        run=run, results=tuple(_result(item, run.id, latency_s) for item in first.results)
    )


def _result(result: CaseResult, run_id: str, latency_s: float) -> CaseResult:
    """Return the result in another run; its own latency for the model, steady references."""
    level_s = 0.005 if result.case.is_reference else latency_s
    measurements = tuple(
        make_measurement(item.metric, samples=[level_s * f for f in (0.999, 1.0, 1.001)])
        for item in result.measurements
    )
    return dataclasses.replace(
        result, id=f"{run_id}-{result.case.key}", run_id=run_id, measurements=measurements
    )


def steady(num: int, level_s: float = 0.010, *, seed: int = 0) -> list[float]:
    generator = np.random.default_rng(seed)
    return [float(v) for v in level_s * (1 + 0.004 * generator.standard_normal(num))]


Latency = Callable[[str, int, Case], float]


class Launches:
    """The launches of the fake executors: latencies by toolchain, by executor and by case."""

    def __init__(self, terminal: Nights, latency_s: Latency) -> None:
        self.terminal = terminal
        self.latency_s = latency_s
        # Toolchain and model of every launch, in order.
        self.launched: list[tuple[str, str]] = []
        self.num_new = 0
        self.on_launch: Callable[[str, int], LaunchReport | None] = lambda _name, _number: None
        terminal.on_executor = self.on_executor

    def on_executor(self, executor: FakeExecutor, python: Path) -> None:
        """Let this executor draw its launches."""
        name = "old" if "old" in str(python) else "new"
        index = self.num_new
        self.num_new += name == "new"
        draws: dict[str, Draw] = {}
        seed = len(self.terminal.executors)

        def launch(order: CaseOrder, number: int) -> LaunchReport:
            case = order.case
            self.launched.append((name, case.model))
            self.terminal.clock.advance(LAUNCH_S)
            level_s = self.latency_s(name, index, case)
            draws.setdefault(case.key, draw_latencies(level_s, launch_sd=0.004, seed=seed))
            return self.on_launch(name, index) or draws[case.key](order, number)

        executor.draw = launch
        executor.clock = self.terminal.clock
        if name == "old":
            executor.facts = {**FACTS, **self.terminal.facts_of_old}


def slower(old_s: float, run_s: float, again_s: float, *, references_s: float = 0.005) -> Latency:
    """Return the latencies of the old toolchain, of the run and of its re-measurement."""

    def latency_s(name: str, index: int, case: Case) -> float:
        if case.is_reference:
            return references_s if index else 0.005
        return old_s if name == "old" else (run_s, again_s)[min(index, 1)]

    return latency_s


def history(terminal: Nights, *, facts: Mapping[str, Any] | None = None) -> None:
    """Store ten steady nights at 10 ms; equal ones are made once and copied."""
    made = terminal.made / f"{'old' if facts else 'new'}-{terminal.has_references}"
    if made.exists():
        shutil.copytree(made, terminal.folder / ".hud")
        terminal.clock.moment = START + timedelta(days=11)
        return
    Launches(terminal, slower(0.010, 0.010, 0.010))
    terminal.nights(steady(10), facts=facts)
    shutil.copytree(terminal.folder / ".hud", made)
    terminal.clock.moment = START + timedelta(days=11)
