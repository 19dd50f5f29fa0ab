"""The configuration of Llama 3, which each of its models has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers import LlamaConfig


def llama_config(config: Mapping[str, Any], *, use_cache: bool = True) -> LlamaConfig:
    """Return the sizes of `config` with Llama 3's scaled rotary embedding."""
    return LlamaConfig(
        vocab_size=config["vocab_size"],
        hidden_size=config["hidden_size"],
        intermediate_size=config["intermediate_size"],
        num_hidden_layers=config["num_layers"],
        num_attention_heads=config["num_heads"],
        num_key_value_heads=config["num_key_value_heads"],
        max_position_embeddings=131_072,
        rms_norm_eps=1e-5,
        rope_parameters={
            "rope_type": "llama3",
            "rope_theta": 500_000.0,
            "factor": 32.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
        tie_word_embeddings=True,
        use_cache=use_cache,
    )
