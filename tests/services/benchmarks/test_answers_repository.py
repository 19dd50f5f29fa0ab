"""The repositories in which slowdowns are planted, and how their trials are counted."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchmarks.answers.peer_tools import MIN_SAMPLING_S, sampling_s
from benchmarks.answers.planted_repository import BLOCKS, make_repository
from benchmarks.answers.repository import OURS, planned, summarise


@pytest.mark.parametrize("slowdown_pct", list(BLOCKS))
def test_the_second_commit_adds_the_stated_work(tmp_path: Path, slowdown_pct: int) -> None:
    before, after = BLOCKS[slowdown_pct]
    assert after / before == 1 + slowdown_pct / 100
    repository = make_repository(tmp_path, slowdown_pct=slowdown_pct)
    for commit, depth, checkout in zip(
        (repository.base, repository.head), (before, after), repository.checkouts, strict=True
    ):
        code = subprocess.run(
            ["git", "-C", str(repository.folder), "show", f"{commit}:models/depth.py"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert code.endswith(f"DEPTH = {depth}\n")
        assert (checkout / "models" / "depth.py").read_text() == code


def test_trials_of_all_sizes_take_turns() -> None:
    order = list(planned(1, num_same=2))
    assert order == [0, 5, 8, 12, 15, 0]
    assert list(planned(2, num_same=1, sizes=[0, 8])) == [0, 8, 8]


def test_a_tool_may_sample_what_is_left_of_the_time_after_its_starts() -> None:
    assert sampling_s(100, num_processes=4) == 17
    assert sampling_s(1, num_processes=4) == MIN_SAMPLING_S


def test_a_row_has_the_share_of_trials_that_were_called() -> None:
    answers = [
        {"tool": OURS, "is_regression": called, "ratio": 1.05, "took_s": 60.0}
        for called in (True, True, False, True)
    ]
    (row,) = summarise([{"slowdown_pct": 5, "answers": [answer]} for answer in answers])
    assert (row["num_trials"], row["num_regressions"], row["share"]) == (4, 3, 0.75)
    low, high = row["share_interval"]
    assert low < 0.75 < high
