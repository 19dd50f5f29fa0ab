"""The last visit of a browser."""

from __future__ import annotations

from datetime import timedelta

import pytest

from compile_hud.app.components.last_visit import (
    VISIT_ENDS_AFTER,
    PageVisit,
    next_visit,
    parse_visit,
    visit_text,
)
from tests.support.builders import START


def test_the_first_visit_has_none_before() -> None:
    assert next_visit(None, now=START) == PageVisit(None, START)


def test_a_reload_continues_a_visit_and_keeps_the_one_before() -> None:
    before = START - timedelta(days=3)
    soon = START + VISIT_ENDS_AFTER / 2
    assert next_visit(PageVisit(before, START), now=soon) == PageVisit(before, soon)


def test_a_later_visit_is_compared_with_the_end_of_this_one() -> None:
    later = START + VISIT_ENDS_AFTER + timedelta(seconds=1)
    assert next_visit(PageVisit(None, START), now=later) == PageVisit(START, later)


def test_a_visit_from_the_future_does_not_count() -> None:
    future = PageVisit(START, START + timedelta(days=1))
    assert next_visit(future, now=START) == PageVisit(None, START)


@pytest.mark.parametrize("before", [None, START - timedelta(days=2)])
def test_a_cookie_has_the_visit(before: object) -> None:
    visit = PageVisit(before, START)  # type: ignore[arg-type]
    assert parse_visit(visit_text(visit)) == visit


@pytest.mark.parametrize("text", ["", ".", "1.", "x.y", "1.2.3", "9" * 40, "-5.-6", "0.0"])
def test_another_text_is_no_visit(text: str) -> None:
    assert parse_visit(text) is None
