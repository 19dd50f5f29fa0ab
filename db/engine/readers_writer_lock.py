"""Who may open the DuckDB file next: many readers or one writer, and no writer starves.

Two lock files lie beside the store. Readers share `.lock`; a writer wants it alone. Everybody comes
in through `.door`: a reader lets go of it at once, a writer keeps it while it waits and writes, so
that new readers queue behind the writer. The kernel releases both when a process dies.
"""

from __future__ import annotations

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

# Short against a transaction (tens of ms), long against a poll (20 us).
_POLL_S: Final = 0.005
# How long lies between two polls that cost something: a share of the waiting so far, and at most.
_REST_SHARE: Final = 0.1
_MAX_REST_S: Final = 0.25
# Who waits longer than any transaction of ours takes may think that the program hangs.
TELL_AFTER_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait for a lock, and with which clock.

    `on_wait` is told once of a long wait: who holds the lock, where that is known, and for how many
    seconds it is waited for yet.
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
        rests: bool = False,
    ) -> bool:
        """Return whether `is_free` came true in time; it is asked once at least.

        Who `rests` asks less and less often: where asking costs something and nobody else is ahead
        for it.
        """
        began_s = self.monotonic()
        deadline_s = began_s + self.timeout_s
        is_told = False
        while not is_free():
            now_s = self.monotonic()
            if now_s >= deadline_s:
                return False
            if not is_told and now_s - began_s >= TELL_AFTER_S:
                is_told = True
                self.on_wait(holder(), deadline_s - now_s)
            # Jitter keeps two waiters from asking in step for ever.
            rest_s = min(_MAX_REST_S, _REST_SHARE * (now_s - began_s)) if rests else 0.0
            self.sleep(_POLL_S * (1 + 4 * self.jitter()) + rest_s)
        return True


class Turnstile:
    """The lock files of one store."""

    def __init__(self, store: Path, *, name: str, patience: Patience) -> None:
        self._door = store.with_name(store.name + ".door")
        self._room = store.with_name(store.name + ".lock")
        self._name = name
        self._patience = patience

    def is_there(self) -> bool:
        """Return whether somebody came to the store before, and left the lock files."""
        return self._room.exists() and self._door.exists()

    def make(self) -> None:
        """Make the lock files, where they are not there."""
        for path in (self._door, self._room):
            with _opened(path):
                pass

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Share the store with other readers; raise StoreLocked when a writer stays too long."""
        with _opened(self._room) as room:
            with _opened(self._door) as door:
                self._take(door, how=fcntl.LOCK_SH, path=self._door)
                self._take(room, how=fcntl.LOCK_SH, path=self._room)
            yield

    @contextmanager
    def staying(self) -> Iterator[None]:
        """Go on sharing the store after a read, within which this is called.

        A writer may wait at the door already, so nobody may wait here for it.
        """
        with _opened(self._room) as room:
            is_shared = _try_lock(room, fcntl.LOCK_SH)
            assert is_shared, "only who reads may stay"
            yield

    def has_writer(self) -> bool:
        """Return whether a writer has the door; also where there is no door any more."""
        try:
            door = os.open(self._door, os.O_RDWR)
        except FileNotFoundError:
            return True
        try:
            return not _try_lock(door, fcntl.LOCK_SH)
        finally:
            os.close(door)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Have the store alone; raise StoreLocked when someone stays too long."""
        with _opened(self._door) as door, _opened(self._room) as room:
            self._take(door, how=fcntl.LOCK_EX, path=self._door)
            self._take(room, how=fcntl.LOCK_EX, path=self._room)
            yield

    def _take(self, descriptor: int, *, how: int, path: Path) -> None:
        if not self._patience.wait(
            is_free=lambda: _try_lock(descriptor, how), holder=lambda: flock_holder(path)
        ):
            waited_s = self._patience.timeout_s
            raise store_locked(self._name, holder=flock_holder(path), waited_s=waited_s)


def _try_lock(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise StoreUnavailable(
            f"the folder of the store cannot lock files ({error.strerror}), as some network disks"
            " cannot. Put the store on a local disk, or name a PostgreSQL store with --store"
        ) from error
    return True


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o664)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def flock_holder(path: Path) -> int | None:
    """Return the PID of a process that holds the lock file, None when that cannot be seen."""
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
