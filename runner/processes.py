"""What a child process is told about its parent."""

from __future__ import annotations

import ctypes
import signal

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


def die_with_parent() -> None:
    """Let SIGTERM end this process when the thread that started it does; for `preexec_fn`."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
