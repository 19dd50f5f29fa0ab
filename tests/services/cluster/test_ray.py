"""`hud run` and `hud release` with real nodes of a Ray cluster, all of them on this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from benchmarks.nodes import Finished, differences
from tests.support.runs.runs import wait_until
from tests.support.servers.ray_nodes import ROOT, RayNodes, ray_nodes

pytestmark = pytest.mark.slow

CONFIG = """
[run]
launches = 1
max_launches = 1
rounds = 3
budget_s = 0.2
kernels = false
"""
TOOLCHAINS = f"""
[toolchains]
again = "{sys.executable}"
"""
MODELS = ["albert", "bert", "distilbert", "roberta"]
PLAN = (
    *(argument for model in MODELS for argument in ("--model", model)),
    *("--mode", "eager", "--shape", "tiny", "--no-reference"),
)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayNodes]:
    with ray_nodes(tmp_path_factory.mktemp("nodes"), "alpha", "beta") as hosts:
        yield hosts


RAY = ("--executor", "ray", "--device", "cpu")
RUN = ("run", *RAY, "--json", "-")
RELEASE = ("release", "current", "again", *RAY, "--json")


class Driver:
    """A command that measures on a cluster, in a folder of its own."""

    def __init__(
        self, folder: Path, *arguments: str, nodes: RayNodes, command: Sequence[str] = RUN
    ) -> None:
        (folder / "hud.toml").write_text(CONFIG + TOOLCHAINS)
        self._json = folder / "out.json"
        self._stderr = folder / "stderr"
        # Whatever Ray has to say, standard output is the document and nothing else.
        with self._stderr.open("w") as stderr, self._json.open("w") as stdout:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "compile_hud.runner", *command, *arguments],
                cwd=folder,
                env={
                    **os.environ,
                    "PYTHONPATH": f"{ROOT}:{ROOT}/src",
                    "RAY_ADDRESS": nodes.address,
                },
                stdout=stdout,
                stderr=stderr,
            )

    def output(self) -> str:
        """Return its log so far."""
        return self._stderr.read_text()

    def wait_for(self, text: str) -> None:
        """Block until its log has `text`."""
        wait_until(lambda: text in self.output() or self.process.poll() is not None, limit_s=120.0)
        assert text in self.output(), self.output()

    def end(self, *, limit_s: float = 120.0) -> int:
        """Return its exit code."""
        return self.process.wait(limit_s)

    def document(self) -> Any:
        """Return its JSON document."""
        return json.loads(self._json.read_text())

    def runs(self) -> list[dict[str, Any]]:
        """Return the result documents."""
        content = self.document()
        documents: list[dict[str, Any]] = content if isinstance(content, list) else [content]
        return documents


def results_of(documents: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the models with their outcomes."""
    return sorted(
        (result["case"]["model"], result["outcome"])
        for document in documents
        for result in document["results"]
    )


def test_benchmark_of_nodes_distinguishes_results(words: SnapshotAssertion) -> None:
    one, other, none = (
        Finished(cases_s=1.0, whole_s=1.0, num_results={}, facts=facts)
        for facts in ({"a": {"num_kernels": 2.0}}, {"a": {"num_kernels": 3.0}}, {})
    )
    assert differences(one, one) == []
    assert differences(one, other) == words
    assert differences(none, one) == words


@pytest.mark.nightly
def test_two_nodes_share_a_plan_and_one_has_the_same_results(
    nodes: RayNodes, tmp_path: Path
) -> None:
    both = Driver(tmp_path, *PLAN, nodes=nodes)
    assert both.end() == 0, both.output()
    documents = both.runs()
    assert [document["run"]["machine"] for document in documents] == ["alpha", "beta"]
    assert all(document["results"] for document in documents)
    assert results_of(documents) == [(model, "ok") for model in MODELS]

    # The second of them is killed while it measures.
    folder = tmp_path / "killed"
    folder.mkdir()
    one = Driver(folder, *PLAN, nodes=nodes)
    one.wait_for("(beta)")
    wait_until(lambda: bool(nodes.processes("beta")))
    nodes.kill("beta")
    assert one.end() == 0, one.output()
    assert results_of(one.runs()) == results_of(documents)
    assert "machine beta" in one.output()
    wait_until(lambda: not nodes.processes("beta"))


@pytest.mark.nightly
def test_ctrl_c_kills_what_the_nodes_do_in_their_runtime_environment_and_resume_goes_on(
    nodes: RayNodes, tmp_path: Path
) -> None:
    environment = {"py_executable": sys.executable, "env_vars": {"HUD_BROUGHT": "along"}}
    path = tmp_path / "environment.json"
    path.write_text(json.dumps(environment))
    driver = Driver(tmp_path, *PLAN, "--runtime-env", str(path), nodes=nodes)
    driver.wait_for("alpha: ")
    brought = [Path(f"/proc/{pid}/environ").read_bytes() for pid in nodes.processes("alpha")]
    assert any(b"HUD_BROUGHT=along" in variables for variables in brought)
    driver.process.send_signal(signal.SIGINT)
    assert driver.end() == 130, driver.output()
    interrupted = driver.runs()
    assert all(document["run"]["state"] == "interrupted" for document in interrupted)
    wait_until(lambda: not nodes.processes("alpha"))

    again = Driver(tmp_path, "--resume", nodes=nodes)
    assert again.end() == 0, again.output()
    assert [document["run"]["id"] for document in again.runs()] == [
        document["run"]["id"] for document in interrupted
    ]
    assert results_of(again.runs()) == [(model, "ok") for model in MODELS]


@pytest.mark.nightly
def test_two_nodes_share_a_release_of_two_interpreters(nodes: RayNodes, tmp_path: Path) -> None:
    cases = (*(argument for model in MODELS for argument in ("--model", model)), "--mode", "eager")
    options = ("--shape", "tiny", "--phase", "inference", "--max-launches", "4")
    driver = Driver(tmp_path, *cases, *options, nodes=nodes, command=RELEASE)
    assert driver.end(limit_s=600.0) in (0, 1), driver.output()
    report = driver.document()
    assert report["sign_off"]["num_cases"] == len(MODELS)
    assert report["sign_off"]["num_unmeasured"] == report["sign_off"]["num_failing"] == 0
    assert [item["machine"] for item in report["machines"]] == ["alpha", "beta"]
    assert {row["case"]["model"] for row in report["rows"]} == set(MODELS)
    wait_until(lambda: not nodes.processes("alpha"))
