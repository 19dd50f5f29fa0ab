"""What Dynamo and Inductor say about a compilation.

Their counters are private and change between torch versions: this is the only file that reads them,
and each reading is None where this torch does not keep it.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch._dynamo.utils as dynamo_utils

# Files that hold no kernel of the model: caches of graphs, locks, and precompiled headers.
NOT_KERNELS = frozenset({"fxgraph", "aotautograd", "locks", "precompiled_headers"})
MAX_REASONS = 20
MAX_REASON_CHARS = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileCounts:
    """What was counted since the last reset."""

    num_graphs: int
    num_graph_breaks: int
    num_recompiles: int
    num_autotuned: int
    num_cudagraph_skips: int
    num_fxgraph_cache_hits: int
    graph_break_reasons: tuple[str, ...]
    recompile_reasons: tuple[str, ...]
    cudagraph_skip_reasons: tuple[str, ...]


def reset() -> None:
    """Forget every compiled function and every counter."""
    torch._dynamo.reset()
    dynamo_utils.counters.clear()
    clear = getattr(dynamo_utils, "clear_compilation_metrics", None)
    if clear is not None:
        clear()


def read_counts() -> CompileCounts:
    """Return the counts since the last `reset`."""
    counters = dynamo_utils.counters
    inductor = counters["inductor"]
    breaks = counters["graph_break"]
    metrics = _compilation_metrics()
    recompiles = [reason for item in metrics if (reason := _text(item, "recompile_reason"))]
    skips = [reason for item in metrics if (reason := _text(item, "cudagraph_skip_reason"))]
    return CompileCounts(
        num_graphs=int(counters["stats"]["unique_graphs"]),
        num_graph_breaks=sum(int(count) for count in breaks.values()),
        num_recompiles=len(recompiles),
        num_autotuned=int(inductor["select_algorithm_autotune"]),
        num_cudagraph_skips=int(inductor["cudagraph_skips"]),
        num_fxgraph_cache_hits=int(inductor["fxgraph_cache_hit"]),
        graph_break_reasons=_shorten([str(reason) for reason in breaks]),
        recompile_reasons=_shorten(recompiles),
        cudagraph_skip_reasons=_shorten(skips),
    )


def has_recorded_cudagraphs() -> bool | None:
    """Return whether a CUDA graph was recorded in this process; None where torch does not tell."""
    try:
        from torch._inductor import cudagraph_trees
    except ImportError:
        return None
    get_manager = getattr(cudagraph_trees, "get_manager", None)
    if get_manager is None:
        return None
    manager = get_manager(torch.cuda.current_device(), create_if_none_exists=False)
    if manager is None:
        return False
    get_roots = getattr(manager, "get_roots", None)
    return None if get_roots is None else any(True for _ in get_roots())


def generated_code_sha256(cache_dir: Path) -> str | None:
    """Return one hash over the names of the kernels below `cache_dir`, None without any.

    Inductor names a kernel's file after the hash of its source, so equal hashes mean equal code.
    """
    names: list[str] = []
    for folder, folders, files in os.walk(cache_dir):
        folders[:] = [name for name in folders if name not in NOT_KERNELS]
        names.extend(name for name in files if _is_kernel_source(Path(folder, name)))
    if not names:
        return None
    return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()


def _is_kernel_source(path: Path) -> bool:
    return path.suffix == ".cpp" or _is_triton_source(path)


def _is_triton_source(path: Path) -> bool:
    return path.suffix == ".py" and b"@triton.jit" in path.read_bytes()


def _compilation_metrics() -> list[Any]:
    get_metrics = getattr(dynamo_utils, "get_compilation_metrics", None)
    return [] if get_metrics is None else list(get_metrics())


def _text(item: object, name: str) -> str | None:
    value = getattr(item, name, None)
    return None if not value else str(value)


def _shorten(reasons: list[str]) -> tuple[str, ...]:
    return tuple(reason[:MAX_REASON_CHARS] for reason in reasons[:MAX_REASONS])
