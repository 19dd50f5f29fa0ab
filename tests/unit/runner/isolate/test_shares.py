"""The search of the differences behind a change, with positions that are drawn."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from compile_hud.runner.isolate.shares import FoundShare, Position, ShareKind, ShareSearch

Effect = Callable[[frozenset[int]], float]
WIDTH = 0.05


def search(
    num_differences: int,
    effect: Effect,
    *,
    max_mixtures: int = 10,
    runs: Callable[[frozenset[int]], bool] = lambda _numbers: True,
    seed: int = 1,
) -> tuple[tuple[FoundShare, ...], ShareSearch, list[frozenset[int]]]:
    """Return the shares of an effect, the search, and the mixtures that it measured."""
    rng = random.Random(seed)
    measured: list[frozenset[int]] = []

    def measure(numbers: frozenset[int]) -> Position | None:
        measured.append(numbers)
        if not runs(numbers):
            return None
        share = effect(numbers) + rng.gauss(0, WIDTH / 2)
        return Position(share=share, low=share - WIDTH, high=share + WIDTH)

    whole = Position(share=1.0, low=1 - WIDTH, high=1 + WIDTH)
    searched = ShareSearch(
        num_differences=num_differences, measure=measure, max_mixtures=max_mixtures, whole=whole
    )
    return searched.run(), searched, measured


@pytest.mark.parametrize("num_differences", [1, 2, 5, 8, 16, 30])
@pytest.mark.parametrize("is_last", [False, True])
def test_one_cause_is_named_with_all_of_the_change(num_differences: int, *, is_last: bool) -> None:
    cause = num_differences - 1 if is_last else 0
    (share,), searched, measured = search(num_differences, lambda numbers: float(cause in numbers))
    assert (share.numbers, share.kind) == ((cause,), ShareKind.SINGLE)
    assert share.position.low < 1 < share.position.high
    assert searched.rest is not None
    assert abs(searched.rest.share) < 0.2
    assert len(measured) <= 10


@pytest.mark.parametrize("pair", [(0, 1), (2, 6), (0, 7), (3, 4)])
def test_two_that_only_together_have_an_effect_are_one_share(pair: tuple[int, int]) -> None:
    (share,), searched, _ = search(8, lambda numbers: float(set(pair) <= numbers))
    assert (share.numbers, share.kind) == (pair, ShareKind.TOGETHER)
    assert searched.rest is not None
    assert abs(searched.rest.share) < 0.2


def test_shares_of_several_causes_add_up() -> None:
    shares, _, _ = search(8, lambda numbers: 0.6 * (2 in numbers) + 0.4 * (7 in numbers))
    assert [share.numbers for share in shares] == [(2,), (7,)]
    assert sum(share.position.share for share in shares) == pytest.approx(1, abs=0.15)


def test_what_adds_to_another_cause_is_named_with_it() -> None:
    effect: Effect = lambda numbers: 0.5 * (2 in numbers) + 0.5 * ({2, 7} <= numbers)  # noqa: E731
    shares, _, _ = search(8, effect)
    assert {(share.numbers, share.kind) for share in shares} == {
        ((2,), ShareKind.SINGLE),
        ((2, 7), ShareKind.TOGETHER),
    }


def test_of_two_equal_causes_the_rest_shows_the_other() -> None:
    (share,), searched, _ = search(8, lambda numbers: float(bool({2, 7} & numbers)))
    assert share.numbers == (2,)
    assert searched.rest is not None
    assert searched.rest.share == pytest.approx(1, abs=0.2)


def test_what_does_not_run_apart_stays_in_one_share() -> None:
    (share,), _, _ = search(
        6, lambda numbers: float(0 in numbers), runs=lambda numbers: len({0, 1} & numbers) != 1
    )
    assert (share.numbers, share.kind) == ((0, 1), ShareKind.UNSEPARATED)


def test_the_limit_leaves_several_suspects() -> None:
    (share,), _, measured = search(60, lambda numbers: float(57 in numbers), max_mixtures=5)
    assert share.kind is ShareKind.UNSEPARATED
    assert 57 in share.numbers
    assert len(measured) <= 5


def test_only_a_limit_that_left_suspects_cut_the_search() -> None:
    _, cut, _ = search(60, lambda numbers: float(57 in numbers), max_mixtures=5)
    _, whole, _ = search(60, lambda numbers: float(57 in numbers), max_mixtures=20)
    assert (cut.is_cut, whole.is_cut) == (True, False)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("more", [0, 10])
def test_a_search_over_known_answers_asks_for_none_of_them_again(seed: int, more: int) -> None:
    def effect(numbers: frozenset[int]) -> float:
        return 0.5 * (2 in numbers) + 0.3 * ({7, 11} <= numbers)

    known: dict[frozenset[int], list[Position | None]] = {}
    rng = random.Random(seed)

    def draw(numbers: frozenset[int]) -> Position | None:
        share = effect(numbers) + rng.gauss(0, WIDTH)
        position = Position(share=share, low=share - WIDTH, high=share + WIDTH)
        known.setdefault(numbers, []).append(position)
        return position

    whole = Position(share=0.8, low=0.8 - WIDTH, high=0.8 + WIDTH)
    first = ShareSearch(num_differences=16, measure=draw, max_mixtures=8, whole=whole)
    shares = first.run()
    stored = {numbers: list(answers) for numbers, answers in known.items()}
    requested: list[frozenset[int]] = []

    def replay(numbers: frozenset[int]) -> Position | None:
        if stored.get(numbers):
            return stored[numbers].pop(0)
        requested.append(numbers)
        return draw(numbers)

    second = ShareSearch(num_differences=16, measure=replay, max_mixtures=8 + more, whole=whole)
    again = second.run()
    if not more:
        assert (again, second.rest, requested) == (shares, first.rest, [])
    # The search leaves at most the check of the former answer unused.
    assert sum(map(len, stored.values())) <= 1


def test_many_small_effects_have_no_share() -> None:
    shares, _, _ = search(16, lambda numbers: len(numbers) / 16)
    assert all(len(share.numbers) > 1 for share in shares)


def test_opposite_effects_keep_their_signs() -> None:
    shares, _, _ = search(4, lambda numbers: 1.5 * (0 in numbers) - 0.5 * (3 in numbers))
    by_number = {share.numbers: share.position.share for share in shares}
    assert by_number[(0,)] == pytest.approx(1.5, abs=0.15)
    assert by_number[(3,)] == pytest.approx(-0.5, abs=0.15)
