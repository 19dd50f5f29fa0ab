"""Kind and library of a kernel, from its name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compile_hud.db.records.kernels import KINDS, LIBRARIES
from compile_hud.runner.traces.kernel_kinds import (
    KERNELS,
    OPERATORS,
    class_of_kernel,
    class_of_operator,
    own_name,
)
from compile_hud.runner.traces.kernel_names import label_of

LOOP = "void at::native::vectorized_elementwise_kernel<4, {0}, std::array<char*, 3ul> >(int, {0})"
ADD = LOOP.format("at::native::CUDAFunctor_add<float>")
SIGMOID = LOOP.format(
    "at::native::sigmoid_kernel_cuda(at::TensorIteratorBase&)::{lambda()#2}::operator()() const"
    "::{lambda()#4}::operator()() const::{lambda(float)#1}"
)
SUM = (
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t"
    "<float, at::native::sum_functor<float, float, float>::operator()(at::TensorIterator&)"
    "::{lambda(float, float)#1}>, unsigned int, float, 4> >(at::native::ReduceOp<float, int>)"
)
CUTLASS = "cutlass_80_tensorop_s1688gemm_64x64_16x6_nn_align4"
FLASH = (
    "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4,"
    " false, false, cutlass::bfloat16_t, pytorch_flash::Flash_kernel_traits<64, 128, 128, 4,"
    " cutlass::bfloat16_t> >, false, true>(pytorch_flash::Flash_fwd_params)"
)


@pytest.mark.parametrize(
    ("name", "kind", "library"),
    [
        ("aten::addmm", "gemm", "aten"),
        ("mkl::_mkl_linear", "gemm", "mkl"),
        ("mkldnn::_linear_pointwise", "gemm", "onednn"),
        ("mkldnn::_convolution_pointwise", "convolution", "onednn"),
        ("aten::mkldnn_convolution", "convolution", "onednn"),
        ("aten::miopen_convolution", "convolution", "aten"),
        ("aten::miopen_depthwise_convolution", "convolution", "aten"),
        ("aten::convolution_overrideable", "convolution", "aten"),
        ("aten::conv_depthwise3d", "convolution", "aten"),
        ("aten::cudnn_convolution_transpose", "convolution", "aten"),
        (
            "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
            "attention",
            "flash-attention",
        ),
        ("aten::_softmax", "reduction", "aten"),
        ("aten::native_layer_norm", "reduction", "aten"),
        ("aten::copy_", "copy", "aten"),
        ("aten::add_", "elementwise", "aten"),
        ("aten::gelu_backward", "elementwise", "aten"),
        ("c10d::allreduce_", "communication", "other"),
        ("aten::view", "dispatch", "aten"),
        ("aten::never_heard_of", "other", "aten"),
        ("mine::fast", "other", "other"),
        ("TorchDynamo Cache Lookup", "dispatch", "other"),
        ("autograd::engine::evaluate_function: AddmmBackward0", "dispatch", "other"),
        ("graph_3_cpp_fused_add_0", "fused", "inductor-cpp"),
        ("triton_poi_fused_add_0", "fused", "triton"),
    ],
)
def test_operators(name: str, kind: str, library: str) -> None:
    kernel_class = class_of_operator(name, has_children=False)
    assert (kernel_class.kind, kernel_class.library) == (kind, library)


def test_an_operator_that_calls_others_dispatches_unless_it_is_known_to_compute() -> None:
    assert class_of_operator("mine::block", has_children=True).kind == "dispatch"
    assert class_of_operator("aten::linear", has_children=True).kind == "dispatch"
    assert class_of_operator("aten::addmm", has_children=True).kind == "gemm"


@pytest.mark.parametrize(
    ("name", "kind", "library"),
    [
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclArgs)", "communication", "nccl"),
        ("Memcpy HtoD (Pinned -> Device)", "copy", "cuda"),
        ("triton_red_fused_add_0", "fused", "triton"),
        ("triton_tem_fused_addmm_3", "gemm", "triton"),
        ("triton_tem_fused_flex_attention_0", "attention", "triton"),
        (FLASH, "attention", "flash-attention"),
        ("fmha_cutlassF_bf16_aligned_64x64_rf_sm80(Params)", "attention", "cutlass"),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop", "attention", "cudnn"),
        ("cudnn_infer_volta_scudnn_128x64_relu_medium_nn_v1", "convolution", "cudnn"),
        (
            "sm80_xmma_fprop_implicit_gemm_tf32f32_nhwc_execute_kernel_cudnn",
            "convolution",
            "cudnn",
        ),
        ("void cudnn::ops::nchwToNhwcKernel<float>(float)", "copy", "cudnn"),
        ("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float>(float)", "reduction", "cudnn"),
        (f"void cutlass::Kernel2<{CUTLASS}>({CUTLASS}::Params)", "gemm", "cutlass"),
        ("nvjet_tst_192x8_64x8_4x1_v_bz_TNT", "gemm", "cublas"),
        ("ampere_sgemm_128x64_nn", "gemm", "cublas"),
        ("volta_fp16_s884gemm_fp16_64x128_ldg8_f2f_nt", "gemm", "cublas"),
        ("turing_fp16_s1688gemm_fp16_256x64_sliced1x2_ldg8_f2f_tn", "gemm", "cublas"),
        ("void splitKreduce_kernel<float>(cublasSplitKParams<float>)", "reduction", "cublas"),
        (ADD, "elementwise", "aten"),
        (SUM, "reduction", "aten"),
        (LOOP.format("at::native::FillFunctor<float>"), "copy", "aten"),
        ("void fbgemm::split_embedding_forward<float>(float)", "copy", "other"),
        ("void vllm::rotary_embedding_kernel<float>(float)", "other", "other"),
        ("igemm_wrw_gtcx2_nhwc_fp16_bx0_ex1", "convolution", "other"),
        ("miopenSp3AsmConv_v30_3_1_gfx9_fp16_dot2_edc_f2x3", "convolution", "other"),
        ("naive_conv_ab_nonpacked_fwd_nchw_float_double_float", "convolution", "other"),
        (
            "void ck::tensor_operation::device::kernel_grouped_conv_fwd_xdl<int>(int)",
            "convolution",
            "other",
        ),
        ("MIOpenBatchNormFwdInferSpatialEst", "reduction", "other"),
        ("__amd_rocclr_fillBufferAligned", "copy", "other"),
        ("CopyHostToDevice", "copy", "other"),
        ("whatever", "other", "other"),
    ],
)
def test_kernels_of_a_gpu(name: str, kind: str, library: str) -> None:
    kernel_class = class_of_kernel(name, operator="", is_triton=False)
    assert (kernel_class.kind, kernel_class.library) == (kind, library)


def test_a_product_that_computes_a_convolution_is_one() -> None:
    by = "aten::cudnn_convolution"
    kernel_class = class_of_kernel("ampere_sgemm_128x64_nn", operator=by, is_triton=False)
    assert (kernel_class.kind, kernel_class.library) == ("convolution", "cublas")
    copied = class_of_kernel("Memset (Device)", operator=by, is_triton=False)
    assert copied.kind == "copy"


@pytest.mark.parametrize(
    "by", ["aten::miopen_convolution", "aten::miopen_depthwise_convolution_backward_input",
           "aten::convolution_backward"],
)  # fmt: skip
def test_a_product_of_tensile_that_computes_a_convolution_is_one(by: str) -> None:
    name = "Cijk_Alik_Bljk_HB_MT32x96x16_MI16x16x4x1_SN_PGR1"
    assert class_of_kernel(name, operator=by, is_triton=False).kind == "convolution"
    assert class_of_kernel(name, operator="aten::mm", is_triton=False).kind == "gemm"


def test_a_kernel_of_the_user_is_tritons_where_triton_launched_it() -> None:
    kernel_class = class_of_kernel("my_kernel", operator="my_kernel", is_triton=True)
    assert (kernel_class.kind, kernel_class.library) == ("other", "triton")


def test_every_row_of_the_tables_names_a_kind_a_library_and_its_source() -> None:
    for family in (*OPERATORS, *KERNELS):
        assert family.kind in KINDS
        assert family.library in LIBRARIES
        assert family.source


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("triton_poi_fused_add_0", "triton_poi_fused_add"),
        ("triton_poi_fused_12", "triton_poi_fused"),
        ("cpp_fused_relu_add_3", "cpp_fused_relu_add"),
        ("graph_0_cpp_fused_relu_3", "cpp_fused_relu"),
        ("cpp_fused_conv2d", "cpp_fused_conv2d"),
        ("aten::addmm", "aten::addmm"),
        ("Torch-Compiled Region: 0/0", "Torch-Compiled Region: 0/0"),
        ("Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD (Pinned -> Device)"),
        ("nvjet_tst_192x8_64x8_4x1_v_bz_TNT", "nvjet_tst_192x8_64x8_4x1_v_bz_TNT"),
        (f"void cutlass::Kernel2<{CUTLASS}>({CUTLASS}::Params)", CUTLASS),
        ("ncclKernel_AllReduce_RING_LL(ncclWorkElem)", "ncclKernel_AllReduce_RING_LL"),
        (ADD, "vectorized_elementwise_kernel<CUDAFunctor_add<float>>"),
        (SIGMOID, "vectorized_elementwise_kernel<sigmoid_kernel_cuda<float>>"),
        (SUM, "reduce_kernel<ReduceOp<float, func_wrapper_t<float, sum_functor<float>>>>"),
        (
            FLASH,
            "flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, bfloat16_t,"
            " Flash_kernel_traits<64, 128, 128, 4, bfloat16_t>>, false, true>",
        ),
        (
            "void at::native::(anonymous namespace)::layer_norm_kernel<float, float>(int, float)",
            "layer_norm_kernel<float>",
        ),
    ],
)
def test_labels(name: str, label: str) -> None:
    assert label_of(name) == label


def test_operators_keep_their_namespace_in_the_label() -> None:
    assert label_of("mkl::_mkl_linear") == "mkl::_mkl_linear"


@given(st.text(st.sampled_from("ab1<>(){},: _&"), min_size=1, max_size=40))
def test_any_name_has_a_label(name: str) -> None:
    assert label_of(name)


def test_own_name_is_without_the_graph() -> None:
    assert own_name("graph_12_cpp_fused_add_0") == "cpp_fused_add_0"
    assert own_name("aten::graph_1") == "aten::graph_1"
