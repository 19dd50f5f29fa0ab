"""Who listens on a port of this machine, as Linux shows it."""

from __future__ import annotations

import os
from pathlib import Path

# The state of a socket in /proc/net/tcp, by include/net/tcp_states.h of Linux.
_LISTENING = "0A"
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")


def find_listener(port: int) -> int | None:
    """Return the PID of a process that listens on `port`, None when that cannot be seen.

    It cannot of processes of other users.
    """
    sockets = {f"socket:[{inode}]" for table in _TABLES for inode in _inodes(table, port=port)}
    if not sockets:
        return None
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if any(os.readlink(path) in sockets for path in (folder / "fd").iterdir()):
                return int(folder.name)
        except OSError:
            continue  # it has ended, or is somebody else's
    return None


def _inodes(table: str, *, port: int) -> set[str]:
    # Of each line the second word is the address, the fourth the state, the tenth the inode.
    try:
        _, *lines = Path(table).read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return set()
    rows = (line.split() for line in lines)
    return {
        row[9]
        for row in rows
        if row[3] == _LISTENING and int(row[1].rpartition(":")[2], 16) == port
    }
