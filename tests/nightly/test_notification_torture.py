"""Bad servers and killed senders lose nothing; `benchmarks.notifications` has the large trial."""

from __future__ import annotations

from pathlib import Path

from benchmarks.notifications import Trial, torture


def test_nothing_is_lost_repeated_under_another_key_or_out_of_order(tmp_path: Path) -> None:
    trial = Trial(
        num_notifications=100,
        num_alerts=25,
        num_kills=3,
        longest_life_s=1.5,
        max_together=5,
        seed=7,
    )
    outcome = torture(trial, url=f"duckdb:///{tmp_path / 'store.duckdb'}")
    # Killed before everything was sent, or the trial shows nothing.
    assert outcome.num_killed > 0
    assert (outcome.num_lost, outcome.num_not_sent) == (0, 0)
    assert (outcome.num_out_of_order, outcome.num_repeats_beyond_kills) == (0, 0)
