"""The entry point of the command line: Ctrl-C ends it cleanly while libraries are being loaded."""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import signal

from compile_hud.runner.cli.exit_codes import EXIT_INTERRUPTED
from compile_hud.runner.system.allocator import use_one_heap


def main() -> None:
    """Run the command line; Ctrl-C while it is being loaded ends it without a traceback."""
    use_one_heap()
    # The interpreter collects at its end, a fifth of the time of a short command, to free memory
    # that the system takes back anyway.
    atexit.register(gc.freeze)
    before = signal.getsignal(signal.SIGINT)
    # A half-loaded library may fail on an exception. A background process may ignore SIGINT.
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda *_: os._exit(EXIT_INTERRUPTED))
    hud = importlib.import_module("compile_hud.runner.cli.main").main
    signal.signal(signal.SIGINT, before)
    hud(prog_name="hud")
