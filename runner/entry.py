"""Where the command line begins: what takes seconds is loaded here, and nothing is lost by then."""

from __future__ import annotations

import importlib
import sys

from runner.memory import use_one_heap

# What a shell reports for a program that SIGINT ended.
EXIT_INTERRUPTED = 130


def main() -> None:
    """Run the command line; Ctrl-C while it is being loaded ends it without a traceback."""
    try:
        use_one_heap()
        hud = importlib.import_module("runner.cli").main
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    hud(prog_name="hud")
