"""Groups of processor cores for compilations that run at the same time."""

from __future__ import annotations

import os
from collections.abc import Iterable

from compile_hud.db.shared.text import plural

# A compilation of Inductor starts helper processes that use about four cores.
CORES_EACH = 4


def default_num_processes(device: str) -> int:
    """Return the number of cases that compile at a time on `device`; 0: each compiles alone.

    On a CPU it is 0: such machines have few cores, and little memory for models that wait.
    """
    num_processes = len(os.sched_getaffinity(0)) // CORES_EACH
    return 0 if device == "cpu" or num_processes < 2 else num_processes


def core_groups(
    num_groups: int, *, cores: Iterable[int] | None = None
) -> tuple[frozenset[int], ...]:
    """Return `num_groups` groups of as many of `cores` each, of this process's own by default.

    With fewer cores than groups, groups share cores. Raises ValueError without a group.
    """
    if num_groups < 1:
        raise ValueError(f"{num_groups} {plural(num_groups, 'group')} of cores; there must be one")
    own = sorted(os.sched_getaffinity(0) if cores is None else cores)
    size = max(1, len(own) // num_groups)
    return tuple(
        frozenset(own[(number * size + offset) % len(own)] for offset in range(size))
        for number in range(num_groups)
    )
