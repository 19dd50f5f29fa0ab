"""The progress of a run."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.components.page_frame import progress_html
from compile_hud.app.ui.progress import progress_of, running
from compile_hud.db.records.results import Outcome, RunState
from compile_hud.db.records.summaries import RunSummary
from tests.support.builders import START, make_case, make_run
from tests.support.texts import html_words

PLAN = [make_case(model) for model in ("bert", "vit", "unet", "llama")]


def summary(
    num_ok: int,
    *,
    num_failed: int = 0,
    worked_s: float = 30.0,
    heartbeat_at: datetime | None = None,
) -> RunSummary:
    """Return a run of four cases that is going."""
    return RunSummary(
        run=make_run(plan=PLAN),
        num_by_outcome={Outcome.OK: num_ok, Outcome.FAILED: num_failed},
        worked_s=worked_s,
        heartbeat_at=heartbeat_at,
    )


def test_time_left_follows_from_the_cases_so_far() -> None:
    progress = progress_of(summary(2, num_failed=1), now=START + timedelta(seconds=33))
    assert (progress.num_done, progress.num_planned) == (3, 4)
    assert progress.current == PLAN[3]
    assert progress.left_s == pytest.approx(10.0)


@pytest.mark.parametrize(("num_done", "left_s"), [(2, None), (3, 60.0), (4, 30.0)])
def test_eager_cases_say_nothing_of_compiled_ones(num_done: int, left_s: float | None) -> None:
    eager = [make_case(model, mode="eager") for model in ("bert", "vit")]
    plan = [*eager, make_case("bert"), make_case("vit"), make_case("unet")]
    going = RunSummary(
        run=make_run(plan=plan),
        num_by_outcome={Outcome.OK: num_done},
        worked_s=30.0 * (num_done - 2) if num_done > 2 else 2.0,
        heartbeat_at=None,
    )
    progress = progress_of(going, now=START + timedelta(seconds=33))
    assert progress.left_s == (None if left_s is None else pytest.approx(left_s))


def test_a_run_of_eager_cases_alone_says_when_it_ends() -> None:
    plan = [make_case(model, mode="eager") for model in ("bert", "vit", "unet")]
    going = RunSummary(
        run=make_run(plan=plan),
        num_by_outcome={Outcome.OK: 1},
        worked_s=5.0,
        heartbeat_at=None,
    )
    assert progress_of(going, now=START).left_s == pytest.approx(10.0)


def test_nothing_is_promised_before_the_first_result() -> None:
    progress = progress_of(summary(0), now=START + timedelta(seconds=5))
    assert progress.left_s is None
    assert progress.current == PLAN[0]


def test_all_done_has_no_current_case() -> None:
    assert progress_of(summary(4), now=START + timedelta(seconds=5)).current is None


def test_the_pause_of_a_resumed_run_counts_for_nothing() -> None:
    later = START + timedelta(hours=10)
    progress = progress_of(summary(1, worked_s=60.0, heartbeat_at=later), now=later)
    assert progress.elapsed_s == 60.0
    assert progress.left_s == pytest.approx(180.0)


def test_a_run_without_heartbeats_is_silent() -> None:
    late = START + timedelta(seconds=61)
    assert progress_of(summary(1), now=late).is_silent
    assert not progress_of(
        summary(1, heartbeat_at=START + timedelta(seconds=2)), now=late
    ).is_silent


def test_only_running_runs_are_running() -> None:
    ended = RunSummary(
        run=make_run("run-0", state=RunState.INTERRUPTED),
        num_by_outcome={},
        worked_s=0.0,
        heartbeat_at=None,
    )
    assert running((ended, summary(0))) == [summary(0)]


def test_progress_reads_as_a_sentence_over_a_bar(words: SnapshotAssertion) -> None:
    going = summary(1, heartbeat_at=START)
    html = progress_html(going, progress_of(going, now=START + timedelta(seconds=30)))
    assert '<a href="run?run=run-1">Run run-1</a> (quick, stable): ' in html
    assert html_words(html) == words
    assert 'style="width:25.0%"' in html


def test_a_silent_run_says_so_instead_of_promising(words: SnapshotAssertion) -> None:
    going = summary(1)
    html = progress_html(going, progress_of(going, now=START + timedelta(minutes=5)))
    assert html_words(html) == words
    assert "left" not in html


def test_a_run_without_cases_has_an_empty_bar() -> None:
    empty = RunSummary(run=make_run(plan=()), num_by_outcome={}, worked_s=0.0, heartbeat_at=START)
    assert "width:0.0%" in progress_html(empty, progress_of(empty, now=START))
