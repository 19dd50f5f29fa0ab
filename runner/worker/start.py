"""Start the worker host; with an order as argument, execute that order and end.

The garbage collector is off during imports, since modules are never garbage. It would take a fifth
of the import time of torch and its compiler.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys


def main() -> int:
    """Import the worker host with the collector out and serve; return the exit status."""
    orders = sys.argv[1:]
    # Python 3.10 ignores PYTHONSAFEPATH: its `-m` puts the working directory first.
    if sys.version_info < (3, 11) and sys.path[0] in ("", os.getcwd()):
        del sys.path[0]
    gc.disable()
    worker = importlib.import_module("compile_hud.runner.worker.fork_server")
    gc.enable()
    status: int = worker.perform(*orders) if orders else worker.main()
    return status


if __name__ == "__main__":
    exit_status = main()
    sys.stderr.flush()
    # Interpreter shutdown would take a third of a second, and the runner waits for the exit.
    os._exit(exit_status)
