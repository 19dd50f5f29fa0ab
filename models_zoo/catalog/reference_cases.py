"""The reference cases: every run measures them first to detect machine drift.

Their code and sizes never change, since series of years depend on them: a change would look like
machine drift. A new version gets a new name, `NAME_2`. Nothing here needs torch.
"""

from __future__ import annotations

from compile_hud.models_zoo.catalog.spec import ModelSpec, SizeSpec

FAMILY = "reference"

_ROWS = (
    ModelSpec(
        name="ref_gemm",
        family=FAMILY,
        build="compile_hud.models_zoo.reference.ref_gemm",
        summary="One matrix product: bound by arithmetic, so it shows the clock of the cores.",
        # 0.9 GFLOP, 9 ms on a core that does 100 GFLOP/s; 137 GFLOP fill every GPU of today.
        sizes={
            "small": SizeSpec(config={"width": 768}, num_samples=1),
            "full": SizeSpec(config={"width": 4096}, num_samples=1),
        },
        phases=("inference",),
    ),
    ModelSpec(
        name="ref_copy",
        family=FAMILY,
        build="compile_hud.models_zoo.reference.ref_copy",
        summary="One large copy: bound by memory, several times what the last cache holds.",
        # Bytes of each side. 256 MiB together are eight times the 32 MiB of a common last-level
        # cache; 1 GiB is ten times the largest L2 of a GPU.
        sizes={
            "small": SizeSpec(config={"num_bytes": 128 * 2**20}, num_samples=1),
            "full": SizeSpec(config={"num_bytes": 512 * 2**20}, num_samples=1),
        },
        phases=("inference",),
    ),
    ModelSpec(
        name="ref_chain",
        family=FAMILY,
        build="compile_hud.models_zoo.reference.ref_chain",
        summary="Two hundred tiny additions in a row: bound by launching, not by computing.",
        sizes={
            "small": SizeSpec(config={"length": 200, "width": 64}, num_samples=1),
            "full": SizeSpec(config={"length": 200, "width": 64}, num_samples=1),
        },
        phases=("inference",),
    ),
)

REFERENCES: dict[str, ModelSpec] = {row.name: row for row in _ROWS}
