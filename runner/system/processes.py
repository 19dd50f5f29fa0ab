"""Signals and environment of child processes."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

# With this variable Python adds no folder before the installed packages. Python 3.10 ignores it.
SAFE_PATH_VARIABLE = "PYTHONSAFEPATH"
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


def die_with_parent() -> None:
    """Let SIGTERM end this process with the thread that started it; for `preexec_fn`."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def begin_work() -> None:
    """Let SIGTERM end this process with its parent, which may be dead already; for pools."""
    die_with_parent()
    parent = multiprocessing.parent_process()
    if parent is not None and not parent.is_alive():
        os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def blocked(number: signal.Signals) -> Iterator[None]:
    """Block the signal during the block; processes started in it never receive it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def safe_path() -> Iterator[None]:
    """Exclude the working directory from the import path of interpreters started in the block.

    A user's own `pickle.py` or `socket.py` would shadow Python's.
    """
    before = os.environ.get(SAFE_PATH_VARIABLE)
    os.environ[SAFE_PATH_VARIABLE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[SAFE_PATH_VARIABLE]
        else:
            os.environ[SAFE_PATH_VARIABLE] = before
