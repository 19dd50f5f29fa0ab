"""The figures of `/metrics` and `/readyz`, read from the store once in a few seconds at most."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from compile_hud.app import clock
from compile_hud.app.data.result_figures import ResultFigures, load_result_figures
from compile_hud.app.data.store import current_version, open_store, store_url
from compile_hud.db.errors import StoreError
from compile_hud.db.jobs.operations import Operations, load_operations

# However many requests come, the store is opened no more often than this.
MAX_AGE_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationalFigures:
    """The operational figures and the results of the store, or the error of reading them."""

    operations: Operations | None
    results: ResultFigures = ResultFigures()
    error: str = ""


class Desk:
    """Caches the last figures; one thread reads the store, and the others wait for its result."""

    def __init__(
        self,
        ask: Callable[[], OperationalFigures],
        *,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ask
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._asked_s: float | None = None
        self._answer = OperationalFigures(operations=None)

    def answer(self) -> OperationalFigures:
        """Return figures that are at most MAX_AGE_S old."""
        with self._lock:
            if self._asked_s is None or self._clock_s() - self._asked_s > MAX_AGE_S:
                self._answer = self._ask()
                # The age counts from the end: a locked store takes seconds to answer.
                self._asked_s = self._clock_s()
            return self._answer


def ask_store() -> OperationalFigures:
    """Return the figures of this dashboard's store, read now."""
    try:
        operations = load_operations(open_store(store_url()), now=clock.now())
        results = load_result_figures.read_at(current_version())
        return OperationalFigures(operations=operations, results=results)
    except StoreError as error:
        return OperationalFigures(operations=None, error=str(error))


@functools.cache
def desk() -> Desk:
    """Return the cache of this process."""
    return Desk(ask_store)
