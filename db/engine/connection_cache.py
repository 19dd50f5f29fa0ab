"""A DuckDB file kept open between reads, and let go of when a writer comes.

To open a file takes longer than most queries: DuckDB reads which tables there are and where their
blocks lie, and forgets it with the last connection. So a process that reads often, the dashboard,
keeps one connection open beside those of its reads. An idle holder would keep every writer out:
a thread looks each POLL_S whether one waits at the door of the turnstile, and lets go of the file.
"""

from __future__ import annotations

import itertools
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy.engine import Connection, Engine

from compile_hud.db.engine.readers_writer_lock import Turnstile

# What a write, which takes tens of milliseconds, may wait longer for a file that is kept open.
POLL_S: Final = 0.01
# Who reads a page clicks again within that time; a DuckDB shell cannot write before it is over.
IDLE_S: Final = 30.0
# DuckDB keeps the blocks that it read in memory, up to its limit, for as long as the file is open.
MAX_BYTES: Final = 160 * 2**20
# Whoever goes from page to page reads the same blocks again.
LARGE_IDLE_S: Final = 5.0
# To ask for it takes a millisecond.
_POLLS_PER_WEIGHING: Final = 50
_WEIGHT: Final = "SELECT sum(memory_usage_bytes) FROM duckdb_memory()"


@dataclass(slots=True, kw_only=True)
class _Kept:
    path: Path
    # A file copied over the store is another one, and DuckDB would go on with the old one.
    identity: tuple[int, ...]
    turnstile: Turnstile
    used_s: float
    connection: Connection
    opened: ExitStack

    def is_wanted(self) -> bool:
        return self._idle_s() < IDLE_S and not self.turnstile.has_writer()

    def is_too_large(self) -> bool:
        if self._idle_s() < LARGE_IDLE_S:
            return False
        num_bytes = self.connection.exec_driver_sql(_WEIGHT).scalar() or 0
        self.connection.rollback()
        return num_bytes > MAX_BYTES

    def _idle_s(self) -> float:
        return time.monotonic() - self.used_s


class KeptOpen:
    """The one file that a process keeps open, for DuckDB has one instance of it in a process."""

    def __init__(self) -> None:
        """Keep nothing yet."""
        self._lock = threading.Lock()
        self._kept: _Kept | None = None
        self._is_watched = False

    def keep(self, path: Path, *, engine: Engine, turnstile: Turnstile) -> None:
        """Keep the file at `path`, which the caller reads through `engine`, and no other."""
        with self._lock:
            if self._kept is None or self._kept.path != path:
                self._let_go()
                with ExitStack() as opening:
                    opening.enter_context(turnstile.staying())
                    connection = opening.enter_context(engine.connect())
                    self._kept = _Kept(
                        path=path,
                        identity=_identity(path),
                        turnstile=turnstile,
                        used_s=time.monotonic(),
                        connection=connection,
                        opened=opening.pop_all(),
                    )
            else:
                self._kept.used_s = time.monotonic()
            if not self._is_watched:
                self._is_watched = True
                threading.Thread(target=self._watch, name="kept-open", daemon=True).start()

    def let_go(self, path: Path, *, unless_same: bool = False) -> None:
        """Close the file at `path` if it is kept; `unless_same`, only if it was replaced since."""
        with self._lock:
            if self._kept is None or self._kept.path != path:
                return
            if not (unless_same and self._kept.identity == _identity(path)):
                self._let_go()

    def is_kept(self, path: Path) -> bool:
        """Return whether the file at `path` is kept open."""
        with self._lock:
            return self._kept is not None and self._kept.path == path

    def _let_go(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.opened.close()

    def _watch(self) -> None:
        for number in itertools.count(1):
            time.sleep(POLL_S)
            with self._lock:
                kept = self._kept
                if kept is not None and (
                    not kept.is_wanted()
                    or (number % _POLLS_PER_WEIGHING == 0 and kept.is_too_large())
                ):
                    self._let_go()
                if self._kept is None:
                    self._is_watched = False
                    return


def _identity(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except FileNotFoundError:
        return ()
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


# DuckDB keeps its instances by process, so this is kept by process as well.
KEPT_OPEN: Final = KeptOpen()
