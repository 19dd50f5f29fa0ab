"""Start the soak with one heap, as the command line starts: `python -m benchmarks.soak_start`."""

from __future__ import annotations

import importlib

from runner.memory import use_one_heap

if __name__ == "__main__":
    use_one_heap()
    importlib.import_module("benchmarks.soak").main()
