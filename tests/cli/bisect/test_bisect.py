"""hud bisect over toolchains and commits, with launches that are drawn."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.shared.model_code import code_change_text
from compile_hud.runner.bisect.record import Bisection
from compile_hud.runner.bisect.revisions import CommitRevisions
from compile_hud.runner.bisect.worktrees import Worktrees, find_root
from compile_hud.runner.errors import BisectError, RevisionUnusable
from compile_hud.runner.execution.cold_cache_sessions import LAUNCHES_FROM_COLD
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.protocol.messages import LaunchReport, RawMetric
from compile_hud.runner.system.locks import immediate_lock
from tests.support.fakes import FakeExecutor
from tests.support.runs import launches
from tests.support.runs.bisection import CASE, BisectTerminal, CommitTerminal, git

NAMES = ("t0", "t1", "t2", "t3", "t4", "t5", "t6")
STEP = dict(zip(NAMES, [0.010] * 4 + [0.012] * 3, strict=True))
OVER = ("--toolchain", *NAMES, *CASE)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_first_bad_toolchain_is_reported_with_its_evidence(
    folder: Path, words: SnapshotAssertion
) -> None:
    terminal = BisectTerminal(folder, STEP)
    result = terminal.hud("bisect", *OVER)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == words
    assert lines[1] == words
    assert lines[2].startswith("change: latency (CPU time) +2")
    assert lines[2] == words
    assert lines[3].startswith("between the ends: +2")
    assert lines[4] == words
    assert lines[5] == (words)


def test_every_step_is_reported_while_it_goes_on(folder: Path, words: SnapshotAssertion) -> None:
    lines = BisectTerminal(folder, STEP).hud("bisect", *OVER).stderr.splitlines()
    assert lines[0] == words
    assert lines[1] == words
    assert lines[2] == "step 1, 6 revisions left: t3"
    assert lines[3] == words
    *_, last_step, answer, next_command = lines
    assert last_step == words
    assert answer.startswith("  +2")
    assert next_command.startswith("next: hud ")


def test_the_same_in_json(folder: Path) -> None:
    document = BisectTerminal(folder, STEP).bisect(*OVER)
    assert document["ending"] == "found"
    assert document["verdict"] == "regression"
    assert document["first_bad"]["name"] == "t4"
    assert document["last_good"]["name"] == "t3"
    low, high = document["interval_pct"]
    assert low < document["change_pct"] < high
    assert low < 20 < high
    assert document["num_pairs"] == document["check"]["num_pairs"] >= 4
    assert document["error_bound"] == pytest.approx(4 * 0.002)
    assert [step["place"] for step in document["steps"]] == [3, 4]
    assert document["suspects"] == ["t4"]


def test_the_text_has_the_change_and_the_interval_of_the_json(folder: Path) -> None:
    text = BisectTerminal(folder, STEP).hud("bisect", *OVER).stdout
    document = BisectTerminal(folder, STEP).bisect(*OVER)
    (line,) = (line for line in text.splitlines() if line.startswith("change: "))
    change, low, high, before, after = (
        float(number) for number in re.findall(r"[-+]?\d+\.\d+", line)
    )
    expected = (document["change_pct"], *document["interval_pct"])
    assert (change, low, high) == pytest.approx(expected, abs=0.06)
    # Both levels have three digits.
    assert 100 * (after / before - 1) == pytest.approx(change, abs=1)


def test_an_improvement_is_found_as_well(folder: Path, words: SnapshotAssertion) -> None:
    terminal = BisectTerminal(folder, {**STEP, "t5": 0.007, "t6": 0.007, "t4": 0.010})
    result = terminal.hud("bisect", *OVER)
    assert result.stdout.splitlines()[0] == words


def test_ends_that_do_not_differ_are_refused(folder: Path, words: SnapshotAssertion) -> None:
    terminal = BisectTerminal(folder, dict.fromkeys(NAMES, 0.010) | {"t3": 0.02})
    result = terminal.hud("bisect", *OVER)
    assert result.exit_code == 1
    assert result.stdout == words
    assert result.stderr == words
    assert set(terminal.launches) == {"t0", "t6"}


def test_a_small_difference_needs_a_small_floor(folder: Path, words: SnapshotAssertion) -> None:
    levels = {"t0": 0.010, "t1": 0.010, "t2": 0.0103}
    over = ("--toolchain", "t0", "t1", "t2", *CASE)
    result = BisectTerminal(folder, levels).hud("bisect", *over)
    assert result.exit_code == 1
    assert result.stdout == words
    document = BisectTerminal(folder, levels).bisect(*over, "--floor", "1%")
    assert document["first_bad"]["name"] == "t2"
    assert document["repro"].endswith(" --floor 1%")


def test_undecided_ends_are_reported(folder: Path, words: SnapshotAssertion) -> None:
    terminal = BisectTerminal(folder, {"t0": 0.010, "t1": 0.0104})
    result = terminal.hud("bisect", "--toolchain", "t0", "t1", *CASE, "--max-launches", "2")
    assert result.exit_code == 1
    assert result.stdout == words


def test_two_revisions_need_no_search(folder: Path) -> None:
    terminal = BisectTerminal(folder, {"t0": 0.010, "t1": 0.015})
    document = terminal.bisect("--toolchain", "t0", "t1", *CASE)
    assert document["first_bad"]["name"] == "t1"
    assert document["num_pairs"] == document["ends"]["num_pairs"]
    assert document["steps"] == []


def test_what_cannot_be_started_is_skipped_and_leaves_a_range(
    folder: Path, words: SnapshotAssertion
) -> None:
    terminal = BisectTerminal(folder, {**STEP, "t3": 0, "t4": 0})
    result = terminal.hud("bisect", *OVER)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0] == words
    assert [line.split()[0] for line in lines[1:4]] == ["t3", "t4", "t5"]
    assert lines[4].startswith("last good revision: t2")
    assert lines == words


def test_a_case_that_fails_on_the_way_is_skipped(folder: Path) -> None:
    terminal = BisectTerminal(folder, {**STEP, "t3": -1})
    document = terminal.bisect(*OVER)
    assert document["ending"] == "range"
    assert document["suspects"] == ["t3", "t4"]
    (step,) = (step for step in document["steps"] if step["mark"] == "skipped")
    assert step["reason"] == "far off"


def test_an_end_that_does_not_start_stops_it(folder: Path, words: SnapshotAssertion) -> None:
    result = BisectTerminal(folder, {**STEP, "t0": 0}).hud("bisect", *OVER)
    assert result.exit_code == 2
    assert result.stderr == words


def test_an_end_that_fails_leads_to_the_metric_for_it(
    folder: Path, words: SnapshotAssertion
) -> None:
    result = BisectTerminal(folder, {**STEP, "t6": -1}).hud("bisect", *OVER)
    assert result.exit_code == 2
    assert result.stderr == words


def test_the_revision_that_broke_a_case_is_found(folder: Path, words: SnapshotAssertion) -> None:
    levels = {name: 0.01 if name < "t5" else -1.0 for name in NAMES}
    result = BisectTerminal(folder, levels).hud("bisect", *OVER, "--metric", "outcome")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].startswith("first bad revision: t5")
    assert lines[2] == words
    assert lines[-1].endswith(" --metric outcome")
    assert not [line for line in lines if line.startswith("chance of")]


def test_counts_are_searched_exactly(folder: Path) -> None:
    document = BisectTerminal(folder, STEP).bisect(*OVER, "--metric", "graph_breaks")
    assert document["first_bad"]["name"] == "t4"
    assert document["ends"]["num_pairs"] == 4
    assert document["error_bound"] is None


def test_a_metric_that_the_case_does_not_have_is_reported(
    folder: Path, words: SnapshotAssertion
) -> None:
    terminal = BisectTerminal(folder, STEP)
    result = terminal.hud("bisect", *OVER, "--metric", "peak_bytes")
    assert result.exit_code == 2
    assert result.stderr == words
    # More launches would not bring it.
    assert len(terminal.launches) == 8


def test_a_change_in_several_steps_is_not_blamed_on_one(
    folder: Path, words: SnapshotAssertion
) -> None:
    levels = {name: 0.010 * 1.06**index for index, name in enumerate(NAMES)}
    result = BisectTerminal(folder, levels).hud("bisect", *OVER)
    assert result.exit_code == 1
    first = result.stdout.splitlines()[0]
    assert first == words


class ColdTerminal(BisectTerminal):
    """A terminal whose first launches of a session show the time of a cold compile."""

    def draw(self, name: str, order: CaseOrder, number: int) -> LaunchReport:
        report = super().draw(name, order, number)
        names = ("compile_cold_s", "sweep_recompiles") if number == 0 else ("compile_warm_s",)
        first = RawMetric(samples=report.metrics["latency_s"].samples[:1], method="wall")
        return LaunchReport(outcome=report.outcome, metrics=dict.fromkeys(names, first))


@pytest.mark.parametrize("metric", ["compile_cold_s", "compile_warm_s", "sweep_recompiles"])
def test_each_launch_of_what_first_launches_show_is_one_from_an_empty_cache_on(
    folder: Path, metric: str
) -> None:
    levels = {name: 0.010 if name < "t4" else 0.030 for name in NAMES}
    terminal = ColdTerminal(folder, levels)
    document = terminal.bisect(*OVER, "--metric", metric)
    assert document["first_bad"]["name"] == "t4"
    executor = terminal.executors[0]
    assert {session.num_launches for session in executor.sessions} == {LAUNCHES_FROM_COLD[metric]}
    assert all(session.is_closed for session in executor.sessions)


def test_a_step_has_its_time(folder: Path) -> None:
    levels = {"t0": 0.010, "t1": 0.0104}
    terminal = BisectTerminal(folder, levels)
    terminal.launch_s = 30.0
    result = terminal.hud("bisect", "--toolchain", "t0", "t1", *CASE, "--step-minutes", "10")
    # Six pairs take 6 minutes, the next look would end after 9, the one after it beyond 10.
    assert "9 pairs" in result.stdout
    assert len(terminal.launches) == 18


def test_what_was_measured_before_an_exception_is_not_measured_again(
    folder: Path, words: SnapshotAssertion
) -> None:
    terminal = BisectTerminal(folder, STEP)
    terminal.levels["t4"] = float("nan")
    with pytest.raises(ValueError, match="nan|NaN|finite"):
        raise terminal.hud("bisect", *OVER).exception or AssertionError("it did not fail")
    before = terminal.launches.copy()
    terminal.levels["t4"] = 0.012
    terminal.launches.clear()
    terminal._draws.clear()
    result = terminal.hud("bisect", "--resume")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("first bad revision: t4")
    assert "t6" in before
    assert "t3" in before
    # Neither the ends nor the first step again: only t4, then the check against t3.
    assert set(terminal.launches) == {"t0", "t3", "t4"}
    assert terminal.hud("bisect", "--resume").stderr == words


def test_one_that_has_ended_can_be_shown_again(folder: Path) -> None:
    terminal = BisectTerminal(folder, STEP)
    first = terminal.hud("bisect", *OVER)
    document = terminal.bisect("--resume", one_file(folder).stem[:6])
    terminal.launches.clear()
    again = terminal.hud("bisect", "--resume", document["id"])
    assert again.stdout == first.stdout
    assert terminal.launches == []


def one_file(folder: Path) -> Path:
    (path,) = (folder / ".hud" / "bisect").glob("*.json")
    return path


def test_what_is_stored_comes_back_as_it_was(folder: Path) -> None:
    BisectTerminal(folder, {**STEP, "t3": 0}).hud("bisect", *OVER)
    document = json.loads(one_file(folder).read_text())
    assert Bisection.from_json(document).to_json() == document


@pytest.mark.parametrize(
    ("content", "message"),
    [("{", "is not whole JSON"), ('{"schema_version": 9}', "schema_version is 9, not 1")],
)
def test_a_damaged_file_is_reported_by_name(
    folder: Path, content: str, message: str, words: SnapshotAssertion
) -> None:
    terminal = BisectTerminal(folder, STEP)
    (folder / ".hud" / "bisect").mkdir(parents=True)
    (folder / ".hud" / "bisect" / "x.json").write_text(content)
    result = terminal.hud("bisect", "--resume")
    assert result.exit_code == 2
    assert result.stderr == words
    assert message in result.stderr


def test_two_at_a_time_are_refused(folder: Path, words: SnapshotAssertion) -> None:
    terminal = BisectTerminal(folder, STEP)
    lock = folder / ".hud" / "bisect" / ".lock"
    with immediate_lock(lock, on_conflict=lambda _pid: AssertionError()):
        result = terminal.hud("bisect", *OVER)
    assert result.exit_code == 2
    assert result.stderr == words


@pytest.mark.parametrize(
    "arguments",
    [
        ("--toolchain", "t0", *CASE),
        ("--toolchain", "t0", "t0", *CASE),
        ("--toolchain", "t0", "tx", *CASE),
        ("--toolchain", "t0", "t*", *CASE),
        ("--toolchain", "t0", "t1", "--model", "net"),
        CASE,
        ("t0", *CASE),
        ("--good", "a", *CASE),
        ("--repo", ".", "--good", "a", *CASE),
        ("--torch", "2.12.0", "--toolchain", "t0", *CASE),
        ("--resume", "x", "--model", "net"),
        ("--resume", "x", "--max-launches", "80"),
        ("--resume", "x", "--metric", "latency_s"),
        ("--resume", "x"),
        ("--toolchain", "t0", "t1", *CASE, "--metric", "flops"),
    ],
)
def test_an_impossible_bisection_is_refused(
    folder: Path, arguments: tuple[str, ...], words: SnapshotAssertion
) -> None:
    terminal = BisectTerminal(folder, STEP)
    result = terminal.hud("bisect", *arguments)
    assert result.exit_code == 2
    assert result.stderr == words
    assert terminal.executors == []


SUBJECTS = ("begin", "two", "three", "four", "five", "six")
COMMITS = dict(zip(SUBJECTS, [0.010, 0.010, 0.010, 0.013, 0.013, 0.013], strict=True))


@pytest.fixture
def repository(folder: Path) -> CommitTerminal:
    return CommitTerminal(folder, COMMITS)


def state_of(terminal: CommitTerminal) -> list[str]:
    """Return what the user can see of the repository."""
    return [
        git(terminal.repository, "status", "--porcelain=v2", "--branch"),
        git(terminal.repository, "worktree", "list"),
        git(terminal.repository, "branch", "--all"),
        git(terminal.repository, "stash", "list"),
    ]


def test_the_first_bad_commit_is_reported_by_name(
    repository: CommitTerminal, words: SnapshotAssertion
) -> None:
    (repository.repository / "level.txt").write_text("99")
    (repository.repository / "new.txt").touch()
    before = state_of(repository)
    result = repository.hud("bisect", *repository.ends("begin", "six"), *CASE)
    assert result.exit_code == 0, result.output
    commit = repository.commits["four"]
    first, where, last = result.stdout.splitlines()[:3]
    assert (commit[:10] in first, commit in where) == (True, True)
    assert repository.commits["three"][:10] in last
    named = [
        re.sub(r"\b[0-9a-f]{40}\b|\b[0-9a-f]{10}\b", "COMMIT", line)
        for line in (first, where, last)
    ]
    assert named == words
    assert f"--good {repository.commits['three']} --bad {commit} --model net" in result.stdout
    cause = next(line for line in result.stdout.splitlines() if line.startswith("cause: "))
    old, new = (repository.commits[name][:10] for name in ("three", "four"))
    assert cause == f"cause: {code_change_text(old, new)}"
    # What is not committed is neither measured nor touched, and no worktree is left.
    assert 99.0 not in repository.levels.values()
    assert state_of(repository) == before
    assert not list((repository.folder / ".hud" / "bisect" / "checkouts").iterdir())


def test_commits_share_one_worker_host(repository: CommitTerminal) -> None:
    repository.hud("bisect", *repository.ends("begin", "six"), *CASE)
    assert len(repository.executors) == 1
    assert not repository.executors[0].is_open


def test_ctrl_c_leaves_no_checkout_and_the_rest_is_continued(
    repository: CommitTerminal, words: SnapshotAssertion
) -> None:
    before = state_of(repository)
    seen: list[str] = []

    def interrupt(name: str) -> None:
        # In the middle of the first step.
        if name not in ("begin", "six") and not seen:
            seen.append(name)
            os.kill(os.getpid(), signal.SIGINT)

    repository.on_launch = interrupt
    result = repository.hud("bisect", *repository.ends("begin", "six"), *CASE)
    assert result.exit_code == 130, result.output
    files = one_file(repository.folder)
    assert result.stderr == words
    assert state_of(repository) == before
    document = json.loads(files.read_text())
    assert document["ends"] is not None
    assert document["steps"] == []
    repository.launches.clear()
    assert repository.hud("bisect", "--resume").exit_code == 0
    assert "six" not in repository.launches


def test_what_a_killed_bisection_left_is_removed(repository: CommitTerminal) -> None:
    before = state_of(repository)
    folder = repository.folder / ".hud" / "bisect" / "checkouts" / repository.commits["three"][:12]
    git(repository.repository, "worktree", "add", "--detach", str(folder), "HEAD")
    result = repository.hud("bisect", *repository.ends("begin", "six"), *CASE)
    assert result.exit_code == 0, result.output
    assert state_of(repository) == before


def test_a_commit_without_the_model_is_skipped(folder: Path) -> None:
    terminal = CommitTerminal(folder, {**COMMITS, "three": -1.0})
    document = terminal.bisect(*terminal.ends("begin", "six"), *CASE)
    assert document["ending"] == "range"
    assert [item[:7] for item in document["suspects"]] == [
        terminal.commits[name][:7] for name in ("three", "four")
    ]


def test_merged_branches_are_one_commit_each(folder: Path) -> None:
    terminal = CommitTerminal(folder, {"begin": 0.010})
    home = terminal.repository
    git(home, "branch", "trunk")
    git(home, "checkout", "--quiet", "-b", "side")
    for name in ("aside 1", "aside 2"):
        git(home, "commit", "--quiet", "--allow-empty", "--message", name)
    git(home, "checkout", "--quiet", "trunk")
    git(home, "commit", "--quiet", "--allow-empty", "--message", "on trunk")
    git(home, "merge", "--quiet", "--no-ff", "--message", "merged", "side")
    (home / "level.txt").write_text("0.015")
    (home / "models" / "net.py").write_text("# slow\n")
    git(home, "commit", "--quiet", "--all", "--message", "slow")
    options = ("--repo", "repo", "--good", terminal.commits["begin"], "--bad", "trunk")
    document = terminal.bisect(*options, *CASE)
    titles = [revision["title"] for revision in document["revisions"]]
    assert titles == ["begin", "on trunk", "merged", "slow"]
    assert document["first_bad"]["title"] == "slow"


def test_hooks_of_the_repository_are_not_run(repository: CommitTerminal) -> None:
    hook = repository.repository / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {repository.folder}/hooked\n")
    hook.chmod(0o755)
    repository.hud("bisect", *repository.ends("begin", "six"), *CASE)
    assert not (repository.folder / "hooked").exists()


def test_another_repository_in_the_environment_is_not_meant(
    repository: CommitTerminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    result = repository.hud("bisect", "--repo", "repo", "--good", "x", "--bad", "y", *CASE)
    # That of the environment does not exist, and this one has no such commit.
    assert "no commit 'x' in " in result.stderr


@pytest.mark.parametrize(
    ("repo", "good", "bad"),
    [
        ("repo", "HEAD", "HEAD"),
        ("repo", "HEAD", "HEAD~1"),
        ("repo", "HEAD", "no-such"),
        ("nowhere", "a", "b"),
        (".", "a", "b"),
    ],
)
def test_commits_that_cannot_be_bisected_are_reported(
    repository: CommitTerminal, repo: str, good: str, bad: str, words: SnapshotAssertion
) -> None:
    result = repository.hud("bisect", "--repo", repo, "--good", good, "--bad", bad, *CASE)
    assert result.exit_code == 2
    assert result.stderr == words


def test_a_model_of_the_zoo_is_of_no_other_repository(
    repository: CommitTerminal, words: SnapshotAssertion
) -> None:
    case = ("--model", "bert", "--mode", "eager")
    result = repository.hud("bisect", *repository.ends("begin", "six"), *case)
    assert result.exit_code == 2
    assert result.stderr == words


def test_a_commit_that_cannot_be_checked_out_is_unusable(
    repository: CommitTerminal, words: SnapshotAssertion
) -> None:
    worktrees = Worktrees(repository.repository, folder=repository.folder / "checkouts")
    order = launches.order("plain")
    revisions = CommitRevisions(
        ["0" * 40],
        repository=repository.repository,
        worktrees=worktrees,
        executor=FakeExecutor(),
        order=order,
    )
    with pytest.raises(RevisionUnusable) as caught:
        revisions.side(0)
    assert str(caught.value) == words
    assert not list((repository.folder / "checkouts").glob("*"))


def test_a_missing_git_is_reported(
    repository: CommitTerminal, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(BisectError) as caught:
        find_root(repository.repository)
    assert str(caught.value) == words


def test_a_folder_outside_of_a_repository_is_reported_with_the_option(tmp_path: Path) -> None:
    with pytest.raises(BisectError) as caught:
        find_root(tmp_path)
    assert caught.value.parameters == {"repository": tmp_path}
    assert str(caught.value).endswith(" with --repo")


def test_it_ends_with_the_kernels_of_the_first_bad_revision(
    folder: Path, words: SnapshotAssertion
) -> None:
    terminal = BisectTerminal(folder, STEP)
    terminal.with_kernels = True
    lines = terminal.hud("bisect", *OVER).stdout.splitlines()
    (number,) = (index for index, line in enumerate(lines) if line.startswith("cause: "))
    assert lines[number] == words
    assert lines[number + 1].split()[1:4] == ["us", "more_often", "aten::addmm:"]
    document = terminal.bisect("--resume", lines_id(terminal))
    assert document["check"]["kernels"]["rows"][0]["class"] == "more_often"


def lines_id(terminal: BisectTerminal) -> str:
    """Return the id of the one bisection that is kept."""
    (path,) = (terminal.folder / ".hud" / "bisect").glob("*.json")
    return path.stem
