"""hud compare --repo: two commits, with launches that are drawn."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.queries.runs import load_runs
from compile_hud.db.shared.model_code import code_change_text
from compile_hud.models_zoo.catalog.spec import ModelSpec
from compile_hud.runner.bisect.worktrees import commit_working_tree, find_base, find_commit
from compile_hud.runner.errors import BisectError
from compile_hud.runner.execution.model_commits import model_commits
from compile_hud.runner.system.locks import immediate_lock
from tests.support.runs.bisection import CommitTerminal, git

LEVELS = {"base": 0.010, "tidy": 0.010, "slower": 0.0115}


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommitTerminal:
    monkeypatch.chdir(tmp_path)
    terminal = CommitTerminal(tmp_path, LEVELS)
    config = tmp_path / "hud.toml"
    other = '[models.fails]\nbuild = "repo/models/net.py"\n'
    config.write_text(config.read_text().replace(other, ""))
    return terminal


def compare(terminal: CommitTerminal, *arguments: str) -> Any:
    """Return the document of `hud compare --repo repo --json`, whatever its exit code."""
    result = terminal.hud("compare", "--repo", "repo", *arguments, "--json")
    assert result.stdout, result.stderr
    return json.loads(result.stdout)


def main_row(document: Any) -> Any:
    """Return the row of the time that decides."""
    return next(row for row in document["rows"] if row["metric"] == "latency_cpu_s")


def test_a_slower_commit_exits_with_1(terminal: CommitTerminal, words: SnapshotAssertion) -> None:
    names = (terminal.commits["base"], terminal.commits["slower"])
    result = terminal.hud("compare", "--repo", "repo", *names)
    assert result.exit_code == 1, result.output
    sentence, resolution, *_ = result.stdout.splitlines()
    assert sentence.startswith("latency +1")
    short = [name[:10] for name in names]
    assert f"; cause: {code_change_text(*short)}" in sentence
    assert " at inference/default, " in sentence
    assert resolution == words
    # Each launch of one commit ran next to one of the other, which goes first in turn.
    assert terminal.launches[:4] == ["base", "slower", "slower", "base"]


def test_equal_commits_exit_with_0_and_nothing_is_stored(terminal: CommitTerminal) -> None:
    document = compare(terminal, terminal.commits["base"], terminal.commits["tidy"])
    assert document["failed"] is False
    assert main_row(document)["verdict"] == "unchanged"
    assert document["baseline"]["revision"] == terminal.commits["base"][:10]
    assert load_runs(terminal.store(), limit=5) == []


def test_the_default_mode_and_the_models_of_the_repository_are_measured(
    terminal: CommitTerminal,
) -> None:
    (terminal.folder / "other.py").touch()
    config = terminal.folder / "hud.toml"
    config.write_text(config.read_text() + '\n[models.other]\nbuild = "other.py"\n')
    document = compare(terminal, terminal.commits["base"], terminal.commits["tidy"])
    cases = [(item["case"]["model"], item["case"]["variant"]) for item in document["cases"]]
    assert cases == [("net", "default")]


def test_it_stops_when_the_time_of_the_case_is_over(
    terminal: CommitTerminal, words: SnapshotAssertion
) -> None:
    terminal.launch_s = 30.0
    # A minute a pair leaves three pairs, which cannot tell 2 %.
    names = (terminal.commits["base"], terminal.commits["tidy"])
    result = terminal.hud("compare", "--repo", "repo", *names, "--fail-above", "1%")
    assert len(terminal.launches) == 6
    assert result.exit_code == 3, result.output
    assert result.stdout == words
    terminal.launches.clear()
    compare(terminal, *names, "--fail-above", "1%", "--minutes", "5")
    assert len(terminal.launches) == 10


def test_files_as_they_are_are_compared_with_the_default_branch(terminal: CommitTerminal) -> None:
    home = terminal.repository
    git(home, "branch", "--force", "main", terminal.commits["tidy"])
    status = git(home, "status", "--porcelain")
    (home / "level.txt").write_text("0.015")
    (home / "new.py").write_text("# a file that git does not know yet\n")
    document = compare(terminal)
    assert document["baseline"]["revision"] == terminal.commits["tidy"][:10]
    label = document["candidate"]["revision"]
    assert label.startswith(f"{terminal.commits['slower'][:10]}+worktree(")
    assert main_row(document)["ratio"] == pytest.approx(1.5, rel=0.05)
    # Nothing is left behind in the user's repository.
    assert len(git(home, "worktree", "list").splitlines()) == 1
    assert git(home, "status", "--porcelain").splitlines() == [
        *status.splitlines(),
        "M level.txt",
        "?? new.py",
    ]
    assert compare(terminal)["candidate"]["revision"] == label


def test_the_model_of_a_working_tree_has_the_revision_that_a_run_records(
    terminal: CommitTerminal,
) -> None:
    (terminal.repository / "models" / "net.py").write_text("# tidy\nx = 1\n")
    document = compare(terminal, terminal.commits["tidy"])
    build = f"{terminal.repository}/models/net.py"
    spec = ModelSpec(name="net", family="own", build=build, summary="", sizes={})
    recorded = model_commits([spec])["net"]
    assert recorded.startswith(f"{terminal.commits['slower'][:10]}+dirty(")
    assert document["model_code_changes"] == [
        {"model": "net", "baseline": terminal.commits["tidy"][:10], "candidate": recorded}
    ]


def test_a_working_tree_has_new_files_and_no_large_or_ignored_ones(
    terminal: CommitTerminal,
) -> None:
    home = terminal.repository
    head = find_commit(home, "HEAD")
    assert commit_working_tree(home) == head
    (home / ".git" / "info").mkdir(exist_ok=True)
    (home / ".git" / "info" / "exclude").write_text("ignored.py\n")
    for name in ("ignored.py", "new [1].py"):
        (home / name).write_text("x = 1\n")
    (home / "weights.bin").write_bytes(b"0" * (1 << 21))
    commit = commit_working_tree(home)
    names = git(home, "ls-tree", "--name-only", "-r", commit.revision.name).splitlines()
    assert names == ["level.txt", "models/net.py", "new [1].py"]
    assert commit == commit_working_tree(home)
    assert git(home, "rev-parse", "HEAD") == head.revision.name


def test_the_base_is_where_the_branch_began(terminal: CommitTerminal) -> None:
    home, commits = terminal.repository, terminal.commits
    git(home, "checkout", "--quiet", "-b", "topic", commits["base"])
    git(home, "commit", "--quiet", "--allow-empty", "--message", "mine")
    tip = git(home, "rev-parse", "HEAD")
    assert find_base(home, commits["slower"], head=tip).revision.name == commits["base"]
    with pytest.raises(BisectError, match="--base"):
        find_base(home, "nowhere", head=tip)


def test_the_same_commit_twice_is_refused(terminal: CommitTerminal) -> None:
    commit = terminal.commits["base"]
    result = terminal.hud("compare", "--repo", "repo", commit, commit)
    assert result.exit_code == 2
    assert terminal.launches == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("--base", "main"),
        ("--minutes", "1", "--toolchain", "a", "--toolchain", "b"),
        ("--repo", "repo", "--base", "main", "a", "b"),
        ("--repo", "repo", "--toolchain", "a", "--toolchain", "b"),
        ("--repo", "repo", "--confirm", "1"),
        ("--repo", "repo", "--model", "bert"),
        ("--repo", "elsewhere"),
    ],
)
def test_what_does_not_go_together_is_refused(
    terminal: CommitTerminal, arguments: tuple[str, ...], words: SnapshotAssertion
) -> None:
    result = terminal.hud("compare", *arguments)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].replace(str(terminal.folder), "FOLDER") == words
    assert terminal.launches == []


def test_a_commit_that_fails_reports_it_and_exits_with_1(
    terminal: CommitTerminal, words: SnapshotAssertion
) -> None:
    (terminal.repository / "level.txt").write_text("-1")
    result = terminal.hud("compare", "--repo", "repo", "--base", terminal.commits["base"])
    assert result.exit_code == 1, result.output
    assert result.stdout.splitlines()[0] == words


def test_ctrl_c_ends_it_and_removes_the_checkouts(terminal: CommitTerminal) -> None:
    terminal.on_launch = lambda _name: os.kill(os.getpid(), signal.SIGINT)
    names = (terminal.commits["base"], terminal.commits["slower"])
    result = terminal.hud("compare", "--repo", "repo", *names)
    assert result.exit_code == 130
    assert len(git(terminal.repository, "worktree", "list").splitlines()) == 1


def test_one_comparison_at_a_time_uses_the_checkouts(terminal: CommitTerminal) -> None:
    path = terminal.folder / ".hud" / "compare" / ".lock"
    with immediate_lock(path, on_conflict=lambda _pid: AssertionError()):
        names = (terminal.commits["base"], terminal.commits["slower"])
        assert terminal.hud("compare", "--repo", "repo", *names).exit_code == 2


def test_the_kernels_of_both_ends_are_attached(
    terminal: CommitTerminal, words: SnapshotAssertion
) -> None:
    terminal.with_kernels = True
    names = (terminal.commits["base"], terminal.commits["slower"])
    result = terminal.hud("compare", "--repo", "repo", *names)
    assert result.stdout.splitlines()[0] == words
    assert result.stdout == words
    document = compare(terminal, *names)
    (case,) = document["cases"]
    assert [row["class"] for row in case["kernels"]["rows"]] == ["more_often"]
    # The kernels explain the latencies of the table.
    (row,) = (row for row in document["rows"] if row["metric"] == "latency_s")
    for side in ("baseline", "candidate"):
        assert case["kernels"][f"{side}_us"] == pytest.approx(1e6 * row[side], rel=1e-12)
