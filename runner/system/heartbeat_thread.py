"""A thread that records the heartbeat of a run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from compile_hud.db.shared.lasting_steps import LastingSteps

HEARTBEAT_S = 15.0


@contextmanager
def heartbeat(report: Callable[[], None], *, every_s: float = HEARTBEAT_S) -> Iterator[None]:
    """Call `report` every `every_s` seconds, from a thread of its own, until the block ends.

    An error of `report` is logged, and the next call follows: without heartbeats the run would
    count as interrupted, and another machine would take its job.
    """
    is_over = threading.Event()
    steps = LastingSteps("heartbeat")

    def step() -> bool:
        report()
        return True

    def run() -> None:
        while not is_over.wait(every_s):
            steps.run(step)

    thread = threading.Thread(target=run, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
