"""A cache of one open DuckDB file between reads, closed when a writer comes.

Opening a file takes longer than most queries: DuckDB reads the list of tables and the location of
their blocks. It forgets both with the last connection. So the dashboard, which reads often, caches
one open connection. An idle connection would block every writer. A thread checks each POLL_S
whether a writer waits for the lock, and then closes the file.
"""

from __future__ import annotations

import functools
import itertools
import logging
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy.engine import Connection, Engine

from compile_hud.db.engine.readers_writer_lock import ReadersWriterLock
from compile_hud.db.shared.lasting_steps import LastingSteps

logger = logging.getLogger(__name__)

# A write takes tens of milliseconds, and may wait this much longer for a cached file.
POLL_S: Final = 0.01
# Most clicks of a reader follow within this time; a DuckDB shell cannot write before it is over.
IDLE_S: Final = 30.0
# DuckDB caches the blocks that it read in memory, up to its limit, as long as the file is open.
MAX_BYTES: Final = 160 * 2**20
# A reader who goes from page to page reads the same blocks again.
LARGE_IDLE_S: Final = 5.0
# The query of the memory use takes a millisecond.
_POLLS_PER_WEIGHING: Final = 50
_WEIGHT: Final = "SELECT sum(memory_usage_bytes) FROM duckdb_memory()"


@dataclass(slots=True, kw_only=True)
class _CachedConnection:
    path: Path
    # A file copied over the store has another identity, and DuckDB would go on with the old one.
    identity: tuple[int, ...]
    file_lock: ReadersWriterLock
    used_s: float
    connection: Connection
    resources: ExitStack

    def is_in_use(self) -> bool:
        return self._idle_s() < IDLE_S and not self.file_lock.has_writer()

    def is_too_large(self) -> bool:
        if self._idle_s() < LARGE_IDLE_S:
            return False
        num_bytes = self.connection.exec_driver_sql(_WEIGHT).scalar() or 0
        self.connection.rollback()
        return num_bytes > MAX_BYTES

    def _idle_s(self) -> float:
        return time.monotonic() - self.used_s


class ConnectionCache:
    """The one open file of a process, since DuckDB has one instance of a file in a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cached: _CachedConnection | None = None
        self._is_watched = False
        self._steps = LastingSteps("connection-cache")

    @property
    def problem(self) -> str:
        """Return the error of the last look for writers, empty without one."""
        return self._steps.problem

    def put(self, path: Path, *, engine: Engine, file_lock: ReadersWriterLock) -> None:
        """Make the file at `path` the only open one; the caller reads it through `engine`."""
        with self._lock:
            if self._cached is None or self._cached.path != path:
                self._close()
                with ExitStack() as opening:
                    opening.enter_context(file_lock.staying())
                    connection = opening.enter_context(engine.connect())
                    self._cached = _CachedConnection(
                        path=path,
                        identity=_identity(path),
                        file_lock=file_lock,
                        used_s=time.monotonic(),
                        connection=connection,
                        resources=opening.pop_all(),
                    )
            else:
                self._cached.used_s = time.monotonic()
            if not self._is_watched:
                self._start_watching()

    def close(self, path: Path, *, unless_same: bool = False) -> None:
        """Close the file at `path` if it is open; with `unless_same`, only if it was replaced
        since.
        """
        with self._lock:
            if self._cached is None or self._cached.path != path:
                return
            if not (unless_same and self._cached.identity == _identity(path)):
                self._close()

    def has(self, path: Path) -> bool:
        """Return whether the file at `path` is open here."""
        with self._lock:
            return self._cached is not None and self._cached.path == path

    def _close(self) -> None:
        cached, self._cached = self._cached, None
        if cached is not None:
            cached.resources.close()

    def _start_watching(self) -> None:
        try:
            threading.Thread(target=self._watch, name="connection-cache", daemon=True).start()
        except RuntimeError as error:
            # No thread is left. Without one, the file would block every writer.
            logger.warning("the store is opened for each read: %s", error)
            self._close()
        else:
            self._is_watched = True

    def _watch(self) -> None:
        for number in itertools.count(1):
            time.sleep(POLL_S)
            # The thread outlives every error: while the file is open, it alone lets writers in.
            if self._steps.run(functools.partial(self._look, number)):
                return

    def _look(self, number: int) -> bool:
        """Close the file unless it is certainly needed; return whether it is closed."""
        with self._lock:
            is_needed = False
            try:
                is_needed = self._is_needed(weighs=number % _POLLS_PER_WEIGHING == 0)
            finally:
                if not is_needed:
                    self._close()
            self._is_watched = is_needed
            return not is_needed

    def _is_needed(self, *, weighs: bool) -> bool:
        cached = self._cached
        if cached is None or not cached.is_in_use():
            return False
        return not (weighs and cached.is_too_large())


def _identity(path: Path) -> tuple[int, ...]:
    try:
        status = path.stat()
    except FileNotFoundError:
        return ()
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


# DuckDB has its instances by process, so this cache is by process as well.
CONNECTION_CACHE: Final = ConnectionCache()
