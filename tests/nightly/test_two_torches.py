"""A second real torch, built by `hud toolchain add`, against the one that runs these tests."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result

from compile_hud.db.queries.runs import load_runs
from compile_hud.db.store import Store
from compile_hud.runner.cli.main import main
from compile_hud.runner.toolchains.registry import built_toolchains
from compile_hud.runner.workspace import Dependencies

# A minute or two.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

OTHER_TORCH = "2.12.0"
# A CUDA build with its libraries, 5 GB, and what pip downloads meanwhile.
NEEDED_BYTES = 8 << 30
MODEL = """
import torch


def build(_config):
    layers = (torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8))
    return torch.nn.Sequential(*layers)


def example_inputs(_config, *, seed):
    return {"input": torch.randn(4, 32, generator=torch.Generator().manual_seed(seed))}
"""
CONFIG = """
[run]
rounds = 6
budget_s = 0.5
reference_cases = false
sweep = false
[models.net]
build = "net.py"
"""
# Says nothing of the code here: there is no way to the package index, or not this version.
NOT_OUR_FAULT = ("the package index does not answer", "the package index has no torch", "no torch ")


class HudProject:
    """A folder with settings, in which `hud` is run for real."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "net.py").write_text(MODEL)
        (folder / "hud.toml").write_text(CONFIG)

    def hud(self, *arguments: str) -> Result:
        """Return the result of a command."""
        dependencies = Dependencies(env={"HUD_LOCK_DIR": os.environ["HUD_LOCK_DIR"]})
        config = ("--config", str(self.folder / "hud.toml"))
        return CliRunner().invoke(main, [*arguments, *config], obj=dependencies, prog_name="hud")

    def json(self, *arguments: str) -> Any:
        """Return what a command prints as JSON."""
        result = self.hud(*arguments, "--json")
        assert result.exit_code in (0, 1), result.output
        return json.loads(result.stdout)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HudProject]:
    """Yield a place with the toolchain `other`, and remove that afterwards."""
    checkout = HudProject(tmp_path_factory.mktemp("torches"))
    free = shutil.disk_usage(checkout.folder).free
    if free < NEEDED_BYTES:
        pytest.skip(f"a second torch needs {NEEDED_BYTES >> 30} GB of disk, {free >> 30} are free")
    result = checkout.hud("toolchain", "add", "other", "--torch", OTHER_TORCH)
    if result.exit_code and any(text in result.stderr for text in NOT_OUR_FAULT):
        if os.environ.get("CI"):
            pytest.fail(result.stderr)
        pytest.skip(result.stderr)
    assert result.exit_code == 0, result.output
    yield checkout
    assert checkout.hud("toolchain", "remove", "other").exit_code == 0
    assert built_toolchains(checkout.folder / ".hud") == {}


def test_both_torches_are_listed_and_work(project: HudProject) -> None:
    toolchains = {row["name"]: row for row in project.json("toolchain", "list")}
    assert toolchains["other"]["torch_version"].startswith(OTHER_TORCH)
    assert toolchains["current"]["torch_version"] == torch.__version__
    assert [row["works"] for row in toolchains.values()] == [True, True]


def test_two_torches_are_measured_in_turn_and_compared(project: HudProject) -> None:
    document = project.json(
        *("compare", "--toolchain", "current", "--toolchain", "other", "--device", "cpu"),
        *("--model", "net", "--mode", "eager", "--mode", "default"),
        *("--phase", "training", "--max-launches", "2"),
    )
    assert document["candidate"]["revision"].startswith(OTHER_TORCH)
    (versions,) = [item for item in document["environment"] if item["name"] == "torch_version"]
    assert versions["baseline"] == torch.__version__
    assert versions["candidate"].startswith(OTHER_TORCH)
    rows = {
        (row["case"]["phase"], row["case"]["variant"], row["metric"]): row
        for row in document["rows"]
    }
    # What training does, inference does as well, for as long again.
    places = [("training", mode) for mode in ("eager", "default")]
    outcomes = {name: rows[(*name, "outcome")]["reason"] for name in places}
    assert all(text.startswith("ok ") and "->" not in text for text in outcomes.values()), outcomes
    for name in places:
        assert rows[(*name, "latency_cpu_s")]["baseline"] > 0
        assert rows[(*name, "latency_cpu_s")]["candidate"] > 0
    # What is read from torch's private counters is there under both.
    for metric in ("compile_cold_s", "compile_warm_s", "graphs", "graph_breaks", "recompiles"):
        assert rows["training", "default", metric]["baseline"] is not None
        assert rows["training", "default", metric]["candidate"] is not None
    assert rows["training", "default", "graphs"]["candidate"] == 1
    runs = [item.run for item in load_runs(Store(f"duckdb:///{project.folder}/.hud/store.duckdb"))]
    assert {run.toolchain for run in runs} == {"current", "other"}
