"""The simulated night of compile ahead."""

from __future__ import annotations

import pytest

from benchmarks.compile_ahead import GOAL, NUM_CORES, draw_night, ledger_costs, simulate


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_night_of_a_gpu_machine_is_within_the_goal_of_its_bound(seed: int) -> None:
    night = draw_night(ledger_costs(), seed=seed)
    row = simulate(night, num_processes=NUM_CORES // 4, longest_first=True)
    assert 1.0 <= row["ratio_to_bound"] <= GOAL
    # The clock of the scheduler counts each second of the device once.
    assert row["night_s"] >= row["device_s"] + row["compile_s"] / row["num_processes"]


def test_one_case_at_a_time_takes_as_long_as_alone() -> None:
    night = draw_night(ledger_costs(), seed=1)
    row = simulate(night, num_processes=1, longest_first=False)
    assert row["night_s"] == pytest.approx(row["alone_s"])
