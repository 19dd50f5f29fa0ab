"""The studies: their questions, their cases, and published figures.

A CPU measures smaller selections, so that a study takes minutes; CUDA measures the published sizes.
Published figures are facts of their authors, on their devices and of other models, shapes and
versions than ours. Tables show them next to ours, without a ratio of the two.
"""

from __future__ import annotations

from functools import partial

from compile_hud.runner.analysis.studies.study import (
    BY_METRIC,
    Published,
    Study,
    StudyCases,
    TableSpec,
)

_MODES = (
    "eager",
    "default",
    "reduce-overhead",
    "max-autotune",
    "max-autotune-no-cudagraphs",
)
# On a CPU the modes with CUDA graphs run as others do, so measuring them would be redundant.
_CPU_MODES = ("eager", "default", "max-autotune-no-cudagraphs")
_RUNTIMES = ("onnxruntime", "openvino", "tensorrt")

_NOT_STATED = "not stated"
_AMP = ("fp16-autocast", "bf16-autocast")
# The figures of one source, with their common fields.
_dynamo = partial(Published, device=_NOT_STATED, source="NVIDIA's article on TorchDynamo")
_nvfuser = partial(Published, device="NVIDIA A100 40 GB", source="a study of nvFuser")
_timm = partial(_nvfuser, families=("vision",))
_book = partial(
    Published, device=_NOT_STATED, source="AI Systems Performance Engineering, chapter 13"
)
_bert_article = partial(
    Published,
    device="an NVIDIA GPU of the Ampere generation",
    source="Lefebvre Sarrut,"
    " [What we learned by benchmarking TorchDynamo, ONNX Runtime and TensorRT]"
    "(https://ai.lefebvre-sarrut.eu/2022/08/03/what-we-learned-by-benchmarking-torchdynamo-"
    "pytorch-team-onnx-runtime-and-tensorrt-on-transformers-model-inference/), 2022",
    # The published dtypes: a mean with fp32 in it would not be comparable.
    dtypes=("fp16", "bf16"),
    baseline_dtype="fp32",
)

# The batch and length of BERT, on each kind of device.
_CPU_GRID = tuple(f"small-b{batch}-l{length}" for batch in (1, 8) for length in (16, 128))
_CUDA_GRID = tuple(f"full-b{batch}-l{length}" for batch in (1, 8, 32) for length in (16, 128, 512))
_LONG = "-l512"

FAMILIES = Study(
    name="families",
    title="Mode speedups by model family",
    question="How much faster than eager is each mode of torch.compile, family by family?",
    cases={
        "cpu": StudyCases(
            models=(
                *("bert", "electra", "gpt2", "llama", "t5", "resnet", "vit", "detr", "dit"),
                *("dcgan", "nn_transformer"),
            ),
            variants=_CPU_MODES,
            shapes=("small",),
        ),
        "cuda": StudyCases(
            models=(
                *("bert", "distilbert", "roberta", "albert", "electra", "gpt2", "llama", "qwen"),
                *("t5", "whisper", "resnet", "vit", "convnext", "swin", "detr", "unet", "vae"),
                *("dit", "dcgan", "nn_transformer", "mamba", "moe"),
            ),
            variants=_MODES,
            dtypes=("bf16",),
            shapes=("full",),
        ),
    },
    tables=(
        TableSpec(
            title="Speedup over eager, geometric mean of the models of a family",
            rows="family",
            split=("dtype",),
            total="all families",
        ),
        TableSpec(title="Speedup over eager, model by model", rows="model", split=("dtype",)),
    ),
    published=(
        _dynamo(
            what="language models",
            low=1.8,
            high=2.3,
            device="NVIDIA H100 and H200",
            families=("decoder",),
        ),
        _dynamo(what="T5", low=1.5, high=2.1, models=("t5",)),
        _dynamo(what="ResNet", low=1.4, high=1.9, models=("resnet",)),
        _dynamo(what="ViT", low=1.7, high=2.4, models=("vit",)),
        _dynamo(what="detection", low=1.3, high=1.8, families=("detection",)),
        _dynamo(what="Stable Diffusion", low=1.6, high=2.2, models=("unet", "vae")),
        _dynamo(what="GANs", low=1.4, high=2.0, families=("gan",)),
        _dynamo(
            what="nn.Transformer(512, 8, 6), source (100, 32, 512), target (50, 32, 512)",
            low=1.8,
            high=2.5,
            models=("nn_transformer",),
        ),
    ),
)

BERT_GRID = Study(
    name="bert-grid",
    title="BERT over batch and sequence",
    question="At which batch and length is BERT inference faster compiled, by which way to execute"
    " it, in fp32 and in half precision?",
    cases={
        "cpu": StudyCases(
            models=("bert",),
            variants=("eager", "default", *_RUNTIMES),
            dtypes=("fp32", "bf16"),
            shapes=_CPU_GRID,
        ),
        "cuda": StudyCases(
            models=("bert",),
            variants=(*_MODES, *_RUNTIMES),
            dtypes=("fp32", "fp16", "bf16"),
            shapes=_CUDA_GRID,
        ),
    },
    tables=(
        TableSpec(title="Speedup over eager in the same dtype", rows="shape", split=("dtype",)),
        TableSpec(
            title="How many times faster than eager in fp32",
            rows="shape",
            split=("dtype",),
            baseline_dtype="fp32",
        ),
        TableSpec(title="Latency", rows="shape", metrics=("latency_s",), split=("dtype",)),
    ),
    published=(
        _dynamo(
            what="BERT, short sequences",
            low=2.2,
            high=2.8,
            # As the other figures of the article.
            dtypes=("bf16",),
            shapes=tuple(name for name in (*_CPU_GRID, *_CUDA_GRID) if not name.endswith(_LONG)),
        ),
        _bert_article(
            what="TorchDynamo with nvFuser in fp16 over Hugging Face's eager in fp32, most shapes",
            low=3.0,
            high=None,
            variants=_MODES[1:],
        ),
        _bert_article(
            what="TensorRT over Hugging Face's eager in fp32",
            low=5.0,
            high=None,
            variants=("tensorrt",),
        ),
        _bert_article(
            what="ONNX Runtime in fp16, called comparable to TorchDynamo's, over eager in fp32",
            low=3.0,
            high=None,
            variants=("onnxruntime",),
        ),
    ),
    chart="heat",
)

TRAINING = Study(
    name="training",
    title="Training with AMP, channels_last and CUDA graphs",
    question="What do autocast, channels_last and CUDA graphs add to compiling, in training?",
    cases={
        "cpu": StudyCases(
            models=("resnet", "mobilenet"),
            variants=("eager", "default", "channels-last"),
            phases=("training",),
            dtypes=("fp32", "bf16-autocast"),
            shapes=("small",),
        ),
        "cuda": StudyCases(
            models=("resnet", "convnext", "efficientnet", "mobilenet", "vit", "swin", "bert"),
            variants=(
                *("eager", "default", "channels-last", "reduce-overhead"),
                *("reduce-overhead-channels-last", "fused-adamw"),
                *("cuda-graph", "cuda-graph-channels-last"),
                # The parts of these gains that are not the compiler's.
                *("eager-channels-last", "eager-fused-adamw"),
            ),
            phases=("training", "inference"),
            dtypes=("fp32", "fp16-autocast"),
            shapes=("full",),
        ),
    },
    tables=(
        TableSpec(
            title="Speedup over eager of the same dtype, geometric mean of the models",
            rows="dtype",
            split=("phase",),
        ),
        TableSpec(
            title="How many times faster than eager in fp32, geometric mean of the models",
            rows="dtype",
            split=("phase",),
            baseline_dtype="fp32",
        ),
        TableSpec(
            title="Peak memory, geometric mean",
            rows="dtype",
            metrics=("peak_bytes",),
            split=("phase",),
        ),
        TableSpec(
            title="Speedup over eager of the same dtype, model by model",
            rows="model",
            split=("phase", "dtype"),
        ),
    ),
    published=(
        _nvfuser(
            what="Hugging Face, training with AMP and fused AdamW, nvFuser",
            low=1.12,
            high=1.50,
            families=("encoder",),
            phases=("training",),
            dtypes=_AMP,
            variants=("fused-adamw",),
        ),
        _timm(
            what="TIMM, training in fp32, nvFuser, geometric mean",
            low=1.12,
            high=1.12,
            phases=("training",),
            dtypes=("fp32",),
            variants=("default",),
        ),
        _timm(
            what="TIMM, training with AMP, channels first, nvFuser, geometric mean",
            low=1.14,
            high=1.14,
            phases=("training",),
            dtypes=_AMP,
            variants=("default",),
        ),
        _timm(
            what="TIMM, training with AMP, channels last, nvFuser, geometric mean",
            low=0.9,
            high=0.9,
            phases=("training",),
            dtypes=_AMP,
            variants=("channels-last",),
        ),
        _timm(
            what="TIMM, inference, CUDA graphs alone, channels first, geometric mean",
            low=2.74,
            high=2.74,
            phases=("inference",),
            variants=("cuda-graph",),
        ),
        _timm(
            what="TIMM, inference, CUDA graphs and nvFuser, channels first, geometric mean",
            low=2.71,
            high=2.71,
            phases=("inference",),
            variants=("reduce-overhead",),
        ),
        _timm(
            what="TIMM, inference, CUDA graphs alone, channels last, geometric mean",
            low=2.29,
            high=2.29,
            phases=("inference",),
            variants=("cuda-graph-channels-last",),
        ),
        _timm(
            what="TIMM, inference, CUDA graphs and nvFuser, channels last, geometric mean",
            low=2.95,
            high=2.95,
            phases=("inference",),
            variants=("reduce-overhead-channels-last",),
        ),
    ),
)

MOE = Study(
    name="moe",
    title="A mixture of experts under max-autotune",
    question="Does autotuning pay for a mixture of experts, in inference and in a training step?",
    cases={
        "cpu": StudyCases(
            models=("moe",),
            variants=_CPU_MODES,
            phases=("inference", "training"),
            shapes=("small",),
        ),
        "cuda": StudyCases(
            models=("moe", "llama"),
            variants=_MODES,
            phases=("inference", "training"),
            dtypes=("bf16",),
            shapes=("full",),
        ),
    },
    tables=(
        TableSpec(title="Speedup over eager", rows="phase", split=("model",)),
        TableSpec(title="Latency", rows="phase", metrics=("latency_s",), split=("model",)),
        TableSpec(
            title="Cold compile", rows="phase", metrics=("compile_cold_s",), split=("model",)
        ),
    ),
    published=(
        _book(
            what="training step of a mixture of experts, 248 ms eager and 173 ms compiled",
            low=248 / 173,
            high=248 / 173,
            models=("moe",),
            phases=("training",),
        ),
        _book(
            what="dense models that one matrix product dominates gain less than 10 %",
            low=None,
            high=1.1,
            unlike="no model of this study is a single matrix product",
        ),
    ),
)

ARCHITECTURE = Study(
    name="architecture",
    title="Transformers of one family, ranked",
    question="Which shape of a transformer is fastest, and does compiling change the order?",
    cases={
        "cpu": StudyCases(
            models=(
                *("arch/8-128-4-2.67", "arch/4-192-4-2.67", "arch/4-192-4-4"),
                *("arch/2-256-4-2.67", "arch/2-256-8-2.67"),
            ),
            variants=("eager", "default"),
            shapes=("small",),
        ),
        "cuda": StudyCases(
            models=(
                *("arch/8-512-8-2.67", "arch/8-512-8-4", "arch/16-384-6-2.67", "arch/6-640-10-2"),
                *("arch/4-768-12-2.67", "arch/2-1024-16-2.67"),
            ),
            variants=_MODES,
            dtypes=("bf16",),
            shapes=("full",),
        ),
    },
    tables=(
        TableSpec(
            title="Candidates by latency",
            rows="model",
            columns=BY_METRIC,
            metrics=("latency_s", "peak_bytes", "num_parameters"),
            split=("variant",),
            is_ranked=True,
        ),
        TableSpec(title="Speedup over eager", rows="model", total="all candidates"),
    ),
    published=(
        _dynamo(
            what="architecture search and the compiler together",
            low=3.0,
            high=5.0,
            unlike="a search keeps the accuracy of what it replaces; the weights here are random,"
            " and nothing is trained",
        ),
    ),
    chart="scatter",
)

STUDIES: dict[str, Study] = {
    study.name: study for study in (FAMILIES, BERT_GRID, TRAINING, MOE, ARCHITECTURE)
}
