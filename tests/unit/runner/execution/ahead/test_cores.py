"""Groups of cores, and the default number of processes."""

from __future__ import annotations

import os

import pytest

from compile_hud.runner.execution.ahead.cores import core_groups, default_num_processes


@pytest.mark.parametrize(
    ("num_cores", "num_groups", "sizes"), [(16, 4, [4] * 4), (6, 4, [1] * 4), (7, 2, [3, 3])]
)
def test_groups_share_no_core_and_have_equal_sizes(
    num_cores: int, num_groups: int, sizes: list[int]
) -> None:
    groups = core_groups(num_groups, cores=range(num_cores))
    assert [len(group) for group in groups] == sizes
    assert len(frozenset().union(*groups)) == sum(sizes)


def test_with_fewer_cores_than_groups_groups_share_them() -> None:
    assert core_groups(3, cores=[4, 9]) == (frozenset({4}), frozenset({9}), frozenset({4}))


def test_no_group_is_an_error() -> None:
    with pytest.raises(ValueError, match="0 groups"):
        core_groups(0)


def test_groups_are_of_the_cores_that_this_process_may_use() -> None:
    (group,) = core_groups(1)
    assert group == os.sched_getaffinity(0)


@pytest.mark.parametrize(
    ("num_cores", "device", "expected"),
    [(16, "cuda", 4), (16, "cpu", 0), (64, "cuda", 16), (7, "cuda", 0), (8, "cuda", 2)],
)
def test_a_gpu_machine_compiles_one_case_for_each_four_cores(
    num_cores: int, device: str, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(num_cores)))
    assert default_num_processes(device) == expected
