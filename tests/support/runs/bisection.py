"""A terminal in which revisions have levels, and a repository whose commits have."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from compile_hud.db.records.results import CaseResult, Outcome
from compile_hud.runner.errors import ExecutorError
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.protocol.messages import LaunchReport, RawMetric
from tests.support.fakes import FACTS, Draw, FakeExecutor, draw_latencies
from tests.support.records.kernel_diffs import product
from tests.support.terminal import Terminal

CASE = ("--model", "net", "--mode", "eager")
# The slower net has one product more.
SLOW_S = 0.011


class BisectTerminal(Terminal):
    """A terminal whose toolchains, by name, take `levels` seconds.

    A level of 0 is a toolchain that does not start, one below 0 a case that fails. `launches` are
    the names in the order of their launches.
    """

    def __init__(self, folder: Path, levels: Mapping[str, float]) -> None:
        super().__init__(folder)
        self.levels = dict(levels)
        self.launches: list[str] = []
        self.launch_s = 1.0
        # Results have kernels: one product, and another one above 11 ms.
        self.with_kernels = False
        # The names at which cases of a mode fail.
        self.fails: Mapping[str, str] = {}
        # This is called with the name of each revision whose launch is over.
        self.on_launch: Callable[[str], None] = lambda _name: None
        self._draws: dict[str, Draw] = {}
        lines = [f'{name} = "/opt/{name}/bin/python"' for name in levels]
        config = folder / "hud.toml"
        config.write_text("\n".join([config.read_text(), "[toolchains]", *lines, ""]))

    def make_executor(self, *, python: Path, **values: Any) -> FakeExecutor:
        """Return a fake that launches at the toolchain's level."""
        name = python.parts[-3]
        executor = super().make_executor(python=python, **values)
        executor.facts = {**FACTS, "torch_version": f"9.{name}"}
        executor.draw = lambda order, number: self.draw(self.name_of(order, name), order, number)
        executor.amend = lambda order, result: self._amend(self.name_of(order, name), result)
        if self.levels.get(name) == 0:
            executor.open = _refuse  # type: ignore[method-assign]
        return executor

    def name_of(self, order: CaseOrder, name: str) -> str:
        """Return the name that has a level: the revision of the executor."""
        del order
        return name

    def draw(self, name: str, order: CaseOrder, number: int) -> LaunchReport:
        """Return a launch of the revision `name`."""
        self.launches.append(name)
        self.clock.advance(self.launch_s)
        level = self.levels[name]
        self.on_launch(name)
        if level < 0 or self.fails.get(name) == order.case.mode:
            return LaunchReport(outcome=Outcome.INACCURATE, reason="far off")
        if name not in self._draws:
            seed = 1 + len(self._draws)
            self._draws[name] = draw_latencies(level, launch_sd=0.01, seed=seed)
        report = self._draws[name](order, number)
        breaks = RawMetric(samples=(round(1000 * level),), method="counted")
        return LaunchReport(
            outcome=report.outcome, metrics={**report.metrics, "graph_breaks": breaks}
        )

    def _amend(self, name: str, result: CaseResult) -> CaseResult:
        if not self.with_kernels or result.outcome is not Outcome.OK:
            return result
        paths = ("layers.0", "extra") if self.levels[name] > SLOW_S else ("layers.0",)
        return replace(result, kernels=(product(*paths, lines={"extra": "/home/net.py:21"}),))

    def bisect(self, *arguments: str) -> Any:
        """Return the document of `hud bisect --json`, whatever its exit code."""
        result = self.hud("bisect", *arguments, "--json")
        assert result.stdout, result.stderr
        return json.loads(result.stdout)


def _refuse() -> Mapping[str, Any]:
    raise ExecutorError("it has no torch")


class CommitTerminal(BisectTerminal):
    """A terminal in a repository whose commits have the level in their `level.txt`."""

    def __init__(self, folder: Path, levels: Mapping[str, float]) -> None:
        super().__init__(folder, {})
        self.repository = folder / "repo"
        self.repository.mkdir()
        config = folder / "hud.toml"
        config.write_text(config.read_text().replace('"net.py"', '"repo/models/net.py"'))
        git(self.repository, "init", "--quiet")
        (self.repository / "models").mkdir()
        self.commits: dict[str, str] = {}
        for name, level in levels.items():
            (self.repository / "models" / "net.py").write_text(f"# {name}\n")
            (self.repository / "level.txt").write_text(str(level))
            git(self.repository, "add", "--all")
            git(self.repository, "commit", "--quiet", "--message", name)
            self.commits[name] = git(self.repository, "rev-parse", "HEAD")

    def name_of(self, order: CaseOrder, name: str) -> str:
        """Return the subject of the commit whose checkout is launched."""
        checkout = order.workload.checkout
        assert checkout is not None
        assert checkout.repository == str(self.repository)
        folder = Path(checkout.folder)
        # The worker would import the same file of that checkout.
        assert order.workload.build == str(folder / "models" / "net.py")
        name = (folder / "models" / "net.py").read_text().strip("# \n")
        self.levels[name] = float((folder / "level.txt").read_text())
        return name

    def ends(self, good: str, bad: str) -> tuple[str, ...]:
        """Return the options for the commits from `good` to `bad`."""
        return ("--repo", "repo", "--good", self.commits[good], "--bad", self.commits[bad])


def git(folder: Path, *arguments: str) -> str:
    """Return git's output."""
    identity = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    date = "2026-03-04T05:06:07+00:00"
    # With both dates, the names of the commits are the same in each run of the tests.
    environment = {**os.environ, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    answer = subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    return answer.stdout.strip()
