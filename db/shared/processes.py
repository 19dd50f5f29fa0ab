"""Identify processes by host, PID and start time, and detect their end."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def this_process() -> str:
    """Return this process's name for others to check, `host/pid/start`."""
    return f"{socket.gethostname()}/{os.getpid()}/{_started(os.getpid())}"


def is_gone(process: str) -> bool | None:
    """Return whether `process` (of `this_process`) has ended, None if that cannot be seen here.

    It cannot for a process on another host, nor on a system without /proc.
    """
    host, pid, started = process.rsplit("/", 2)
    if host != socket.gethostname() or not started:
        return None
    return _started(int(pid)) != started


def _started(pid: int) -> str:
    # Field 22 of /proc/PID/stat is the start in clock ticks, which differs for a reused PID. The
    # second field is the program's name in parentheses, and may have spaces. The third is Z or X
    # for a process that has ended and that its parent has not waited for.
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in ("Z", "X") else fields[19]
