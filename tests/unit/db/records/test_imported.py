"""The better direction of imported metrics, as their records state it."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest

from compile_hud.db.records.imported import Statement, newest_statement, stated_directions
from compile_hud.db.records.metrics import Direction
from tests.support.builders import START, make_result

LOWER, HIGHER, NEITHER = (
    Direction.LOWER_IS_BETTER,
    Direction.HIGHER_IS_BETTER,
    Direction.NEITHER,
)


def statement(direction: Direction, *, night: int) -> Statement:
    return Statement(direction=direction, at=START + timedelta(days=night))


def test_guesses_state_nothing() -> None:
    directions = {"queue": "lower_is_better (guessed)", "depth": "higher_is_better"}
    result = make_result(details={"imported": {"directions": directions}})
    assert stated_directions(result) == {"depth": HIGHER}
    assert stated_directions(make_result()) == {}


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_the_newest_statement_counts_in_whatever_order_they_come(order: tuple[int, ...]) -> None:
    statements = [
        statement(LOWER, night=0),
        None,
        statement(HIGHER, night=2),
        statement(LOWER, night=1),
    ]
    newest = None
    for index in order:
        newest = newest_statement(newest, statements[index])
    assert newest == statement(HIGHER, night=2)


def test_statements_of_one_time_that_differ_say_neither() -> None:
    one, other = statement(LOWER, night=3), statement(HIGHER, night=3)
    assert newest_statement(one, one) == one
    assert (
        newest_statement(one, other) == newest_statement(other, one) == statement(NEITHER, night=3)
    )
    assert newest_statement(newest_statement(one, other), one) == statement(NEITHER, night=3)
