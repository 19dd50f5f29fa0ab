"""Steps of threads that must not end: an error of one step is logged, and the next step follows."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

logger = logging.getLogger(__name__)


class LastingSteps:
    """Calls the steps of one thread; `problem` is the error of the last step, empty without one.

    The same error again and again is logged once.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._problem = ""
        self._lock = threading.Lock()

    @property
    def problem(self) -> str:
        """Return the error of the last step as text, empty when it succeeded."""
        with self._lock:
            return self._problem

    def run(self, step: Callable[[], bool]) -> bool:
        """Return the result of `step`, False after an error: the caller goes on."""
        problem = ""
        result = False
        try:
            result = step()
        except Exception as error:
            # Any error: without this thread, no process could write to the store or renew a lease.
            problem = f"{type(error).__name__}: {error}"
            if problem != self.problem:
                logger.exception("a step of the thread %s failed; it goes on", self.name)
        with self._lock:
            self._problem = problem
        return result
