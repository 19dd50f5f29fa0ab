"""A folder in which `hud` is typed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from compile_hud.db.errors import CodedError
from compile_hud.db.store import Store
from compile_hud.runner.cli.main import main
from compile_hud.runner.toolchains.registry import Probe
from compile_hud.runner.workspace import Dependencies
from tests.support.fakes import FACTS, FakeClock, FakeExecutor

CONFIG = """
[machine]
name = "box"
[run]
reference_cases = false
[models.net]
build = "net.py"
[models.fails]
build = "net.py"
[suites.mine]
models = "net"
modes = ["eager", "default"]
"""


class Terminal:
    """A folder in which `hud` is typed; its executor is a fake."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = FakeClock()
        self.executors: list[FakeExecutor] = []
        self.latency_s = 0.010
        self.facts = dict(FACTS)
        self.on_execute: Any = lambda _order: None
        self.has_gpu = False
        self.devices: list[str] = []
        self.thread_counts: list[int] = []
        self.probe: Callable[[Path], Probe] = lambda _python: Probe(torch_version="2.13.0")
        # This is called with each executor and its interpreter before anything is executed.
        self.on_executor: Callable[[FakeExecutor, Path], None] = lambda _executor, _python: None
        (folder / "hud.toml").write_text(CONFIG)
        # The fake executor builds nothing of it.
        (folder / "net.py").touch()

    def make_executor(
        self, *, python: Path, state_dir: Path, device: str, num_threads: int = 1
    ) -> FakeExecutor:
        del state_dir
        self.devices.append(device)
        self.thread_counts.append(num_threads)
        executor = FakeExecutor(
            clock=self.clock,
            facts=self.facts,
            latency_s=self.latency_s,
            on_execute=self.on_execute,
        )
        self.executors.append(executor)
        self.on_executor(executor, python)
        return executor

    def hud(self, *arguments: str, env: Mapping[str, str] | None = None) -> Result:
        dependencies = Dependencies(
            make_executor=self.make_executor,
            now=self.clock,
            env={"HUD_LOCK_DIR": str(self.folder / "locks")},
            has_gpu=lambda: self.has_gpu,
            probe=lambda python: self.probe(python),
        )
        return CliRunner(env=env).invoke(main, list(arguments), obj=dependencies, prog_name="hud")

    def error(self, *arguments: str) -> CodedError:
        """Return the error that ends the command and that `hud` reports in one line."""
        error = self.hud(*arguments, env={"HUD_DEBUG": "1"}).exception
        assert isinstance(error, CodedError), error
        return error

    def json(self, *arguments: str) -> Any:
        result = self.hud(*arguments)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def store(self) -> Store:
        return Store(f"duckdb:///{self.folder / '.hud' / 'store.duckdb'}", now=self.clock)
