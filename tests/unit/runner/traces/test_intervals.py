"""Intervals on a time line, compared with counts of every nanosecond."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from compile_hud.runner.traces.intervals import Intervals, joined, shares_ns

PAIRS = st.lists(
    st.tuples(st.integers(-20, 20), st.integers(0, 9)).map(lambda pair: (pair[0], sum(pair))),
    max_size=6,
)


def moments(pairs: list[tuple[int, int]]) -> set[int]:
    return {moment for start, end in pairs for moment in range(start, end)}


def read(intervals: Intervals) -> list[tuple[int, int]]:
    return list(zip(intervals.starts.tolist(), intervals.ends.tolist(), strict=True))


@given(PAIRS)
def test_union_covers_the_same_in_order_and_apart(pairs: list[tuple[int, int]]) -> None:
    union = read(Intervals.of(pairs).union())
    assert moments(union) == moments(pairs)
    assert all(before[1] < after[0] for before, after in zip(union, union[1:], strict=False))
    assert Intervals.of(pairs).covered_ns == len(moments(pairs))
    assert Intervals.of(pairs).total_ns == sum(end - start for start, end in pairs)


@given(PAIRS, PAIRS)
def test_within_is_what_both_cover(
    pairs: list[tuple[int, int]], windows: list[tuple[int, int]]
) -> None:
    intervals = Intervals.of(pairs).within(Intervals.of(windows))
    assert moments(read(intervals)) == moments(pairs) & moments(windows)


@given(PAIRS)
def test_holds_says_which_moments_are_covered(pairs: list[tuple[int, int]]) -> None:
    line = Intervals.of((moment, moment) for moment in range(-25, 30)).starts
    is_inside = Intervals.of(pairs).holds(line)
    assert set(line[is_inside].tolist()) == moments(pairs)


@given(PAIRS, PAIRS, PAIRS)
def test_what_several_have_goes_to_the_first(
    first: list[tuple[int, int]], second: list[tuple[int, int]], windows: list[tuple[int, int]]
) -> None:
    owners = {"first": Intervals.of(first), "second": Intervals.of(second)}
    shares = shares_ns(owners, windows=Intervals.of(windows))
    inside = moments(windows)
    assert shares["first"] == len(moments(first) & inside)
    assert shares["second"] == len((moments(second) - moments(first)) & inside)


def test_nothing_covers_nothing() -> None:
    assert joined([]).covered_ns == 0
    assert shares_ns({}, windows=Intervals.of([(0, 5)])) == {}
