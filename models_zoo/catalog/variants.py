"""The ways to execute a model, by the names that torch.compile's documentation uses."""

from __future__ import annotations

from compile_hud.models_zoo.catalog.spec import (
    NO_BACKEND,
    CompileSettings,
    ModelTransform,
    Tolerance,
    Variant,
)

# Eight bits a weight are an error of their own, larger than that of the dtype. The worst cosine and
# relative RMS error were measured over the zoo at tiny and small, in fp32 and bf16 (torchao 0.18).
# For int8 they are 0.9994 and 0.047 (clip), for e4m3 0.9920 (dlrm) and 0.199 (clip).
_INT8 = Tolerance(min_cosine=0.99, rounding_rmse=0.1)
_FLOAT8 = Tolerance(min_cosine=0.98, rounding_rmse=0.25)

_ROWS = (
    Variant(
        name="eager",
        mode="eager",
        backend="eager",
        summary="Nothing is compiled; the reference that every other variant is checked against.",
    ),
    Variant(
        name="default",
        mode="default",
        backend="inductor",
        is_swept=True,
        summary="torch.compile(model): a balance of compile time and speed.",
    ),
    Variant(
        name="reduce-overhead",
        mode="reduce-overhead",
        backend="inductor",
        summary="CUDA graphs remove the launch overhead of small batches.",
    ),
    Variant(
        name="max-autotune",
        mode="max-autotune",
        backend="inductor",
        summary="Benchmarks Triton and template kernels at compile time, and uses CUDA graphs.",
    ),
    Variant(
        name="max-autotune-no-cudagraphs",
        mode="max-autotune-no-cudagraphs",
        backend="inductor",
        summary="Autotuning as in max-autotune, without CUDA graphs.",
    ),
    Variant(
        name="dynamic",
        mode="default",
        backend="inductor",
        dynamic=True,
        is_swept=True,
        summary="Symbolic shapes from the first compilation on.",
    ),
    Variant(
        name="fullgraph",
        mode="default",
        backend="inductor",
        fullgraph=True,
        summary="A graph break is an error, not a fallback.",
    ),
    Variant(
        name="aot_eager",
        mode="default",
        backend="aot_eager",
        summary="Dynamo and AOTAutograd without Inductor: what capturing alone costs.",
    ),
    Variant(
        name="channels-last",
        mode="default",
        backend="inductor",
        transform=ModelTransform(memory_format="channels_last"),
        summary="As default, with images and weights of convolutions in channels_last.",
    ),
    Variant(
        name="reduce-overhead-channels-last",
        mode="reduce-overhead",
        backend="inductor",
        transform=ModelTransform(memory_format="channels_last"),
        summary="As channels-last, with CUDA graphs.",
    ),
    Variant(
        name="regional",
        mode="default",
        backend="inductor",
        transform=ModelTransform(is_regional=True),
        summary="Each repeated block compiled by itself, alike ones once; the rest stays eager.",
    ),
    Variant(
        name="checkpointing",
        mode="default",
        backend="inductor",
        transform=ModelTransform(is_checkpointed=True),
        phases=("training",),
        summary="As default; activations of repeated blocks are computed again, not kept.",
    ),
    Variant(
        name="fused-adamw",
        mode="default",
        backend="inductor",
        transform=ModelTransform(has_fused_optimizer=True),
        phases=("training",),
        summary="As default, with a step of AdamW in one kernel.",
    ),
    Variant(
        name="cuda-graph",
        mode="eager",
        backend="cuda_graph",
        summary="Eager's own kernels replayed as a CUDA graph; nothing is compiled.",
    ),
    Variant(
        name="cuda-graph-channels-last",
        mode="eager",
        backend="cuda_graph",
        transform=ModelTransform(memory_format="channels_last"),
        summary="As cuda-graph, with images and weights of convolutions in channels_last.",
    ),
    Variant(
        name="eager-channels-last",
        mode="eager",
        backend=NO_BACKEND,
        transform=ModelTransform(memory_format="channels_last"),
        summary="Eager, with images and weights of convolutions in channels_last.",
    ),
    Variant(
        name="eager-fused-adamw",
        mode="eager",
        backend=NO_BACKEND,
        transform=ModelTransform(has_fused_optimizer=True),
        phases=("training",),
        summary="Eager, with a step of AdamW in one kernel.",
    ),
    Variant(
        name="int8-weight-only",
        mode="default",
        backend="inductor",
        transform=ModelTransform(weights="int8"),
        tolerance=_INT8,
        phases=("inference",),
        summary="As default, with weights of linear layers in int8 (torchao).",
    ),
    Variant(
        name="float8-weight-only",
        mode="default",
        backend="inductor",
        transform=ModelTransform(weights="float8"),
        tolerance=_FLOAT8,
        phases=("inference",),
        summary="As default, with weights of linear layers in 8-bit floats, e4m3 (torchao).",
    ),
    Variant(
        name="freezing",
        mode="default",
        backend="inductor",
        compile=CompileSettings(inductor={"freezing": True}),
        phases=("inference",),
        summary="As default, with weights as constants that are folded and packed.",
    ),
    Variant(
        name="cpp-wrapper",
        mode="default",
        backend="inductor",
        compile=CompileSettings(inductor={"cpp_wrapper": True}),
        summary="As default, with kernels called from C++ rather than Python.",
    ),
    Variant(
        name="aot-inductor",
        mode="default",
        backend="aot_inductor",
        phases=("inference",),
        summary="Exported by torch.export, compiled ahead into a package, and loaded from it.",
    ),
    Variant(
        name="onnxruntime",
        mode="default",
        backend="onnxruntime",
        phases=("inference",),
        summary="Exported by torch.onnx, executed by ONNX Runtime.",
    ),
    Variant(
        name="openvino",
        mode="default",
        backend="openvino",
        phases=("inference",),
        summary="Exported by torch.export, executed by OpenVINO on a CPU.",
    ),
    Variant(
        name="tensorrt",
        mode="default",
        backend="tensorrt",
        phases=("inference",),
        summary="torch_tensorrt's backend of torch.compile: engines of what TensorRT knows.",
    ),
)

VARIANTS: dict[str, Variant] = {row.name: row for row in _ROWS}
MODES = ("eager", "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
