"""Kernels for the results of the case that regressed: other code from the bad night on."""

from __future__ import annotations

import dataclasses

from compile_hud.db.records.kernels import Kernel, KernelSource, Origin
from compile_hud.db.records.results import CaseResult
from tests.support.builders import make_kernel
from tests.support.records.kernel_codes import pointwise
from tests.support.stores.dashboard_stores import BAD_NIGHT, REGRESSED

OLD_LINE, NEW_LINE = "tmp2 = tmp0 + tmp1", "tmp2 = tmp0 * tl.full([1], 1.0, tl.float32) + tmp1"
OLD_CODE, NEW_CODE = (
    KernelSource(hash=letter * 64, language="python", text=pointwise(line=line))
    for letter, line in (("a", OLD_LINE), ("b", NEW_LINE))
)
_NAME = "triton_poi_fused_add_gelu_0"
_ORIGIN = Origin(
    node="add_1", target="aten.add.Tensor", file="bert.py", line=81, code="return x + hidden"
)
_GEMM = make_kernel(
    "ampere_sgemm_128x64_tn",
    label="ampere_sgemm_128x64_tn",
    kind="gemm",
    library="cublas",
    operators=["aten.addmm"],
    mean_s=0.002,
)


def with_kernels(result: CaseResult) -> CaseResult:
    """Return `result`, with its kernels if it is of the case that regressed."""
    if result.case.key != REGRESSED.key:
        return result
    # Nights count up in the names of their runs.
    is_slow = int(result.run_id.rpartition("-")[2]) >= BAD_NIGHT
    latency_s = 0.0105 if is_slow else 0.0088
    profile = {
        "num_iterations": 10,
        "iteration_s": latency_s + 0.0004,
        "latency_s": latency_s,
        "parts": {"fused": latency_s - 0.0065, "gemm": 0.004, "python": 0.0025},
        "strip": [[1000, 4_000_000, 0, 0], [5_000_000, 2_000_000, 0, 1]],
    }
    return dataclasses.replace(
        result,
        kernels=(_GEMM, _fused(is_slow=is_slow)),
        sources=(OLD_CODE, NEW_CODE),
        details={**result.details, "profile": profile},
    )


def _fused(*, is_slow: bool) -> Kernel:
    kernel = make_kernel(
        _NAME,
        label=_NAME,
        library="triton",
        operators=["aten.add", "aten.gelu"],
        mean_s=0.002 if is_slow else 0.00115,
        source_hash=(NEW_CODE if is_slow else OLD_CODE).hash,
    )
    return dataclasses.replace(kernel, origins=(_ORIGIN,), config={"num_warps": 4})
