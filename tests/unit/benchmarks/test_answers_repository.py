from __future__ import annotations

from benchmarks.answers.repository import planned


def test_sizes_take_turns_until_each_has_its_number() -> None:
    assert list(planned(2, num_same=3, sizes=(0, 5))) == [0, 5, 0, 5, 0]


def test_trials_that_are_done_are_not_repeated_whatever_sizes_come_first() -> None:
    assert list(planned(2, num_same=3, sizes=(0, 5), done=[0, 5, 12, 12])) == [0, 5, 0]
    assert list(planned(2, num_same=2, sizes=(0,), done=[0, 0, 5])) == []
