"""The time of one case of a comparison of commits."""

from __future__ import annotations

from compile_hud.runner.bisect.commit_comparison import pair_settings
from compile_hud.runner.execution.paired_launches import CaseTimer
from compile_hud.runner.protocol.messages import MeasureSettings
from tests.support.fakes import FakeClock


def test_a_pair_that_would_end_too_late_is_not_begun() -> None:
    clock = FakeClock()
    timer = CaseTimer(100, now=clock)
    # The first pair compiles cold; what the others take decides.
    for number, took_s in enumerate((60, 15, 15), start=1):
        clock.advance(took_s)
        timer.count(number)
        assert timer.is_up() is (number == 3 or number == 1)
    assert (timer.num_pairs, timer.spent_s()) == (3, 90)


def test_what_decides_nothing_between_commits_is_left_out() -> None:
    settings = pair_settings(MeasureSettings(timeout_s=10), case_s=180)
    assert (settings.num_launches, settings.sweep, settings.energy) == (2, False, False)
    recorded = pair_settings(
        MeasureSettings(memory_snapshot=True, compile_trace="always"), case_s=9
    )
    assert (recorded.memory_snapshot, recorded.compile_trace) == (False, "never")
    # The limit of the comparison ends the case.
    assert settings.timeout_s == 360
