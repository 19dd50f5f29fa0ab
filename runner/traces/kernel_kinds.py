"""The kind and the library of a kernel, by its name.

The tables are read from the top; the first pattern that matches the name decides. Each row has the
source of its names. A name without a match is `other`, never a guess.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from compile_hud.runner.traces.demangling import demangled

# Inductor numbers its kernels by order; under cpp.enable_kernel_profile the graph as well.
GENERATED = re.compile(r"(?:graph_\d+_)?((?:cpp|triton)_\w+)")
_NAMESPACE = "::"
# The identifying part of a kernel is early in its name; a hostile name is not searched whole.
_MAX_CHARS = 2000
_ATEN_CODE = re.compile(r"at::native::|softmax_warp_")
_ATEN = "aten/src/ATen/native/native_functions.yaml"
_FUSIONS = "torch/_inductor/mkldnn_ir.py"
_LOOPS = "aten/src/ATen/native/cuda/Loops.cuh"
_KERNEL_DOCS = "names in traces of CUDA 11 to 13"


@dataclass(frozen=True, slots=True)
class KernelFamily:
    """Similar kernels: a pattern of names, their kind, their library and the names' source."""

    pattern: str
    kind: str
    library: str
    source: str


@dataclass(frozen=True, slots=True)
class Class:
    """The kind of a kernel (KINDS) and its library (LIBRARIES)."""

    kind: str
    library: str


# Operators on a CPU that compute by themselves, although they may call small operators
# (`aten::addmm` expands its bias), and operators that compute nothing at all.
OPERATORS = (
    KernelFamily(r"^mkl::_mkl_linear", "gemm", "mkl", _FUSIONS),
    KernelFamily(r"^(mkldnn|onednn)::.*(linear|matmul)", "gemm", "onednn", _FUSIONS),
    KernelFamily(r"^(mkldnn|onednn)::.*conv", "convolution", "onednn", _FUSIONS),
    KernelFamily(r"^(mkldnn|onednn)::", "other", "onednn", _FUSIONS),
    KernelFamily(r"^aten::(mkldnn_linear|mkldnn_rnn_layer)", "gemm", "onednn", _ATEN),
    KernelFamily(r"^aten::mkldnn_convolution", "convolution", "onednn", _ATEN),
    KernelFamily(
        r"^aten::(addmm|mm|bmm|baddbmm|addbmm|mv|addmv|dot|vdot|addr|_addmm_activation|_int_mm"
        r"|_scaled_mm|_grouped_mm|_weight_int4pack_mm\w*|_weight_int8pack_mm)_?(\.|$)",
        "gemm", "aten", _ATEN,
    ),
    KernelFamily(
        r"^aten::(_slow_conv2d_(forward|backward)|slow_conv3d(_forward)?|slow_conv_\w+"
        r"|_?conv_depthwise[23]d\w*|convolution_backward\w*|convolution_overrideable"
        r"|_nnpack_spatial_convolution"
        r"|_?(cudnn|miopen|mps)_(depthwise_)?convolution\w*)$",
        "convolution", "aten", _ATEN,
    ),
    KernelFamily(
        r"^aten::_(scaled_dot_product_flash_attention_for_cpu|flash_attention|efficient_attention)",
        "attention", "flash-attention", "aten/src/ATen/native/cpu/FlashAttentionKernel.cpp",
    ),
    KernelFamily(
        r"^aten::(_(log_)?softmax(_backward_data)?|native_(layer|group|batch)_norm\w*"
        r"|_native_batch_norm\w*|_fused_rms_norm\w*|sum|mean|prod|amax|amin|max|min|argmax|argmin|all"
        r"|any|linalg_vector_norm|var|std|var_mean|logsumexp|cumsum|cumprod|topk|sort"
        r"|max_pool\dd_with_indices\w*|_?adaptive_avg_pool\w*|avg_pool\w*|nll_loss\w*"
        r"|_aminmax|aminmax|nansum|bincount|histc)$",
        "reduction", "aten", _ATEN,
    ),
    KernelFamily(
        r"^aten::(copy_|cat|_cat|index_select|gather|scatter\w*|index|_index_put_impl_"
        r"|index_add_?|index_copy_?|fill_|zero_|roll|flip|_copy_from\w*|masked_select|constant_pad_nd"
        r"|embedding_dense_backward|_embedding_bag\w*|tril|triu|arange|repeat_interleave"
        r"|upsample_nearest\w*|_pad_\w+|nonzero|unfold_backward|im2col|col2im)$",
        "copy", "aten", _ATEN,
    ),
    KernelFamily(
        r"^aten::(_foreach_\w+|_fused_(adam|adamw|sgd|adagrad)_)$", "elementwise", "aten", _ATEN
    ),
    KernelFamily(
        r"^aten::(add|sub|rsub|mul|div|pow|exp|exp2|expm1|log|log2|log1p|sqrt|rsqrt|reciprocal|neg"
        r"|abs|sin|cos|tan|tanh|sigmoid|relu|gelu|silu|mish|elu|hardtanh|hardswish|hardsigmoid"
        r"|leaky_relu|softplus|threshold|clamp|clamp_min|clamp_max|maximum|minimum|where|eq|ne|lt|le"
        r"|gt|ge|isnan|isinf|isneginf|isposinf|bitwise_\w+|logical_\w+|addcmul|addcdiv|lerp|erf|round"
        r"|floor|ceil|trunc|sign|masked_fill|remainder|fmod|atan2|native_dropout|bernoulli|normal"
        r"|uniform|random|polar|sgn|square|nan_to_num|glu|logit|log_sigmoid\w*|mse_loss"
        r"|smooth_l1_loss|huber_loss|\w+_backward)_?$",
        "elementwise", "aten", _ATEN,
    ),
    KernelFamily(
        r"^(c10d|_c10d_functional)::|^(nccl|gloo):", "communication", "other",
        "torch/csrc/distributed/c10d",
    ),
    KernelFamily(
        r"^aten::(view|view_as\w*|_?reshape\w*|as_strided_?|t|t_|transpose_?|permute|expand|expand_as"
        r"|unsqueeze_?|squeeze_?|slice|select|narrow|split\w*|chunk|unbind|detach_?|alias|empty\w*"
        r"|new_empty\w*|resize_\w*|set_|_unsafe_view|resolve_conj|resolve_neg|contiguous|to|_to_copy"
        r"|item|_local_scalar_dense|lift_fresh|diagonal|unfold|movedim|flatten|numel|is_nonzero"
        r"|result_type|scalar_tensor|broadcast_tensors|pin_memory|is_pinned|record_stream)$",
        "dispatch", "aten", _ATEN,
    ),
    KernelFamily(
        r"^(autograd|torch::autograd)::", "dispatch", "other", "torch/csrc/autograd/engine.cpp",
    ),
)  # fmt: skip

KERNELS = (
    KernelFamily(r"nccl(Dev)?Kernel|^ncclSymk|rccl", "communication", "nccl", "NCCL, src/device"),
    KernelFamily(
        r"cross_device_reduce|nvshmem|multimem_|one_shot_all_reduce|two_shot_all_reduce",
        "communication", "other", "torch/csrc/distributed/c10d/symm_mem",
    ),
    KernelFamily(r"^Memcpy|^Memset", "copy", "cuda", "Kineto, libkineto/src/CuptiActivity.cpp"),
    KernelFamily(
        r"^__amd_rocclr_(copy|fill)|^Copy(Host|Device)To(Host|Device)$|^FillBuffer", "copy",
        "other", "ROCm/clr, rocclr/device/blitcl.cpp",
    ),
    KernelFamily(
        r"^triton_tem_.*(flex|attention)", "attention", "triton", "torch/_inductor/kernel/flex"
    ),
    KernelFamily(r"^triton_tem_.*conv", "convolution", "triton", "torch/_inductor/kernel/conv.py"),
    KernelFamily(r"^triton_(tem_.*mm|mm|bmm)", "gemm", "triton", "torch/_inductor/kernel/mm.py"),
    KernelFamily(r"^triton_", "fused", "triton", "torch/_inductor/codegen/triton.py"),
    KernelFamily(
        r"flash::|flash_(fwd|bwd)|flash_attn", "attention", "flash-attention",
        "aten/src/ATen/native/transformers/cuda/flash_attn",
    ),
    KernelFamily(r"cudnn.*(sdpa|attention)", "attention", "cudnn", _KERNEL_DOCS),
    KernelFamily(
        r"fmha_cutlass|fmha|AttentionKernel|AttentionBackwardKernel", "attention", "cutlass",
        "aten/src/ATen/native/transformers/cuda/mem_eff_attention",
    ),
    KernelFamily(
        r"^attn_(fwd|bwd)|bwd_kernel_(dk|dq)", "attention", "triton", "aotriton, tritonsrc",
    ),
    KernelFamily(r"attention", "attention", "other", "vllm, csrc/attention"),
    KernelFamily(r"cudnn::.*(nchwTo|nhwcTo|NchwTo|NhwcTo|ranspose)", "copy", "cudnn", _KERNEL_DOCS),
    KernelFamily(r"cudnn::bn|bn_(fw|bw)_", "reduction", "cudnn", _KERNEL_DOCS),
    KernelFamily(
        r"cudnn.*(conv|gemm|fprop|dgrad|wgrad|winograd)|xmma_(fprop|dgrad|wgrad)|implicit_convolve"
        r"|(f|d|w)prop_implicit_gemm|wgrad_implicit|dgrad_implicit|winograd|convolve_common"
        r"|_[sh]cudnn_|(dgrad|wgrad)\w*_engine",
        "convolution", "cudnn", _KERNEL_DOCS,
    ),
    KernelFamily(r"cudnn", "other", "cudnn", _KERNEL_DOCS),
    KernelFamily(
        r"conv_depthwise|^igemm_|conv2d|slow_conv", "convolution", "aten",
        "aten/src/ATen/native/cuda/DepthwiseConv2d.cu",
    ),
    KernelFamily(
        r"(?i)miopen\w*conv|gcnasmconv|naive_conv|conv_(fwd|bwd|wrw|bias_activ)|sp3asmconv",
        "convolution", "other", "ROCm/MIOpen, src/kernels",
    ),
    # Adds up the pieces of a product that another kernel has computed.
    KernelFamily(r"splitKreduce|reduce_1Block_kernel", "reduction", "cublas", _KERNEL_DOCS),
    KernelFamily(
        r"cutlass.*(gemm|Gemm|mma)", "gemm", "cutlass", "NVIDIA/cutlass, naming of kernels",
    ),
    KernelFamily(
        r"^nvjet|xmma_gemm|_[sdhciz]?\d*gemm|gemv|gemmk1|gemmSN|dot_kernel",
        "gemm", "cublas", _KERNEL_DOCS,
    ),
    KernelFamily(r"^Cijk_", "gemm", "other", "ROCm/Tensile, naming of kernels"),
    KernelFamily(r"matmul|^bmm_", "gemm", "other", "TensorRT-LLM, triton_kernels"),
    KernelFamily(r"cublasLt|cublas", "other", "cublas", _KERNEL_DOCS),
    KernelFamily(r"cutlass", "other", "cutlass", "NVIDIA/cutlass"),
    KernelFamily(
        r"CatArrayBatchedCopy|direct_copy_kernel|FillFunctor|CopyFunctor|index_elementwise_kernel"
        r"|indexSelect|index_select|gather|scatter|(?<!rotary_)embedding|indexing_backward|fill_index|copy_device"
        r"|bfloat16_copy|float8_copy|triu_tril|batched_transpose|flip_kernel|roll_cuda",
        "copy", "aten", "aten/src/ATen/native/cuda/Copy.cu, Indexing.cu, Shape.cu",
    ),
    KernelFamily(
        r"reduce_kernel|softmax|SoftMax|layer_norm|LayerNorm|RowwiseMoments|GammaBeta|batch_norm"
        r"|BatchNorm|group_norm|GroupNorm|rms_norm|RMSNorm|Rmsnorm|rmsnorm|max_pool|avg_pool|average_pool"
        r"|gatherTopK|(?<!search)sort|nll_loss|tensor_kernel_scan|lpnorm|cunn_",
        "reduction", "aten", "aten/src/ATen/native/cuda/Reduce.cuh, SoftMax.cu",
    ),
    KernelFamily(r"^void (at_cuda_detail::)?cub::", "reduction", "cuda", "NVIDIA/cub"),
    KernelFamily(
        r"elementwise_kernel|multi_tensor_apply|elementwise|distribution_", "elementwise", "aten",
        _LOOPS,
    ),
    KernelFamily(r"at::native::", "other", "aten", _LOOPS),
)  # fmt: skip


def own_name(name: str) -> str:
    """Return the name without the graph's number that Inductor puts before its C++ kernels."""
    match = GENERATED.fullmatch(name)
    return match.group(1) if match else name


def class_of_operator(name: str, *, has_children: bool) -> Class:
    """Return the class of an operator's own time, without its children's.

    An operator that only calls others, and one outside of the dispatcher's namespaces, is
    `dispatch`; a generated kernel is `fused`.
    """
    match = GENERATED.fullmatch(name)
    if match:
        is_triton = match.group(1).startswith("triton_")
        return Class("fused", "triton" if is_triton else "inductor-cpp")
    operator_class = _find(name, OPERATORS)
    if operator_class:
        return operator_class
    if has_children or _NAMESPACE not in name:
        return Class("dispatch", "aten" if name.startswith("aten::") else "other")
    return Class("other", "aten" if name.startswith("aten::") else "other")


def class_of_kernel(name: str, *, operator: str, is_triton: bool) -> Class:
    """Return the class of a GPU kernel.

    `operator` launched it, empty if unknown; `is_triton` means that Triton did. A product that
    computes a convolution or an attention is of the operator's kind.
    """
    name = demangled(name)
    kernel_class = _find(name, KERNELS) or Class("other", "other")
    library = kernel_class.library
    if library == "aten" and not _ATEN_CODE.search(name):
        # Named alike, but of other libraries: fbgemm, vLLM, MIOpen.
        library = "other"
    if library == "other" and is_triton:
        library = "triton"
    operator_class = _find(operator, OPERATORS)
    if (
        kernel_class.kind == "gemm"
        and operator_class
        and operator_class.kind in ("convolution", "attention")
    ):
        return Class(operator_class.kind, library)
    return Class(kernel_class.kind, library)


@functools.lru_cache(maxsize=10_000)
def _find(name: str, families: tuple[KernelFamily, ...]) -> Class | None:
    for family in families:
        if re.search(family.pattern, name[:_MAX_CHARS]):
            return Class(family.kind, family.library)
    return None
