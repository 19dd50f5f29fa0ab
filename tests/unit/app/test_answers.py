"""What was read stays as it is until the store changes, and belongs to its question."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from compile_hud.app.data.cache import NUM_KEPT, Answers

URL = "duckdb:///store.duckdb"


class _Reader:
    """Counts how often it is asked, and answers with a new list each time."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []

    def __call__(self, *asked: object, **unkeyed: object) -> list[object]:
        self.asked.append(asked)
        return [*asked, *unkeyed.values()]


def test_everybody_gets_the_very_answer_of_this_generation() -> None:
    answers, read = Answers(), _Reader()
    first = answers.ask(read, URL, 1, "a")
    assert answers.ask(read, URL, 1, "a") is first
    assert read.asked == [(URL, 1, "a")]


def test_another_generation_and_another_question_are_read_anew() -> None:
    answers, read = Answers(), _Reader()
    assert answers.ask(read, URL, 1, "a") == [URL, 1, "a"]
    assert answers.ask(read, URL, 2, "a") == [URL, 2, "a"]
    assert answers.ask(read, URL, 2, "b") == [URL, 2, "b"]
    # A store that was deleted counts from 0.
    assert answers.ask(read, URL, 0, "a") == [URL, 0, "a"]


def test_what_follows_from_the_question_is_no_part_of_it() -> None:
    answers, read = Answers(), _Reader()
    first = answers.ask(read, URL, 1, "a", _ids=3)
    assert first == [URL, 1, "a", 3]
    assert answers.ask(read, URL, 1, "a", _ids=4) is first


def test_the_last_answer_is_known_when_reading_fails() -> None:
    answers = Answers()

    def read(url: str, generation: int) -> str:
        if generation == 2:
            raise OSError("locked")
        return f"{url} {generation}"

    assert answers.last(read, URL) is None
    answers.ask(read, URL, 1)
    with pytest.raises(OSError, match="locked"):
        answers.ask(read, URL, 2)
    known = answers.last(read, URL)
    assert known is not None
    assert (known.value, known.generation) == (f"{URL} 1", 1)


def test_questions_of_long_ago_are_forgotten() -> None:
    answers, read = Answers(), _Reader()
    for number in range(NUM_KEPT + 1):
        answers.ask(read, URL, 1, str(number))
    answers.ask(read, URL, 1, str(NUM_KEPT))
    assert len(read.asked) == NUM_KEPT + 1
    answers.ask(read, URL, 1, "0")
    assert len(read.asked) == NUM_KEPT + 2


def test_who_asks_the_same_at_once_waits_for_one_answer() -> None:
    answers = Answers()
    is_reading, may_go_on = threading.Event(), threading.Event()
    asked: list[int] = []

    def read(url: str, generation: int) -> str:
        asked.append(generation)
        is_reading.set()
        may_go_on.wait(20)
        return url

    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(answers.ask, read, URL, 1) for _ in range(3)]
        assert is_reading.wait(20)
        may_go_on.set()
        assert [future.result() for future in waiting] == [URL] * 3
    assert asked == [1]
