"""Generated code in the form that Inductor writes, cut down for tests."""

from __future__ import annotations


def pointwise(
    name: str = "triton_poi_fused_add_gelu_0",
    *,
    line: str = "tmp2 = tmp0 + tmp1",
    backend_hash: str = "F00",
) -> str:
    """Return a pointwise Triton kernel that computes `line`."""
    return f"""
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers, triton_heuristics

@triton_heuristics.pointwise(
    size_hints={{'x': 4096}},
    inductor_meta={{'kernel_name': '{name}', 'mutated_arg_names': [],
        'backend_hash': '{backend_hash}', 'store_cubin': False}},
    min_elem_per_thread=0
)
@triton.jit
def {name}(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 4096
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (x0), xmask)
    tmp1 = tl.load(in_ptr1 + (x0), xmask)
    {line}
    tmp3 = libdevice.erf(tmp2)
    tl.store(out_ptr0 + (x0), tmp3, xmask)
"""


def cpp_template(mc_blocks: int = 8, *, mt_blocks: int = 8) -> str:
    """Return a C++ template of a GEMM with its block sizes written into it."""
    return f"""
extern "C"
void kernel(const float* X, const float* W, float* Y)
{{
    constexpr int64_t num_threads = 1;
    constexpr int64_t N = 64;
    constexpr int64_t Mr = 8;
    constexpr int64_t Nr_blocks = (N + Nr - 1) / Nr;
    constexpr int64_t Mr_blocks = (M + Mr - 1) / Mr;
    constexpr int64_t Mt_blocks = {mt_blocks};
    constexpr int64_t Mc_blocks = {mc_blocks};
    const int64_t m_block_start = std::min(n_group_id * Mt_blocks, Mr_blocks);
}}
"""


def template(block_m: int = 64, *, num_warps: int = 4) -> str:
    """Return a Triton template of a GEMM with the autotuner's choice written into it."""
    return f"""
@triton_heuristics.template(
    num_stages=3,
    num_warps={num_warps},
    inductor_meta={{'kernel_name': 'triton_tem_fused_addmm_0', 'backend_hash': 'F00'}},
)
@triton.jit
def triton_tem_fused_addmm_0(in_ptr0, arg_A, arg_B, out_ptr0):
    GROUP_M : tl.constexpr = 8
    BLOCK_M : tl.constexpr = {block_m}
    BLOCK_N : tl.constexpr = 64
    M = 512
    pid = tl.program_id(0).to(INDEX_DTYPE)
    grid_m = (M + BLOCK_M - 1) // BLOCK_M
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=ACC_TYPE)
"""
