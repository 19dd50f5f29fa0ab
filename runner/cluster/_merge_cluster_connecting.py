"""Connect to a cluster without giving it what belongs to this process."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, redirect_stdout

from compile_hud.runner.cluster.api import Cluster


@contextmanager
def connected(cluster: Cluster) -> Iterator[None]:
    """Connect to `cluster`, and disconnect at the end of the block; raise ExecutorError.

    When it connects Ray takes SIGTERM for itself, and when it disconnects it leaves nobody to it.
    Whenever a node dies it prints on standard output, where nothing but a JSON document may be.
    """
    # To the very end: some of it is printed when Ray disconnects.
    with redirect_stdout(sys.stderr), _sigterm_as_it_is() as take_back, closing(cluster):
        cluster.open()
        take_back()
        yield


@contextmanager
def _sigterm_as_it_is() -> Iterator[Callable[[], None]]:
    """Yield what gives SIGTERM back to whoever has it now, as the end of the block does."""
    handler = signal.getsignal(signal.SIGTERM)

    def take_back() -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)

    try:
        yield take_back
    finally:
        take_back()
