"""The history of CUDA's allocator over one iteration, as a file for pytorch.org/memory_viz.

torch calls these functions its own business, so they are called here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

# An iteration of a large model allocates some thousand times; the rest would be cut off silently.
MAX_ENTRIES = 100_000


def write_snapshot(step: Callable[[], object], *, path: Path) -> None:
    """Write what the allocator did during one call of `step`, with the stack of each allocation."""
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.cuda.memory._record_memory_history(max_entries=MAX_ENTRIES)
    try:
        step()
        torch.cuda.synchronize()
        torch.cuda.memory._dump_snapshot(str(path))
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)
