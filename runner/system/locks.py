"""Locks between processes of one machine. The kernel releases them when a process dies."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from compile_hud.runner.errors import LockUnavailable
from compile_hud.runner.events import LogMessage, Notify

# TMPDIR and XDG_RUNTIME_DIR would differ between a login, cron and systemd.
MACHINE_LOCK_DIR = Path("/tmp/compile-hud-locks")
# A look costs a system call; a run has the lock for minutes.
_LOOK_EVERY_S = 0.2
_FLAGS = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def machine_lock_dir(env: Mapping[str, str]) -> Path:
    """Return the directory of the locks that every run on this machine shares."""
    named = env.get("HUD_LOCK_DIR")
    return Path(named) if named else MACHINE_LOCK_DIR


@contextmanager
def waiting_lock(path: Path, *, on_wait: Callable[[int | None], None]) -> Iterator[None]:
    """Lock the file at `path`, which users of the machine share; raise LockUnavailable.

    `on_wait` gets the holder's PID before the call blocks.
    """
    descriptor = _open_shared(path)
    try:
        if not _try_lock(descriptor):
            on_wait(_holder(descriptor))
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        _sign(descriptor)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def device_lock(device: str, *, lock_dir: Path, notify: Notify) -> Iterator[None]:
    """Lock `device`, on which one run at a time measures; log a message before waiting.

    Raises LockUnavailable.
    """

    def say_waiting(pid: int | None) -> None:
        notify(LogMessage(text=f"waiting for device {device}, held by {holder_text(pid)}"))

    with waiting_lock(lock_dir / f"device-{device}.lock", on_wait=say_waiting):
        yield


@contextmanager
def patient_lock(path: Path, *, limit_s: float) -> Iterator[bool]:
    """Yield whether the lock at `path`, which users of the machine share, is acquired.

    The wait lasts `limit_s` seconds at most. Raises LockUnavailable.
    """
    descriptor = _open_shared(path)
    try:
        until_s = time.monotonic() + limit_s
        while not (is_acquired := _try_lock(descriptor)) and time.monotonic() < until_s:
            time.sleep(_LOOK_EVERY_S)
        if is_acquired:
            _sign(descriptor)
        yield is_acquired
    finally:
        os.close(descriptor)


@contextmanager
def immediate_lock(path: Path, *, on_conflict: Callable[[int | None], Exception]) -> Iterator[None]:
    """Lock the file at `path`, or raise the error that `on_conflict` makes of the holder's PID.

    Raises LockUnavailable if the file cannot be created.
    """
    descriptor = _open(path)
    try:
        if not _try_lock(descriptor):
            raise on_conflict(_holder(descriptor))
        _sign(descriptor)
        yield
    finally:
        os.close(descriptor)


def holder_text(pid: int | None) -> str:
    """Return the holder of a lock for people."""
    return f"PID {pid}" if pid is not None else "another process"


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
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return os.open(path, _FLAGS | os.O_CREAT, 0o600)
    except OSError as error:
        raise _unavailable(path, str(error.strerror)) from error


def _open_shared(path: Path) -> int:
    try:
        _make_shared(path.parent)
        _check_folder(path.parent)
        descriptor = _open_or_create(path)
    except OSError as error:
        raise _unavailable(path, str(error.strerror)) from error
    status = os.fstat(descriptor)
    # The holder writes its PID into the file. Through a link that would overwrite a file of a user.
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
        os.close(descriptor)
        raise _unavailable(path, "it is no file of its own")
    return descriptor


def _make_shared(folder: Path) -> None:
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        return
    # The mode of mkdir would be narrowed by the umask.
    folder.chmod(0o1777)


def _check_folder(folder: Path) -> None:
    mode = folder.lstat().st_mode
    if not stat.S_ISDIR(mode):
        raise _unavailable(folder, "it is a link or a file, not a directory")
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise _unavailable(folder, "anybody may remove locks in it (`chmod +t` prevents that)")


def _open_or_create(path: Path) -> int:
    while True:
        try:
            # The flag O_CREAT is omitted: Linux refuses it for another user's file in such a
            # directory.
            return os.open(path, _FLAGS)
        except FileNotFoundError:
            pass
        try:
            descriptor = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            continue
        os.fchmod(descriptor, 0o666)
        return descriptor


def _unavailable(path: Path, reason: str) -> LockUnavailable:
    return LockUnavailable(
        f"cannot lock {path}: {reason}. Remove it, or name another directory (HUD_LOCK_DIR for"
        " the locks of the machine, HUD_STATE_DIR for those of the state directory)"
    )


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
