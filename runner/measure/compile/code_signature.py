"""The code that a compilation generated, as one hash, and the variants that share it.

Two variants with equal code and equal launch are one program: only their names differ, so a second
set of samples would show noise. The launch is part of the comparison because CUDA graphs replay the
same code in another way.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from compile_hud.runner.measure.context import Context
from compile_hud.runner.protocol.messages import program

# Files that contain no kernel of the model: caches of graphs, locks, and precompiled headers.
NOT_KERNELS = frozenset({"fxgraph", "aotautograd", "locks", "precompiled_headers"})


def generated_code_sha256(cache_dir: Path, *, callers: Iterable[str] = ()) -> str | None:
    """Return one hash over the kernels below `cache_dir` and the `callers`, None without any.

    Inductor names a kernel's file after the hash of its source, so the names stand for the kernels.
    `callers` are the texts of the modules that call them, and the functions of libraries.
    """
    names: list[str] = []
    for folder, folders, files in os.walk(cache_dir):
        folders[:] = [name for name in folders if name not in NOT_KERNELS]
        names.extend(name for name in files if _is_kernel_source(Path(folder, name)))
    parts = [*sorted(names), *sorted(map(_without_comments, callers))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest() if parts else None


def same_code_as(context: Context) -> str:
    """Return the variant of this run that compiled to the same program, empty where none did."""
    known: Mapping[str, str] = context.request.known_code
    sha256 = context.findings.details.get("generated_code_sha256")
    if not known or not isinstance(sha256, str):
        return ""
    return known.get(program(sha256, effective_mode=context.findings.effective_mode), "")


def _is_kernel_source(path: Path) -> bool:
    return path.suffix == ".cpp" or _is_triton_source(path)


def _is_triton_source(path: Path) -> bool:
    return path.suffix == ".py" and b"@triton.jit" in path.read_bytes()


def _without_comments(text: str) -> str:
    # Comments name files of this compilation's own cache folder.
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
