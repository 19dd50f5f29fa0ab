"""Start the soak with one heap, as the command line starts, and with malloc counting exactly.

`python -m benchmarks.soak_start`. Of blocks that are freed the GNU C library keeps up to seven of
each of 64 sizes for the thread that freed them, some 230 kB a thread, and counts them as given out.
Which those are changes for hours: by a few kB in 1,000 cases, which could be told from nothing and
has an end. Without them the count is that of what is in use, to about a hundred bytes.
"""

from __future__ import annotations

import importlib
import os
import sys

from compile_hud.runner.system.allocator import use_one_heap

# It reads this once, when it starts.
VARIABLE = "GLIBC_TUNABLES"
EXACT = "glibc.malloc.tcache_count=0"

if __name__ == "__main__":
    # Not for the workers.
    if os.environ.pop(VARIABLE, "") != EXACT:
        again = [sys.executable, "-m", "benchmarks.soak_start", *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, VARIABLE: EXACT})
    use_one_heap()
    importlib.import_module("benchmarks.soak").main()
