"""The ends of processes, as /proc shows them."""

from __future__ import annotations

import socket
import subprocess
import sys
import time

from compile_hud.db.shared.processes import is_gone, this_process

PATIENCE_S = 30.0


def test_this_process_is_not_gone() -> None:
    assert is_gone(this_process()) is False


def test_a_process_of_another_host_cannot_be_seen() -> None:
    assert is_gone("another-host/1/2") is None


def test_a_process_that_its_parent_has_not_waited_for_is_gone() -> None:
    script = "from compile_hud.db.shared.processes import this_process; print(this_process())"
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    process = child.stdout.read().strip()
    assert process.startswith(f"{socket.gethostname()}/{child.pid}/")
    end_s = time.monotonic() + PATIENCE_S
    while is_gone(process) is False and time.monotonic() < end_s:
        time.sleep(0.01)
    # The child is a zombie: it has its number until the parent waits.
    assert is_gone(process) is True
    child.stdout.close()
    child.wait()
