"""A readers-writer lock for the DuckDB file: many readers or one writer, and no writer starves.

Two lock files lie next to the store. Readers share `.lock`; a writer locks it exclusively. Every
process first locks `.door`, the lock of write intent. A reader releases it at once. A writer holds
it while it waits and writes, so that new readers queue behind the writer. The kernel releases both
when a process dies.
"""

from __future__ import annotations

import errno
import fcntl
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from compile_hud.db.engine.error_mapping import store_locked
from compile_hud.db.errors import StoreUnavailable

# Short compared with a transaction (tens of ms), long compared with a poll (20 us).
_POLL_S: Final = 0.005
# The pause between two costly polls is a share of the wait so far, up to a maximum.
_PAUSE_SHARE: Final = 0.1
_MAX_PAUSE_S: Final = 0.25
# The errors of a folder or a file that may be read only.
_READ_ONLY: Final = (errno.EROFS, errno.EACCES, errno.EPERM)
# A wait longer than any transaction of ours looks like a program that hangs.
REPORT_AFTER_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LockTimeout:
    """The longest wait for a lock, and its clock.

    `on_wait` is called once in a long wait, with the process that has the lock (None if unknown)
    and the seconds until the timeout.
    """

    timeout_s: float
    sleep: Callable[[float], None]
    monotonic: Callable[[], float]
    jitter: Callable[[], float] = random.random
    on_wait: Callable[[int | None, float], None] = lambda _holder, _left_s: None

    def wait(
        self,
        *,
        is_free: Callable[[], bool],
        holder: Callable[[], int | None] = lambda: None,
        backs_off: bool = False,
    ) -> bool:
        """Return whether `is_free` became true in time; it is called at least once.

        With `backs_off` the pauses grow, for an `is_free` that is costly.
        """
        began_s = self.monotonic()
        deadline_s = began_s + self.timeout_s
        is_reported = False
        while not is_free():
            now_s = self.monotonic()
            if now_s >= deadline_s:
                return False
            if not is_reported and now_s - began_s >= REPORT_AFTER_S:
                is_reported = True
                self.on_wait(holder(), deadline_s - now_s)
            # Jitter prevents two waiting processes from polling in step for ever.
            pause_s = min(_MAX_PAUSE_S, _PAUSE_SHARE * (now_s - began_s)) if backs_off else 0.0
            self.sleep(_POLL_S * (1 + 4 * self.jitter()) + pause_s)
        return True


class ReadersWriterLock:
    """The lock files of one store."""

    def __init__(self, store: Path, *, name: str, lock_timeout: LockTimeout) -> None:
        self._write_intent = store.with_name(store.name + ".door")
        self._shared = store.with_name(store.name + ".lock")
        self._name = name
        self._lock_timeout = lock_timeout
        # In a read-only folder no lock file appears, and no writer either.
        self._can_be_made = True

    def is_there(self) -> bool:
        """Return whether the lock files exist, or cannot exist."""
        are_there = self._shared.exists() and self._write_intent.exists()
        return are_there or not self._can_be_made

    def make(self) -> None:
        """Make the missing lock files, unless the folder is read-only."""
        for path in (self._write_intent, self._shared):
            with _opened_to_read(path) as descriptor:
                self._can_be_made = self._can_be_made and descriptor is not None

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Share the store with other readers; raise StoreLocked if a writer takes too long."""
        with _opened_to_read(self._shared) as shared:
            with _opened_to_read(self._write_intent) as write_intent:
                self._take(write_intent, how=fcntl.LOCK_SH, path=self._write_intent)
                self._take(shared, how=fcntl.LOCK_SH, path=self._shared)
            yield

    @contextmanager
    def staying(self) -> Iterator[None]:
        """Share the store beyond the read in which this is called.

        A writer may be waiting already, so this takes no lock of write intent.
        """
        with _opened_to_read(self._shared) as shared:
            is_shared = _try_lock(shared, fcntl.LOCK_SH)
            assert is_shared, "called outside of a read"
            yield

    def has_writer(self) -> bool:
        """Return whether a writer waits or writes; True if the lock file is gone."""
        try:
            write_intent = os.open(self._write_intent, os.O_RDONLY)
        except FileNotFoundError:
            return True
        try:
            return not _try_lock(write_intent, fcntl.LOCK_SH)
        finally:
            os.close(write_intent)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Lock the store exclusively; raise StoreLocked if another process takes too long."""
        with _opened(self._write_intent) as write_intent, _opened(self._shared) as shared:
            self._take(write_intent, how=fcntl.LOCK_EX, path=self._write_intent)
            self._take(shared, how=fcntl.LOCK_EX, path=self._shared)
            yield

    def _take(self, descriptor: int | None, *, how: int, path: Path) -> None:
        if not self._lock_timeout.wait(
            is_free=lambda: _try_lock(descriptor, how), holder=lambda: flock_holder(path)
        ):
            waited_s = self._lock_timeout.timeout_s
            raise store_locked(self._name, holder=flock_holder(path), waited_s=waited_s)


def _try_lock(descriptor: int | None, how: int) -> bool:
    if descriptor is None:
        return True
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise StoreUnavailable(
            f"the folder of the store cannot lock files ({error.strerror}), as some network disks"
            " cannot. Put the store on a local disk, or name a PostgreSQL store with --store",
            problem="no-locks",
            reason=error.strerror,
        ) from error
    return True


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o664)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _opened_to_read(path: Path) -> Iterator[int | None]:
    """Yield the open lock file of a reader; None where there is none and none can be made.

    DuckDB's own lock keeps a writer out who comes by a path that is not read-only.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o664)
    except OSError as error:
        if error.errno not in _READ_ONLY:
            raise
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            yield None
            return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def flock_holder(path: Path) -> int | None:
    """Return the PID of a process that has the lock file, None if that cannot be seen."""
    # Linux lists each lock as "1: FLOCK ADVISORY WRITE <pid> <major>:<minor>:<inode> 0 EOF".
    try:
        inode = path.stat().st_ino
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    for fields in (line.split() for line in lines):
        if fields[1] == "FLOCK" and fields[5].endswith(f":{inode}") and int(fields[4]) > 0:
            return int(fields[4])
    return None
