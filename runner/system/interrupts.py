"""Ctrl-C, SIGTERM and the end of a terminal as one orderly event."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

from compile_hud.runner.errors import RunInterrupted

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """While entered, the first of these signals raises RunInterrupted in the main thread.

    Inside `deferred` it calls a function instead and is recorded. The second signal gets the
    previous handlers. Outside the main thread nothing is changed. An ignored signal stays ignored:
    nohup ignores SIGHUP, and a script's `&` SIGINT.
    """

    def __init__(self, *, note: str = "") -> None:
        """Create the context; `note` replaces the default text of RunInterrupted."""
        self._said = note
        self._is_requested = False
        self._previous: dict[int, Any] = {}
        self._instead: Callable[[], None] | None = None

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            handled = [item for item in _SIGNALS if signal.getsignal(item) is not signal.SIG_IGN]
            self._previous = {number: signal.signal(number, self._handle) for number in handled}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._restore()

    def were_requested(self) -> bool:
        """Return whether a signal has come."""
        return self._is_requested

    def check(self) -> None:
        """Raise RunInterrupted after a signal.

        A library may have logged and swallowed the exception that the signal handler raised.
        """
        if self._is_requested:
            raise RunInterrupted(self._said or "stopped between two jobs")

    @contextmanager
    def deferred(self, instead: Callable[[], None]) -> Iterator[None]:
        """Call `instead` when a signal comes during the block, which then runs to its end."""
        self._instead = instead
        try:
            yield
        finally:
            self._instead = None

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._is_requested = True
        self._restore()
        if self._instead is None:
            raise RunInterrupted(self._said or "stopped before a case was running")
        self._instead()

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}
