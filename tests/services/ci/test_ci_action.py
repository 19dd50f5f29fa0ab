"""The steps of the GitHub Action and the GitLab snippet, run unchanged in bash."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from syrupy.assertion import SnapshotAssertion

from tests.support.runs.bisection import git
from tests.support.servers.github_server import Repository, github_server

ROOT = Path(__file__).parents[3]
ACTION = ROOT / ".github" / "actions" / "compare" / "action.yml"
# `hud` with a fake executor: the first line of `latencies` is how slow the next one made is.
HUD = """
import os, sys
from pathlib import Path
from compile_hud.runner.cli.main import main
from compile_hud.runner.workspace import Dependencies
from tests.support.fakes import FakeExecutor, draw_latencies

def draw(order, number):
    level = float((Path(order.workload.checkout.folder) / "level.txt").read_text())
    return draw_latencies(level, launch_sd=0.01, seed=number)(order, number)

def make_executor(**_):
    if Path("level.txt").exists():
        return FakeExecutor(draw=draw)
    latencies = Path("latencies").read_text().split()
    Path("latencies").write_text(" ".join(latencies[1:]))
    return FakeExecutor(latency_s=float(latencies[0]))

env = {**os.environ, "HUD_LOCK_DIR": "locks"}
main(obj=Dependencies(make_executor=make_executor, has_gpu=lambda: False, env=env))
"""
CONFIG = """
[machine]
name = "box"
[run]
reference_cases = false
[suites.mine]
models = "net"
modes = ["eager"]
[models.net]
build = "net.py"
phases = ["inference"]
"""


class Job:
    """A checkout in which the steps of the action run, one job after the other."""

    def __init__(self, folder: Path, *, repository: Repository) -> None:
        self.folder = folder / "checkout"
        self.repository = repository
        self.summary = ""
        origin = folder / "origin.git"
        for command in (["init", "-q", "--bare", origin], ["clone", "-q", origin, self.folder]):
            subprocess.run(["git", *command], check=True, capture_output=True)
        (self.folder / "hud.toml").write_text(CONFIG)
        (self.folder / "net.py").write_text("# Pretended workers do not read it.\n")
        (folder / "hud.py").write_text(HUD)
        self.hud = f"{sys.executable} {folder / 'hud.py'}"

    def run(self, *latencies: float, **inputs: str) -> int:
        """Run the steps until one fails and return its status."""
        (self.folder / "latencies").write_text(" ".join(map(str, latencies)))
        action = yaml.safe_load(ACTION.read_text(encoding="ascii"))
        values = {name: item["default"] for name, item in action["inputs"].items()}
        arguments = {name.replace("_", "-"): value for name, value in inputs.items()}
        assert arguments.keys() <= values.keys()
        variables = {f"inputs.{name}": value for name, value in {**values, **arguments}.items()}
        variables |= {"inputs.hud": self.hud, "inputs.suite": "mine", "inputs.token": "secret"}
        variables["github.event.pull_request.number"] = "7"
        self.summary = ""
        for step in action["runs"]["steps"]:
            condition = step.get("if", "${{ true }}")
            if re.search(r"'true'", condition) and variables["inputs.save"] != "true":
                continue
            status = self._step(step, variables)
            if status:
                return status
        return 0

    def _step(self, step: dict[str, Any], variables: dict[str, str]) -> int:
        temp = self.folder.parent
        output, summary = temp / "output", temp / "summary"
        for path in (output, summary):
            path.write_text("")
        expression = re.compile(r"\$\{\{ (.*?) \}\}")
        env = {
            name: expression.sub(lambda match: variables.get(match[1], ""), text)
            for name, text in step["env"].items()
        }
        done = subprocess.run(
            # As https://docs.github.com/actions says of `shell: bash`.
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.folder,
            env={
                **{
                    key: value for key, value in os.environ.items() if key[:3] not in ("GIT", "HUD")
                },
                "PYTHONPATH": f"{ROOT}:{ROOT}/src",
                "RUNNER_TEMP": str(temp),
                "GITHUB_OUTPUT": str(output),
                "GITHUB_STEP_SUMMARY": str(summary),
                "GITHUB_API_URL": self.repository.url,
                "GITHUB_REPOSITORY": "me/models",
                **env,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        sys.stderr.write(done.stdout + done.stderr)
        for line in output.read_text().splitlines():
            name, _, value = line.partition("=")
            variables[f"steps.{step['id']}.outputs.{name}"] = value
        self.summary += summary.read_text(encoding="utf-8")
        return done.returncode


def bodies(repository: Repository) -> list[str]:
    return [comment["body"] for comment in repository.comments.get(7, [])]


@pytest.mark.nightly
def test_pull_requests_are_held_against_a_branch_and_suspects_measured_again(
    tmp_path: Path, words: SnapshotAssertion
) -> None:
    with github_server() as repository:
        job = Job(tmp_path, repository=repository)
        branch = {"baseline_branch": "hud-baseline"}
        # The default branch: nothing to compare with yet, and the result is kept.
        assert job.run(0.010, save="true", **branch) == 0
        assert job.summary == words
        assert bodies(repository) == []
        # A pull request that is slower, and slower again when it is measured again.
        assert job.run(0.020, 0.020, **branch) == 1
        assert "### Compile HUD: 1 regression" in job.summary
        assert "re-measured&#58; confirmed" in job.summary
        (first,) = bodies(repository)
        assert first.endswith(job.summary)
        # The next push: slower for a moment only.
        assert job.run(0.020, 0.010, **branch) == 0
        assert "### Compile HUD: 0 regression" in job.summary
        (second,) = bodies(repository)
        assert second.endswith(job.summary)
        heads = subprocess.run(
            ["git", "ls-remote", "--heads", "origin"],
            cwd=job.folder,
            check=True,
            capture_output=True,
            text=True,
        )
        assert heads.stdout.split()[1::2] == ["refs/heads/hud-baseline"]


def test_two_toolchains_are_measured_in_one_job(tmp_path: Path) -> None:
    with github_server() as repository:
        job = Job(tmp_path, repository=repository)
        assert job.run(0.010, 0.020, toolchains="current current", comment="") == 1
        assert "### Compile HUD: 1 regression" in job.summary
        assert bodies(repository) == []


def commit(job: Job, level_s: float) -> None:
    """Commit a change after which the model takes `level_s` seconds."""
    (job.folder / "level.txt").write_text(str(level_s))
    (job.folder / ".gitignore").write_text(".hud\nlocks\nlatencies\n")
    git(job.folder, "add", "--all")
    git(job.folder, "commit", "--quiet", "--message", "change")


@pytest.mark.parametrize(
    ("level_s", "status", "outcome"), [(0.02, 1, "failed"), (0.01, 0, "passed")]
)
def test_a_branch_is_measured_next_to_its_base_in_one_job(
    tmp_path: Path, level_s: float, status: int, outcome: str
) -> None:
    with github_server() as repository:
        job = Job(tmp_path, repository=repository)
        git(job.folder, "checkout", "--quiet", "-b", "trunk")
        commit(job, 0.01)
        git(job.folder, "push", "--quiet", "origin", "trunk")
        git(job.folder, "checkout", "--quiet", "-b", "topic")
        git(job.folder, "branch", "--quiet", "--delete", "--force", "trunk")
        (job.folder / "new.py").touch()
        commit(job, level_s)
        assert job.run(base_ref="trunk", model="n*") == status
        head, sentence, commits, seen = job.summary.split("\n\n")[:4]
        assert head == f"### Compile HUD: {outcome}"
        assert sentence.startswith("<code>net</code>: <code>latency ")
        assert " against " in commits
        assert seen.startswith("could have seen ")
        assert "<details><summary>" in job.summary
        assert ("**regression**" in job.summary) is (outcome == "failed")
        (body,) = bodies(repository)
        assert body.endswith(job.summary)


@pytest.mark.parametrize(("fail_on", "status"), [("regression", 0), ("inconclusive", 3)])
def test_what_cannot_be_told_fails_where_it_should(
    tmp_path: Path, fail_on: str, status: int, words: SnapshotAssertion
) -> None:
    with github_server() as repository:
        job = Job(tmp_path, repository=repository)
        git(job.folder, "checkout", "--quiet", "-b", "trunk")
        commit(job, 0.01)
        git(job.folder, "push", "--quiet", "origin", "trunk")
        (job.folder / "new.py").touch()
        inputs = {"base_ref": "trunk", "fail_on": fail_on, "comment": "", "fail_above": "0.1%"}
        assert job.run(minutes="0.05", **inputs) == status
        assert job.summary.splitlines()[0] == words


def test_the_document_lists_every_input() -> None:
    action = yaml.safe_load(ACTION.read_text(encoding="ascii"))
    text = (ROOT / "docs" / "how-to" / "ci.md").read_text(encoding="ascii")
    defaults = re.findall(r"^\| `([a-z-]+)` \|.*\|([^|]*)\|$", text, flags=re.MULTILINE)
    assert [name for name, _ in defaults] == list(action["inputs"])
    for name, default in defaults:
        if name != "token":
            assert default.strip("` ") == action["inputs"][name]["default"]


@pytest.mark.parametrize("has_baseline", [True, False])
def test_the_snippet_for_gitlab_calls_what_there_is(
    tmp_path: Path, has_baseline: bool, words: SnapshotAssertion
) -> None:
    text = (ROOT / "docs" / "how-to" / "ci.md").read_text(encoding="ascii")
    (snippet,) = re.findall(r"<!-- gitlab -->\n```yaml\n(.*?)```", text, flags=re.DOTALL)
    script = "\n".join(yaml.safe_load(snippet)["performance"]["script"])
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "hud").write_text('#!/bin/sh\necho "$*" >> calls\n')
    content = "echo x > hud-baseline.json" if has_baseline else "exit 22"
    (programs / "curl").write_text(f"#!/bin/sh\n{content}\n")
    for path in programs.iterdir():
        path.chmod(0o755)
    env = {"PATH": f"{programs}:{os.environ['PATH']}"}
    subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, env=env, check=True)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[0] == words
    assert calls[1:] == [
        "compare hud-baseline.json hud-result.json --fail-above 5% --confirm 3 --markdown hud.md"
    ] * int(has_baseline)


@pytest.mark.nightly
def test_a_baseline_may_be_the_previous_run_of_the_store_once_there_is_one(
    tmp_path: Path, words: SnapshotAssertion
) -> None:
    with github_server() as repository:
        job = Job(tmp_path, repository=repository)
        assert job.run(0.010, baseline="previous", comment="") == 0
        assert job.summary == words
        assert job.run(0.020, 0.020, baseline="previous", comment="") == 1
        assert "### Compile HUD: 1 regression" in job.summary
