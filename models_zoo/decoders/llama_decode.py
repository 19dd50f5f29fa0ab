"""Llama 3 reading one token against a filled key-value cache: a step of generation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from compile_hud.models_zoo.building.inputs import seeded_weights, token_ids
from compile_hud.models_zoo.decoders.static_cache import OneTokenDecoder, StaticCache


def _decoder(config: Mapping[str, Any]) -> OneTokenDecoder:
    inner = LlamaForCausalLM(
        LlamaConfig(
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
        )
    )
    cache = StaticCache(
        config["batch"],
        config["num_key_value_heads"],
        config["cache_length"],
        config["hidden_size"] // config["num_heads"],
        num_layers=config["num_layers"],
        position=config["position"],
    )
    return OneTokenDecoder(inner, cache=cache)


def build(config: Mapping[str, Any]) -> nn.Module:
    """Return the model of `config` on the CPU in fp32."""
    return seeded_weights(lambda: _decoder(config))


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return the keyword arguments of one iteration."""
    ids = token_ids(config["batch"], 1, vocab_size=config["vocab_size"], seed=seed)
    return {"input_ids": ids}
