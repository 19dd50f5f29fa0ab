"""What the store answered last, as it is, for all sessions until the store changes.

Streamlit's `cache_data` pickles what it keeps and unpickles it at each rerun, which takes longer
for the newest results of a thousand cases than to draw them. What is read here are records that
nobody changes, so every session gets the same ones; of each question only the last answer is kept.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

# Words of the URL are part of a question, so whoever asks decides how many there are. An answer
# has a few hundred kilobytes; the results of a run of a thousand cases have some megabytes.
NUM_KEPT: Final = 48

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Answer:
    """What was read, and the generation of the store then."""

    value: Any
    generation: int


@dataclass(slots=True)
class _Question:
    # Whoever asks the same meanwhile waits for the answer instead of reading as well.
    lock: threading.Lock = field(default_factory=threading.Lock)
    last: Answer | None = None


class Answers:
    """The last answer to each of the NUM_KEPT questions that were asked last."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._lock = threading.Lock()
        self._questions: OrderedDict[tuple[object, ...], _Question] = OrderedDict()

    def ask(
        self,
        read: Callable[..., _Value],
        url: str,
        generation: int,
        *wanted: str,
        **unkeyed: Any,
    ) -> _Value:
        """Return what `read` returns for all that is given, read once in a generation.

        `unkeyed` are arguments that follow from `wanted`. Raises what `read` raises.
        """
        question = self._question((read, url, *wanted))
        with question.lock:
            if question.last is None or question.last.generation != generation:
                value = read(url, generation, *wanted, **unkeyed)
                question.last = Answer(value, generation)
            found: _Value = question.last.value
            return found

    def last(self, read: Callable[..., object], url: str, *wanted: str) -> Answer | None:
        """Return what was answered last, of whatever generation, None where nothing was."""
        return self._question((read, url, *wanted)).last

    def clear(self) -> None:
        """Forget every answer."""
        with self._lock:
            self._questions.clear()

    def _question(self, key: tuple[object, ...]) -> _Question:
        with self._lock:
            question = self._questions.setdefault(key, _Question())
            self._questions.move_to_end(key)
            while len(self._questions) > NUM_KEPT:
                self._questions.popitem(last=False)
            return question
