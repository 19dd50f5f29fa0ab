"""The models that are measured, one row each. Nothing here needs torch.

`tiny` is what tests build, `small` what a CPU measures in minutes, `full` the published model.
README.md in this folder says where each `full` configuration is published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from models_zoo.spec import (
    ConfigValue,
    ModelSpec,
    SizeSpec,
    Tolerance,
    UnknownNameError,
    near_names,
)


def _text_size(**config: ConfigValue) -> SizeSpec:
    batch, length = config["batch"], config["length"]
    assert isinstance(batch, int)
    assert isinstance(length, int)
    return SizeSpec(config=config, num_samples=batch, num_tokens=batch * length)


def _pair_size(**config: ConfigValue) -> SizeSpec:
    batch, source, target = config["batch"], config["source_length"], config["target_length"]
    assert isinstance(batch, int)
    assert isinstance(source, int)
    assert isinstance(target, int)
    return SizeSpec(config=config, num_samples=batch, num_tokens=batch * (source + target))


def _image_size(**config: ConfigValue) -> SizeSpec:
    batch = config["batch"]
    assert isinstance(batch, int)
    return SizeSpec(config=config, num_samples=batch)


_BERT = ModelSpec(
    name="bert",
    family="encoder",
    build="models_zoo.bert",
    summary="Bidirectional attention, LayerNorm and GELU: the stock of deployed text models.",
    sizes={
        "tiny": _text_size(
            vocab_size=128, hidden_size=32, num_layers=1, num_heads=2, batch=2, length=8
        ),
        "small": _text_size(
            vocab_size=1000, hidden_size=128, num_layers=2, num_heads=4, batch=4, length=64
        ),
        "full": _text_size(
            vocab_size=30522, hidden_size=768, num_layers=12, num_heads=12, batch=16, length=512
        ),
    },
)

_GPT2 = ModelSpec(
    name="gpt2",
    family="decoder",
    build="models_zoo.gpt2",
    summary="Causal attention and a vocabulary-wide projection: prefill of a classic decoder.",
    sizes={
        "tiny": _text_size(
            vocab_size=128,
            hidden_size=32,
            num_layers=1,
            num_heads=2,
            max_length=16,
            batch=2,
            length=8,
        ),
        "small": _text_size(
            vocab_size=1000,
            hidden_size=128,
            num_layers=2,
            num_heads=4,
            max_length=128,
            batch=4,
            length=64,
        ),
        "full": _text_size(
            vocab_size=50257,
            hidden_size=768,
            num_layers=12,
            num_heads=12,
            max_length=1024,
            batch=4,
            length=1024,
        ),
    },
)

_LLAMA = ModelSpec(
    name="llama",
    family="decoder",
    build="models_zoo.llama",
    summary="RMSNorm, rotary embedding, grouped-query attention and SwiGLU: the pieces of today's"
    " language models, most of which a compiler can fuse.",
    sizes={
        "tiny": _text_size(
            vocab_size=128,
            hidden_size=32,
            intermediate_size=64,
            num_layers=1,
            num_heads=4,
            num_key_value_heads=2,
            batch=2,
            length=8,
        ),
        "small": _text_size(
            vocab_size=1000,
            hidden_size=128,
            intermediate_size=384,
            num_layers=2,
            num_heads=4,
            num_key_value_heads=2,
            batch=4,
            length=64,
        ),
        "full": _text_size(
            vocab_size=128_256,
            hidden_size=2048,
            intermediate_size=8192,
            num_layers=16,
            num_heads=32,
            num_key_value_heads=8,
            batch=1,
            length=1024,
        ),
    },
)

_MOE = ModelSpec(
    name="moe",
    family="mixture-of-experts",
    build="models_zoo.moe",
    summary="Top-2 routing over eight experts: sorting, gathering and grouped matrix products whose"
    " sizes depend on the data.",
    sizes={
        "tiny": _text_size(
            vocab_size=128,
            hidden_size=32,
            intermediate_size=64,
            num_layers=1,
            num_heads=4,
            num_key_value_heads=2,
            num_experts=4,
            num_experts_per_token=2,
            batch=2,
            length=8,
        ),
        "small": _text_size(
            vocab_size=1000,
            hidden_size=128,
            intermediate_size=256,
            num_layers=2,
            num_heads=4,
            num_key_value_heads=2,
            num_experts=8,
            num_experts_per_token=2,
            batch=4,
            length=32,
        ),
        "full": _text_size(
            vocab_size=32000,
            hidden_size=4096,
            intermediate_size=14336,
            num_layers=2,
            num_heads=32,
            num_key_value_heads=8,
            num_experts=8,
            num_experts_per_token=2,
            batch=4,
            length=512,
        ),
    },
    # Rounding sends a few tokens to another expert, and their outputs elsewhere: at the full width,
    # bf16 eager alone has 0.987.
    tolerance={"bf16": Tolerance(min_cosine=0.95)},
)


_T5 = ModelSpec(
    name="t5",
    family="encoder-decoder",
    build="models_zoo.t5",
    summary="Cross-attention and a learnt position bias inside the softmax: attention that the"
    " fused kernels do not cover as it is.",
    sizes={
        "tiny": _pair_size(
            vocab_size=128,
            hidden_size=32,
            num_layers=1,
            num_heads=2,
            batch=2,
            source_length=8,
            target_length=4,
        ),
        "small": _pair_size(
            vocab_size=1000,
            hidden_size=128,
            num_layers=1,
            num_heads=4,
            batch=4,
            source_length=64,
            target_length=32,
        ),
        "full": _pair_size(
            vocab_size=32128,
            hidden_size=768,
            num_layers=12,
            num_heads=12,
            batch=8,
            source_length=512,
            target_length=128,
        ),
    },
)

_VIT = ModelSpec(
    name="vit",
    family="vision",
    build="models_zoo.vit",
    summary="Image patches through a transformer: matrix products of an odd length that fits"
    " no tile.",
    sizes={
        "tiny": _image_size(
            image_size=16,
            patch_size=8,
            hidden_size=32,
            num_layers=1,
            num_heads=2,
            num_classes=10,
            batch=2,
        ),
        "small": _image_size(
            image_size=64,
            patch_size=8,
            hidden_size=128,
            num_layers=2,
            num_heads=4,
            num_classes=100,
            batch=4,
        ),
        "full": _image_size(
            image_size=224,
            patch_size=16,
            hidden_size=768,
            num_layers=12,
            num_heads=12,
            num_classes=1000,
            batch=32,
        ),
    },
)

_RESNET = ModelSpec(
    name="resnet",
    family="vision",
    build="models_zoo.resnet",
    summary="Convolutions with batch norm and ReLU: folding, fusion and memory layout rather than"
    " matrix products.",
    sizes={
        "tiny": _image_size(
            image_size=32,
            embedding_size=8,
            hidden_sizes=(8, 16),
            depths=(1, 1),
            layer_type="basic",
            num_classes=10,
            batch=2,
        ),
        "small": _image_size(
            image_size=64,
            embedding_size=16,
            hidden_sizes=(64, 128),
            depths=(1, 1),
            layer_type="bottleneck",
            num_classes=100,
            batch=8,
        ),
        "full": _image_size(
            image_size=224,
            embedding_size=64,
            hidden_sizes=(256, 512, 1024, 2048),
            depths=(3, 4, 6, 3),
            layer_type="bottleneck",
            num_classes=1000,
            batch=64,
        ),
    },
)

_UNET = ModelSpec(
    name="unet",
    family="diffusion",
    build="models_zoo.unet",
    summary="Group norm, convolutions and cross-attention at several resolutions: one denoising"
    " step, and the longest compilation here.",
    sizes={
        "tiny": _image_size(
            latent_size=8,
            channels=(16, 32),
            layers_per_block=1,
            num_heads=2,
            num_groups=8,
            context_length=4,
            context_size=16,
            batch=1,
        ),
        "small": _image_size(
            latent_size=16,
            channels=(32, 64),
            layers_per_block=1,
            num_heads=4,
            num_groups=8,
            context_length=16,
            context_size=64,
            batch=1,
        ),
        "full": _image_size(
            latent_size=64,
            channels=(320, 640, 1280, 1280),
            layers_per_block=2,
            num_heads=8,
            num_groups=32,
            context_length=77,
            context_size=768,
            batch=2,
        ),
    },
)

_NN_TRANSFORMER = ModelSpec(
    name="nn_transformer",
    family="transformer",
    build="models_zoo.nn_transformer",
    summary="PyTorch's own layers instead of a library's: the model that compiler articles quote,"
    " in their configuration.",
    sizes={
        "tiny": _pair_size(
            hidden_size=32,
            intermediate_size=64,
            num_layers=1,
            num_heads=2,
            batch=2,
            source_length=8,
            target_length=4,
        ),
        "small": _pair_size(
            hidden_size=128,
            intermediate_size=512,
            num_layers=1,
            num_heads=4,
            batch=4,
            source_length=50,
            target_length=25,
        ),
        "full": _pair_size(
            hidden_size=512,
            intermediate_size=2048,
            num_layers=6,
            num_heads=8,
            batch=32,
            source_length=100,
            target_length=50,
        ),
    },
)

_ROWS = (_BERT, _GPT2, _LLAMA, _MOE, _T5, _VIT, _RESNET, _UNET, _NN_TRANSFORMER)

CATALOG: dict[str, ModelSpec] = {row.name: row for row in _ROWS}


def find_models(
    patterns: Sequence[str], *, catalog: Mapping[str, ModelSpec] = CATALOG
) -> tuple[ModelSpec, ...]:
    """Return the models whose name matches any glob of `patterns`, in the order of `catalog`.

    Raises UnknownNameError for a pattern that matches nothing.
    """
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in catalog):
            raise UnknownNameError(
                f"no model matches {pattern!r}.{_suggestion(pattern, catalog)}"
                f" `hud list models` shows all {len(catalog)}."
            )
    return tuple(
        spec
        for name, spec in catalog.items()
        if any(fnmatchcase(name, pattern) for pattern in patterns)
    )


def find_size(spec: ModelSpec, size: str) -> SizeSpec:
    """Return the size of `spec` called `size`; raise UnknownNameError where it has none."""
    if size not in spec.sizes:
        raise UnknownNameError(
            f"model {spec.name!r} has no shape {size!r}.{_suggestion(size, spec.sizes)}"
            f" It has {', '.join(spec.sizes)}."
        )
    return spec.sizes[size]


def _suggestion(name: str, known: Mapping[str, object]) -> str:
    near = near_names(name, known)
    return f" Did you mean {near}?" if near else ""
