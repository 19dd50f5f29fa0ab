"""Locks between processes of one machine. The kernel lets go of them when a process dies."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


def machine_lock_dir(env: Mapping[str, str]) -> Path:
    """Return the directory of the locks that all state directories of this user share."""
    runtime = env.get("XDG_RUNTIME_DIR")
    if runtime:
        return Path(runtime) / "compile-hud"
    return Path(tempfile.gettempdir()) / f"compile-hud-{os.getuid()}"


@contextmanager
def waiting_lock(path: Path, *, on_wait: Callable[[int | None], None]) -> Iterator[None]:
    """Hold the lock at `path`; `on_wait` is told the holder's PID before it blocks."""
    descriptor = _open(path)
    try:
        if not _try_lock(descriptor):
            on_wait(_holder(descriptor))
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        _sign(descriptor)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def immediate_lock(path: Path, *, on_held: Callable[[int | None], Exception]) -> Iterator[None]:
    """Hold the lock at `path`, or raise what `on_held` makes of the holder's PID."""
    descriptor = _open(path)
    try:
        if not _try_lock(descriptor):
            raise on_held(_holder(descriptor))
        _sign(descriptor)
        yield
    finally:
        os.close(descriptor)


def is_alive(pid: int) -> bool:
    """Return whether a process with this PID exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _open(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sign(descriptor: int) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, str(os.getpid()).encode(), 0)


def _holder(descriptor: int) -> int | None:
    signature = os.pread(descriptor, 32, 0)
    return int(signature) if signature.isdigit() else None
