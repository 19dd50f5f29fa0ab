"""The PostgreSQL server of the tests ends with them, whatever ends them."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = """
import signal
from tests.support.servers.postgres import find_binaries, running_server
with running_server(find_binaries()) as server:
    print(server.socket_folder, flush=True)
    signal.pause()
"""
PATIENCE_S = 60.0


@pytest.mark.usefixtures("postgres_server")
def test_a_server_does_not_outlive_tests_that_are_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        cwd=Path(__file__).parents[3],
        stdout=subprocess.PIPE,
        text=True,
    ) as tests:
        assert tests.stdout is not None
        folder = Path(tests.stdout.readline().strip())
        server = int((folder / "data" / "postmaster.pid").read_text().split()[0])
        tests.kill()
    deadline_s = time.monotonic() + PATIENCE_S
    while folder.exists() or Path("/proc", str(server)).exists():
        assert time.monotonic() < deadline_s, folder
        time.sleep(0.05)
