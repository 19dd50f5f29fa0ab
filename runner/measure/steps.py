"""The steps of a launch, in the order of docs/explanation/measurement.md, with their times."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

STEP_ORDER = (
    "fingerprint",
    "build",
    "eager oracle",
    "compile",
    "accuracy",
    "turn",
    "warm up",
    "sample",
    "memory",
    "allocations",
    "energy",
    "breakdown",
    "tokens",
    "counters",
    "work",
    "kernels",
    "result",
    "shapes",
    "aligned accuracy",
)


class StepLog:
    """Records the start and the end of each step, in seconds since the log was made.

    `range_of` makes a named range of a step for profilers; by default it does nothing. `on_begin`
    is called with the name of each step before its clock starts.
    """

    def __init__(
        self,
        *,
        now_s: Callable[[], float] = time.perf_counter,
        on_begin: Callable[[str], None] = lambda _name: None,
    ) -> None:
        self._now_s = now_s
        self._on_begin = on_begin
        self._origin_s = now_s()
        self._open = ""
        self.range_of: Callable[[str], AbstractContextManager[object]] = nullcontext
        self.entries: list[dict[str, float | str]] = []

    def elapsed_s(self) -> float:
        """Return the seconds since the log was made."""
        return self._now_s() - self._origin_s

    def bounds_s(self, name: str) -> tuple[float, float] | None:
        """Return the start and end of step `name` on the log's clock; None before it has ended."""
        for entry in self.entries:
            if entry["name"] == name:
                return (
                    self._origin_s + float(entry["start_s"]),
                    self._origin_s + float(entry["end_s"]),
                )
        return None

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Record the block as step `name`; steps neither nest nor go back in STEP_ORDER."""
        assert not self._open, f"step {name!r} inside step {self._open!r}"
        done = [STEP_ORDER.index(str(entry["name"])) for entry in self.entries]
        assert not done or STEP_ORDER.index(name) > max(done), f"step {name!r} came too late"
        self._open = name
        self._on_begin(name)
        # The range encloses the clock, so that a step's time excludes the cost of the range.
        with self.range_of(f"hud/{name}"):
            start_s = self._now_s() - self._origin_s
            try:
                yield
            finally:
                self._open = ""
                end_s = self._now_s() - self._origin_s
                self.entries.append({"name": name, "start_s": start_s, "end_s": end_s})
