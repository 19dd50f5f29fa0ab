"""Decoders: each token sees only earlier ones."""

from __future__ import annotations

from compile_hud.models_zoo.catalog.rows.attention_notes import PACKING
from compile_hud.models_zoo.catalog.rows.sizes import named_shapes, pair_size, step_size, text_size
from compile_hud.models_zoo.catalog.spec import ModelSpec, SweepSpec, Tolerance

_GPT2_SIZES = {
    "tiny": text_size(
        vocab_size=128,
        hidden_size=32,
        num_layers=1,
        num_heads=2,
        max_length=16,
        batch=2,
        length=8,
        mask="none",
    ),
    "small": text_size(
        vocab_size=1000,
        hidden_size=128,
        num_layers=2,
        num_heads=4,
        max_length=128,
        batch=4,
        length=64,
        mask="none",
    ),
    "full": text_size(
        vocab_size=50257,
        hidden_size=768,
        num_layers=12,
        num_heads=12,
        max_length=1024,
        batch=4,
        length=1024,
        mask="none",
    ),
}
_GPT2 = ModelSpec(
    name="gpt2",
    family="decoder",
    build="compile_hud.models_zoo.decoders.gpt2",
    summary="Causal attention and a vocabulary-wide projection: prefill of a classic decoder.",
    sizes=_GPT2_SIZES,
    shapes=named_shapes(_GPT2_SIZES, masked={"mask": "ones"}, padded={"mask": "padded"}),
    sweep=SweepSpec(axis="length"),
    attention_note=PACKING,
)

_LLAMA_SIZES = {
    "tiny": text_size(
        vocab_size=128,
        hidden_size=32,
        intermediate_size=64,
        num_layers=1,
        num_heads=4,
        num_key_value_heads=2,
        batch=2,
        length=8,
        mask="none",
    ),
    "small": text_size(
        vocab_size=1000,
        hidden_size=128,
        intermediate_size=384,
        num_layers=2,
        num_heads=4,
        num_key_value_heads=2,
        batch=4,
        length=64,
        mask="none",
    ),
    "full": text_size(
        vocab_size=128_256,
        hidden_size=2048,
        intermediate_size=8192,
        num_layers=16,
        num_heads=32,
        num_key_value_heads=8,
        batch=1,
        length=1024,
        mask="none",
    ),
}
_LLAMA = ModelSpec(
    name="llama",
    family="decoder",
    build="compile_hud.models_zoo.decoders.llama",
    summary="RMSNorm, rotary embedding, grouped-query attention and SwiGLU: the pieces of today's"
    " language models, most of which a compiler can fuse.",
    sizes=_LLAMA_SIZES,
    shapes=named_shapes(_LLAMA_SIZES, masked={"mask": "ones"}, padded={"mask": "padded"}),
    sweep=SweepSpec(axis="length"),
    attention_note=PACKING,
)

_GPT2_DECODE = ModelSpec(
    name="gpt2_decode",
    family="decoder",
    build="compile_hud.models_zoo.decoders.gpt2_decode",
    summary="One token of each text against a filled key-value cache: launching and reading the"
    " weights, hardly any arithmetic.",
    sizes={
        "tiny": step_size(
            vocab_size=128,
            hidden_size=32,
            num_layers=1,
            num_heads=2,
            cache_length=16,
            position=8,
            batch=2,
        ),
        "small": step_size(
            vocab_size=1000,
            hidden_size=128,
            num_layers=2,
            num_heads=4,
            cache_length=128,
            position=64,
            batch=8,
        ),
        "full": step_size(
            vocab_size=50257,
            hidden_size=768,
            num_layers=12,
            num_heads=12,
            cache_length=1024,
            position=512,
            batch=16,
        ),
    },
    phases=("inference",),
)

_LLAMA_DECODE = ModelSpec(
    name="llama_decode",
    family="decoder",
    build="compile_hud.models_zoo.decoders.llama_decode",
    summary="One token against a filled key-value cache with grouped queries: bound by reading"
    " the weights, which is what serving a language model is.",
    sizes={
        "tiny": step_size(
            vocab_size=128,
            hidden_size=32,
            intermediate_size=64,
            num_layers=1,
            num_heads=4,
            num_key_value_heads=2,
            cache_length=16,
            position=8,
            batch=2,
        ),
        "small": step_size(
            vocab_size=1000,
            hidden_size=128,
            intermediate_size=384,
            num_layers=2,
            num_heads=4,
            num_key_value_heads=2,
            cache_length=128,
            position=64,
            batch=8,
        ),
        "full": step_size(
            vocab_size=128_256,
            hidden_size=2048,
            intermediate_size=8192,
            num_layers=16,
            num_heads=32,
            num_key_value_heads=8,
            cache_length=2048,
            position=1024,
            batch=1,
        ),
    },
    phases=("inference",),
)

_QWEN_SIZES = {
    "tiny": text_size(
        vocab_size=128,
        hidden_size=32,
        intermediate_size=64,
        num_layers=1,
        num_heads=4,
        num_key_value_heads=2,
        head_size=16,
        batch=2,
        length=8,
        mask="none",
    ),
    "small": text_size(
        vocab_size=1000,
        hidden_size=128,
        intermediate_size=384,
        num_layers=2,
        num_heads=4,
        num_key_value_heads=2,
        head_size=64,
        batch=4,
        length=64,
        mask="none",
    ),
    "full": text_size(
        vocab_size=151_936,
        hidden_size=1024,
        intermediate_size=3072,
        num_layers=28,
        num_heads=16,
        num_key_value_heads=8,
        head_size=128,
        batch=1,
        length=1024,
        mask="none",
    ),
}
_QWEN = ModelSpec(
    name="qwen",
    family="decoder",
    build="compile_hud.models_zoo.decoders.qwen",
    summary="Normalised queries and keys in front of the rotary embedding, and heads wider than"
    " the model: many small norms to fuse.",
    sizes=_QWEN_SIZES,
    shapes=named_shapes(_QWEN_SIZES, masked={"mask": "ones"}, padded={"mask": "padded"}),
    sweep=SweepSpec(axis="length"),
    attention_note=PACKING,
)

_MOE_SIZES = {
    "tiny": text_size(
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
        mask="none",
    ),
    "small": text_size(
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
        mask="none",
    ),
    "full": text_size(
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
        mask="none",
    ),
}
_MOE = ModelSpec(
    name="moe",
    family="mixture-of-experts",
    build="compile_hud.models_zoo.decoders.moe",
    summary="Top-2 routing over eight experts: sorting, gathering and grouped matrix products whose"
    " sizes depend on the data.",
    sizes=_MOE_SIZES,
    shapes=named_shapes(_MOE_SIZES, masked={"mask": "ones"}, padded={"mask": "padded"}),
    # Rounding sends a few tokens to another expert, and so changes their outputs: at the full
    # width, even bf16 eager has 0.987.
    tolerance={"bf16": Tolerance(min_cosine=0.95)},
    sweep=SweepSpec(axis="length"),
    attention_note=PACKING,
)

_MAMBA = ModelSpec(
    name="mamba",
    family="state-space",
    build="compile_hud.models_zoo.decoders.mamba",
    summary="A selective scan instead of attention: long chains of element-wise work on tensors"
    " that eager mode writes out and a compiler need not.",
    sizes={
        "tiny": text_size(
            vocab_size=128,
            hidden_size=32,
            state_size=4,
            num_layers=1,
            batch=2,
            length=8,
        ),
        "small": text_size(
            vocab_size=1000,
            hidden_size=64,
            state_size=8,
            num_layers=2,
            batch=2,
            length=32,
        ),
        "full": text_size(
            vocab_size=50_280,
            hidden_size=768,
            state_size=16,
            num_layers=24,
            batch=1,
            length=1024,
        ),
    },
    sweep=SweepSpec(axis="length"),
)

_LLAMA_GENERATE = ModelSpec(
    name="llama_generate",
    family="decoder",
    build="compile_hud.models_zoo.decoders.llama_generate",
    summary="A prompt and 32 new tokens in a Python loop: two graphs, and launching between them,"
    " token by token.",
    # The source is the prompt, and the target the new tokens.
    sizes={
        "tiny": pair_size(
            vocab_size=128,
            hidden_size=32,
            intermediate_size=64,
            num_layers=1,
            num_heads=4,
            num_key_value_heads=2,
            batch=2,
            source_length=8,
            target_length=4,
        ),
        "small": pair_size(
            vocab_size=1000,
            hidden_size=128,
            intermediate_size=384,
            num_layers=2,
            num_heads=4,
            num_key_value_heads=2,
            batch=1,
            source_length=32,
            target_length=32,
        ),
        "full": pair_size(
            vocab_size=128_256,
            hidden_size=2048,
            intermediate_size=8192,
            num_layers=16,
            num_heads=32,
            num_key_value_heads=8,
            batch=1,
            source_length=1024,
            target_length=32,
        ),
    },
    phases=("inference",),
)

ROWS = (
    _GPT2,
    _GPT2_DECODE,
    _LLAMA,
    _LLAMA_DECODE,
    _LLAMA_GENERATE,
    _QWEN,
    _MOE,
    _MAMBA,
)
