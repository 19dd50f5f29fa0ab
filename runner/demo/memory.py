"""Synthetic holders of memory for the demo; they add up to the synthetic peak of a case."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compile_hud.db.records.kernels import CALL_LINES, Kernel
from compile_hud.db.records.memory.peak import HolderKind, MemoryHolder, PeakHolders
from compile_hud.db.records.results import Case, Phase
from compile_hud.runner.demo.kernels import GRAPH_MODES, NUM_LAYERS

# The parts of the peak that were alive before an iteration; the kernels share the rest.
_INFERENCE = {"parameters": 0.46, "inputs": 0.02, "other": 0.03}
_TRAINING = {"parameters": 0.12, "optimizer state": 0.24, "inputs": 0.02, "other": 0.02}
# Each kernel has this part of what the earlier ones leave.
_SHARE = 0.55


def demo_memory(case: Case, kernels: Sequence[Kernel], *, peak_bytes: float) -> PeakHolders:
    """Return the holders of memory at a peak of `peak_bytes`, which `kernels` first write."""
    is_training = case.phase is Phase.TRAINING
    roles = _TRAINING if is_training else _INFERENCE
    before = [
        MemoryHolder(
            kind=HolderKind.BEFORE, operator=role, num_bytes=int(share * peak_bytes), count=1
        )
        for role, share in roles.items()
    ]
    left = round(peak_bytes) - sum(item.num_bytes for item in before)
    if case.mode in GRAPH_MODES or not kernels:
        pools = MemoryHolder(
            kind=HolderKind.GRAPHS, operator="pools of CUDA graphs", num_bytes=left, count=1
        )
        return PeakHolders.of([*before, pools])
    return PeakHolders.of([*before, *_allocated(kernels, num_bytes=left)])


def _allocated(kernels: Sequence[Kernel], *, num_bytes: int) -> Iterator[MemoryHolder]:
    left = num_bytes
    for index, kernel in enumerate(kernels):
        is_last = index == len(kernels) - 1
        size = left if is_last else int(_SHARE * left)
        left -= size
        lines = [
            *kernel.launch.get(CALL_LINES, {}).values(),
            *(f"{origin.file}:{origin.line}" for origin in kernel.origins),
        ]
        is_generated = bool(kernel.source_hash) or not kernel.operators
        yield MemoryHolder(
            kind=HolderKind.OPERATOR,
            operator=kernel.label if is_generated else kernel.operators[0],
            module=kernel.module,
            line=lines[0] if lines else "",
            num_bytes=size,
            count=max(1, round(kernel.count / NUM_LAYERS)),
        )
