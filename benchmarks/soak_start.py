"""Start the soak with one heap, as the command line starts, and with exact counts of malloc.

`python -m benchmarks.soak_start`. The GNU C library caches freed blocks for the thread that freed
them, up to seven of each of 64 sizes. These are some 230 kB a thread, and count as allocated. The
set of these blocks changes for hours: by a few kB in 1,000 cases, which is bounded but looks like a
leak. Without this cache the count is that of the blocks in use, to about a hundred bytes.
"""

from __future__ import annotations

import importlib
import os
import sys

from compile_hud.runner.system.allocator import use_one_heap

# The library reads this once, when it starts.
VARIABLE = "GLIBC_TUNABLES"
EXACT = "glibc.malloc.tcache_count=0"

if __name__ == "__main__":
    # The workers need their own settings.
    if os.environ.pop(VARIABLE, "") != EXACT:
        again = [sys.executable, "-m", "benchmarks.soak_start", *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, VARIABLE: EXACT})
    use_one_heap()
    importlib.import_module("benchmarks.soak").main()
