"""Where the command line begins: what takes seconds is loaded here, and nothing is lost by then."""

from __future__ import annotations

import sys

EXIT_INTERRUPTED = 130


def main() -> None:
    """Run the command line; Ctrl-C while it is being loaded ends it without a traceback."""
    try:
        from runner.cli import main as hud
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    hud(prog_name="hud")
