"""Decoders: attention sees what came before."""

from __future__ import annotations

from models_zoo.rows.sizes import text_size
from models_zoo.spec import ModelSpec, Tolerance

_GPT2 = ModelSpec(
    name="gpt2",
    family="decoder",
    build="models_zoo.gpt2",
    summary="Causal attention and a vocabulary-wide projection: prefill of a classic decoder.",
    sizes={
        "tiny": text_size(
            vocab_size=128,
            hidden_size=32,
            num_layers=1,
            num_heads=2,
            max_length=16,
            batch=2,
            length=8,
        ),
        "small": text_size(
            vocab_size=1000,
            hidden_size=128,
            num_layers=2,
            num_heads=4,
            max_length=128,
            batch=4,
            length=64,
        ),
        "full": text_size(
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
        "tiny": text_size(
            vocab_size=128,
            hidden_size=32,
            intermediate_size=64,
            num_layers=1,
            num_heads=4,
            num_key_value_heads=2,
            batch=2,
            length=8,
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
        ),
    },
    # Rounding sends a few tokens to another expert, and their outputs elsewhere: at the full width,
    # bf16 eager alone has 0.987.
    tolerance={"bf16": Tolerance(min_cosine=0.95)},
)

ROWS = (
    _GPT2,
    _LLAMA,
    _MOE,
)
