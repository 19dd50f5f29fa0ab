"""Findings from kernels: each has a sibling in which it must be silent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from compile_hud.db.records.findings import NOT_MEASURED, Finding
from compile_hud.db.records.graphs.host_times import HOST_TIMES
from compile_hud.db.records.kernels import Kernel, Origin
from compile_hud.db.records.results import Case
from compile_hud.db.records.run_warning import RunWarning
from tests.support.builders import make_case, make_measurement
from tests.support.records.gpu_results import eager_result, findings_by_code, gpu_kernel, gpu_result

SGEMM = "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize64x64x8_ffma_execute_kernel"
SCORES = "float32 64x128x128"


def attention(*, count: float = 6.0) -> Kernel:
    return gpu_kernel(
        "cudnn_fprop_sdpa_flash",
        kind="attention",
        library="cudnn",
        count=count,
        mean_us=7,
        operators=("aten::_scaled_dot_product_cudnn_attention",),
        shapes="bfloat16 8x8x128x32, bfloat16 8x8x128x32, bfloat16 8x8x128x32",
        module="encoder.layers",
    )


def batched(shapes: str, *, name: str = SGEMM, **fields: Any) -> Kernel:
    known = {"operators": ("aten::bmm",), "shapes": shapes} | fields
    return gpu_kernel(name, kind="gemm", library="cublas", count=6, mean_us=40, **known)


def softmax(**fields: Any) -> Kernel:
    known = {"shapes": "float32 8x8x128x128"} | fields
    return gpu_kernel(
        "triton_per_fused__safe_softmax_where_2",
        label="triton_per_fused__safe_softmax_where",
        count=6,
        mean_us=15,
        operators=("aten::exp", "aten::sub", "aten::where"),
        origins=(Origin(node="exp", target="aten.exp", file="/src/model.py", line=31),),
        **known,
    )


PARTS = (
    batched("float32 64x128x32, float32 64x32x128, " + SCORES),
    batched(SCORES + ", float32 64x128x32, float32 64x128x32"),
    softmax(),
)


def test_decomposed_attention_costs_all_of_its_parts() -> None:
    eager = eager_result(attention())
    finding = findings_by_code(gpu_result(*PARTS), eager=eager)["attention-decomposed"]
    assert finding.cost_s == pytest.approx(6 * (40 + 40 + 15) * 1e-6)
    assert (finding.where.module, finding.where.line) == ("encoder.layers", "model.py:31")
    assert len([item for item in finding.evidence if item.kind == "kernel"]) == 3


def generated(operator: str, *, mean_us: float, line: int = 31) -> Kernel:
    return gpu_kernel(
        f"triton_poi_fused_{operator}_0",
        label=f"triton_poi_fused_{operator}",
        count=1,
        mean_us=mean_us,
        operators=(f"aten::{operator}",),
        shapes="float32 1024x1024",
        origins=(Origin(node=operator, target=operator, file="/src/model.py", line=line),),
    )


def of_eager(operator: str, *, mean_us: float) -> Kernel:
    return gpu_kernel(
        f"elementwise_{operator}",
        kind="elementwise",
        library="aten",
        count=1,
        mean_us=mean_us,
        operators=(f"aten::{operator}",),
        shapes="float32 1024x1024",
    )


def compared(
    *kernels: Kernel, eager: Kernel, upper: float = 0.9, **fields: Any
) -> dict[str, Finding]:
    """Return the findings of a case of 1000 us whose eager side takes 800 us."""
    measured = [
        make_measurement("eager_latency_s", samples=(800e-6,)),
        make_measurement("speedup", samples=(0.8,), interval=(0.7, upper)),
    ]
    result = gpu_result(*kernels, measurements=measured, **fields)
    return findings_by_code(result, eager=eager_result(eager, latency_us=800.0))


def test_a_generated_kernel_costs_what_eager_saves() -> None:
    finding = compared(generated("tanh", mean_us=500), eager=of_eager("tanh", mean_us=100))[
        "slower-kernel"
    ]
    assert finding.cost_s == pytest.approx(400e-6)
    assert (finding.where.line, finding.where.operators) == ("model.py:31", ("tanh",))


def test_a_decomposition_is_compared_with_what_it_replaces() -> None:
    parts = [generated(name, mean_us=200, line=7) for name in ("where", "sum")]
    finding = compared(*parts, eager=of_eager("cumprod_backward", mean_us=100))["slower-kernel"]
    assert finding.cost_s == pytest.approx(300e-6)
    assert finding.where.line == "model.py:7"


def test_kernels_of_a_faster_case_a_replay_or_a_library_are_no_slower_ones() -> None:
    kernel, eager = generated("tanh", mean_us=500), of_eager("tanh", mean_us=100)
    assert "slower-kernel" not in compared(kernel, eager=eager, upper=1.1)
    assert "slower-kernel" not in compared(kernel, eager=eager, is_graph_replay=True)
    assert "slower-kernel" not in compared(of_eager("tanh", mean_us=500), eager=eager)
    assert "slower-kernel" not in compared(generated("tanh", mean_us=120), eager=eager)


def test_the_parts_of_attention_are_no_slower_kernels() -> None:
    findings = compared(*PARTS, eager=attention())
    assert "attention-decomposed" in findings
    assert "slower-kernel" not in findings


def test_a_replay_without_shapes_shows_decomposed_attention() -> None:
    parts = (
        replace(batched("", operators=()), count=12.0, total_s=12 * 40e-6),
        softmax(shapes=""),
        gpu_kernel("nvjet_192x128", kind="gemm", library="cublas", count=6, mean_us=30),
    )
    eager = eager_result(
        attention(), gpu_kernel("nvjet_192x128", kind="gemm", library="cublas", count=6, mean_us=30)
    )
    finding = findings_by_code(gpu_result(*parts, is_graph_replay=True), eager=eager)[
        "attention-decomposed"
    ]
    assert finding.cost_s == pytest.approx(12 * 40e-6 + 6 * 15e-6)


@pytest.mark.parametrize(
    ("kernels", "eager"),
    [
        pytest.param(PARTS, PARTS, id="eager has no fused attention either"),
        pytest.param((attention(),), (attention(),), id="both are fused"),
        pytest.param(PARTS[:2], (attention(),), id="no softmax"),
        pytest.param(PARTS, (attention(count=5.0),), id="another number of calls"),
    ],
)
def test_attention_that_compilation_leaves_alone_is_silent(
    kernels: tuple[Kernel, ...], eager: tuple[Kernel, ...]
) -> None:
    assert "attention-decomposed" not in findings_by_code(
        gpu_result(*kernels), eager=eager_result(*eager)
    )


def test_products_on_plain_cores_are_named_with_their_module() -> None:
    product = replace(batched("float32 64x128x32, float32 64x32x128"), module="head.proj")
    finding = findings_by_code(gpu_result(product))["fp32-on-plain-cores"]
    assert finding.cost_s == pytest.approx(240e-6)
    assert (finding.where.module, finding.where.operators) == ("head.proj", ("bmm",))


@pytest.mark.parametrize(
    "name",
    [
        "sm80_xmma_gemm_tf32f32_tf32f32_f32_tn_n_tilesize128x128x16_tensor16x8x8",
        "cutlass_80_tensorop_s1688gemm_128x128_16x5_tn_align4",
        "nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_TNT",
        "gemvNSP_kernel",
    ],
)
def test_products_on_tensor_cores_are_silent(name: str) -> None:
    assert "fp32-on-plain-cores" not in findings_by_code(
        gpu_result(batched("float32 8x8", name=name))
    )


def test_plain_cores_inside_of_decomposed_attention_have_no_cost_of_their_own() -> None:
    findings = findings_by_code(gpu_result(*PARTS), eager=eager_result(attention()))
    finding = findings["fp32-on-plain-cores"]
    assert finding.cost_s is None
    shared = [item for item in finding.evidence if item.kind == "finding"]
    assert [(item.name, item.value) for item in shared] == [
        ("attention-decomposed", pytest.approx(12 * 40e-6))
    ]


COPY = gpu_kernel(
    "triton_poi_fused_clone_transpose_3",
    operators=("aten::clone", "aten::permute"),
    shapes="float32 32x64x56x56, float32 32x56x56x64",
)
CAST = gpu_kernel(
    "triton_poi_fused__to_copy_4",
    operators=("prims::convert_element_type",),
    shapes="float32 512x512, bfloat16 512x512",
)
NORM = gpu_kernel(
    "triton_per_fused__to_copy_native_layer_norm_5",
    operators=("prims::convert_element_type", "aten::var_mean", "aten::permute"),
    shapes="float32 512x512, bfloat16 512x512",
)


@pytest.mark.parametrize(
    ("kernel", "code"),
    [
        (COPY, "layout-copies"),
        (CAST, "dtype-conversions"),
        (
            gpu_kernel("cudnn::nchwToNhwcKernel<float>", kind="copy", library="cudnn"),
            "layout-copies",
        ),
        (
            gpu_kernel(
                "elementwise_copy",
                kind="copy",
                library="aten",
                operators=("aten::copy_",),
                shapes="float32 96x10, float16 96x10",
            ),
            "dtype-conversions",
        ),
    ],
)
def test_a_kernel_that_only_moves_is_one_finding(kernel: Kernel, code: str) -> None:
    findings = findings_by_code(gpu_result(kernel, NORM))
    assert list(findings) == [code]
    assert findings[code].cost_s == pytest.approx(100e-6)


def test_a_move_inside_of_a_kernel_with_work_is_silent() -> None:
    assert findings_by_code(gpu_result(NORM)) == {}


def test_a_copy_inside_of_an_operator_of_a_cpu_is_silent() -> None:
    copy = gpu_kernel("aten::copy_", kind="copy", library="aten", operators=("aten::copy_",))
    assert findings_by_code(gpu_result(copy, case=make_case(device="cpu"))) == {}
    eager = make_case(device="cpu", mode="eager")
    assert "layout-copies" in findings_by_code(gpu_result(copy, case=eager))


def test_moves_below_a_twentieth_of_the_latency_are_silent() -> None:
    assert findings_by_code(gpu_result(COPY, latency_us=2100)) == {}
    assert "layout-copies" in findings_by_code(gpu_result(COPY, latency_us=1900))


def test_many_kernels_below_5_us_are_a_finding() -> None:
    tiny = gpu_kernel("triton_poi_fused_add_1", count=60, mean_us=2.5, operators=("aten::add",))
    finding = findings_by_code(gpu_result(tiny))["tiny-kernels"]
    assert finding.cost_s == pytest.approx(150e-6)
    assert "60 calls" in finding.text


@pytest.mark.parametrize(
    "kernel",
    [
        gpu_kernel("triton_poi_fused_add_1", count=19, mean_us=4.9),
        gpu_kernel("triton_poi_fused_add_1", count=60, mean_us=5.1),
        gpu_kernel("Memset (Device)", kind="copy", library="cuda", count=60, mean_us=2.5),
    ],
)
def test_few_or_long_kernels_and_clears_of_libraries_are_silent(kernel: Kernel) -> None:
    assert "tiny-kernels" not in findings_by_code(gpu_result(kernel, latency_us=400))


def scan(**launch: Any) -> Kernel:
    return gpu_kernel("triton_red_fused_cumsum_6", roofline=0.2, launch={"occupancy": 12, **launch})


def test_few_warps_far_from_the_limit_are_low_occupancy() -> None:
    finding = findings_by_code(gpu_result(scan()))["low-occupancy"]
    assert finding.cost_s == pytest.approx(100e-6)
    assert "12 %" in finding.text


@pytest.mark.parametrize(
    "kernel",
    [
        replace(scan(), roofline=0.9),
        replace(scan(), roofline=None),
        scan(occupancy=50),
        replace(scan(), kind="gemm"),
        replace(scan(), library="aten"),
    ],
)
def test_occupancy_that_limits_nothing_is_silent(kernel: Kernel) -> None:
    assert "low-occupancy" not in findings_by_code(gpu_result(kernel))


def test_spills_take_precedence_over_low_occupancy() -> None:
    findings = findings_by_code(gpu_result(scan(spills=40)))
    assert findings["register-spills"].cost_s == pytest.approx(100e-6)
    assert "low-occupancy" not in findings
    assert "register-spills" not in findings_by_code(gpu_result(scan(spills=4)))


SORT = gpu_kernel("radixSortKVInPlace", kind="other", library="aten", operators=("aten::sort",))


def test_an_operator_of_aten_in_compiled_code_is_a_fallback() -> None:
    finding = findings_by_code(gpu_result(SORT))["extern-fallback"]
    assert finding.cost_s == pytest.approx(100e-6)
    assert finding.where.operators == ("sort",)


def test_a_warned_fallback_without_kernels_has_no_cost() -> None:
    warning = RunWarning(
        code="operator-fallback", text="operators without a lowering: aten._cdist_forward.default"
    )
    finding = findings_by_code(gpu_result(warnings=(warning,)))["extern-fallback"]
    assert finding.cost_s is None
    assert "cdist_forward" in finding.text


@pytest.mark.parametrize(
    "case",
    [
        make_case(device="cuda", dtype="bf16", mode="eager"),
        make_case(device="cuda", dtype="bf16", phase="training"),
        make_case(device="cuda", dtype="bf16", backend="onnxruntime", variant="onnx", mode="onnx"),
    ],
)
def test_operators_of_aten_outside_of_compiled_code_are_silent(case: Case) -> None:
    assert "extern-fallback" not in findings_by_code(gpu_result(SORT, case=case))


def test_complex_numbers_are_unsupported() -> None:
    kernel = gpu_kernel(
        "vectorized_mul_complex",
        kind="elementwise",
        library="aten",
        operators=("aten::mul",),
        shapes="complex64 16x512, complex64 16x512",
    )
    findings = findings_by_code(gpu_result(kernel))
    assert list(findings) == ["unsupported-codegen"]
    assert findings["unsupported-codegen"].cost_s == pytest.approx(100e-6)


def step(*operators: str) -> list[Kernel]:
    return [
        gpu_kernel(
            f"multi_tensor_apply_{name}",
            kind="elementwise",
            library="aten",
            operators=(f"aten::{name}",),
        )
        for name in operators
    ]


TRAINING = make_case(device="cuda", dtype="bf16", phase="training")


def test_foreach_kernels_are_an_unfused_optimizer() -> None:
    kernels = step("_foreach_lerp_", "_foreach_addcdiv_", "_foreach_sqrt")
    finding = findings_by_code(gpu_result(*kernels, case=TRAINING))["unfused-optimizer"]
    # Without a fused step in the same launch nothing says what fusing saves.
    assert (finding.cost_s, finding.missing_cost_text) == (None, NOT_MEASURED)
    assert finding.text.endswith("300 us")


@pytest.mark.parametrize(("fused_us", "cost_us"), [(80.0, 320.0), (390.0, None), (500.0, None)])
def test_an_unfused_optimizer_costs_what_a_fused_step_saved(
    fused_us: float, cost_us: float | None
) -> None:
    kernels = step("_foreach_lerp_", "_foreach_addcdiv_", "_foreach_sqrt")
    result = gpu_result(
        *kernels,
        case=TRAINING,
        measurements=[make_measurement("optimizer_s", samples=(400e-6,))],
        details={"breakdown": {"fused_optimizer_s": [1.0, fused_us * 1e-6, 0.0]}},
    )
    finding = findings_by_code(result).get("unfused-optimizer")
    if cost_us is None:
        # Below 3 % of the latency.
        assert finding is None
    else:
        assert finding is not None
        assert finding.cost_s == pytest.approx(cost_us * 1e-6)
        assert [item.name for item in finding.evidence if item.kind == "metric"] == [
            "optimizer_s",
            "fused_optimizer_s",
        ]


@pytest.mark.parametrize(
    "operators",
    [("_fused_adamw_",), ("_foreach_norm", "_foreach_mul_"), ("_foreach_lerp_", "_fused_adamw_")],
)
def test_a_fused_optimizer_and_clipping_are_silent(operators: tuple[str, ...]) -> None:
    assert "unfused-optimizer" not in findings_by_code(gpu_result(*step(*operators), case=TRAINING))


def tuned(mean_us: float, *, num_warps: int) -> Kernel:
    kernel = gpu_kernel(
        "triton_per_fused_softmax_7",
        mean_us=mean_us,
        operators=("aten::_softmax",),
        config={"num_warps": num_warps},
        launch={"kernel_hash": "c7"},
    )
    return replace(kernel, label="triton_per_fused_softmax")


def test_a_slower_configuration_costs_what_it_added() -> None:
    before = gpu_result(tuned(20, num_warps=4), latency_us=900)
    finding = findings_by_code(gpu_result(tuned(31, num_warps=8)), previous=before)["autotune-flip"]
    assert finding.cost_s == pytest.approx(4 * 11e-6)


@pytest.mark.parametrize("kernel", [tuned(20, num_warps=4), tuned(31, num_warps=8)])
def test_the_same_or_a_faster_configuration_is_silent(kernel: Kernel) -> None:
    before = gpu_result(kernel, latency_us=900)
    findings = findings_by_code(gpu_result(tuned(20, num_warps=4)), previous=before)
    assert "autotune-flip" not in findings


def of_optimizer(*names: str, shape: str = "float32 64x64") -> list[Kernel]:
    """Return the kernels of a CPU that step the weights of one shape."""
    return [
        gpu_kernel(
            f"aten::{name}",
            kind="elementwise",
            library="aten",
            count=2,
            mean_us=20,
            operators=(f"aten::{name}",),
            shapes=f"{shape}, {shape}",
        )
        for name in names
    ]


def test_an_optimizer_that_steps_each_weight_alone_is_unfused() -> None:
    case = make_case(device="cpu", phase="training", mode="default")
    adamw = of_optimizer("lerp_", "addcdiv_", "addcmul_", "mul_", "sqrt", "div")
    others = of_optimizer("mul_", "div", shape="float32 8x8")
    finding = findings_by_code(gpu_result(*adamw, *others, case=case))["unfused-optimizer"]
    assert finding.text.endswith("240 us")
    sgd = of_optimizer("mul_", "add_", "div")
    assert "unfused-optimizer" not in findings_by_code(gpu_result(*sgd, case=case))
    fused = of_optimizer("_fused_adamw_")
    assert "unfused-optimizer" not in findings_by_code(gpu_result(*fused, *adamw, case=case))
    inference = make_case(device="cpu", mode="default")
    assert "unfused-optimizer" not in findings_by_code(gpu_result(*adamw, case=inference))


CPU = make_case(device="cpu", mode="default")


def on_cpu(name: str, *, shapes: str) -> Kernel:
    return gpu_kernel(
        f"aten::{name}",
        kind="elementwise",
        library="aten",
        count=2,
        mean_us=50,
        operators=(f"aten::{name}",),
        shapes=shapes,
    )


def called(operator: str, *samples_us: float, is_complex: bool = False) -> dict[str, Any]:
    samples_s = [1e-6 * sample for sample in samples_us]
    return {"operator": operator, "is_complex": is_complex, "count": 2, "samples_s": samples_s}


def test_fallbacks_cost_their_calls_and_complex_ones_apart() -> None:
    kernels = (
        on_cpu("sort", shapes="float32 8x8"),
        on_cpu("mul", shapes="complex64 8x8, complex64 8x8"),
    )
    calls = [
        called("aten::sort", 150, 900, 140),
        called("aten::mul", 120, 130, 110, is_complex=True),
        called("aten::view_as_real", 5, 5, 5, is_complex=True),
        called("aten::_scaled_dot_product_flash_attention_for_cpu", 70),
    ]
    details = {HOST_TIMES: {"num_gaps": 0, "gaps_s": [0.0], "fallbacks": calls}}
    findings = findings_by_code(gpu_result(*kernels, case=CPU, details=details))
    assert findings["extern-fallback"].cost_s == pytest.approx(150e-6)
    assert findings["unsupported-codegen"].cost_s == pytest.approx(125e-6)


@pytest.mark.parametrize("details", [{}, {HOST_TIMES: {"fallbacks": 3}}], ids=["none", "damaged"])
def test_fallbacks_without_times_of_calls_cost_their_kernels(details: dict[str, Any]) -> None:
    kernel = on_cpu("sort", shapes="float32 8x8")
    findings = findings_by_code(gpu_result(kernel, case=CPU, details=details))
    assert findings["extern-fallback"].cost_s == pytest.approx(100e-6)
