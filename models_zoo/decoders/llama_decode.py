"""Llama 3 reading one token against a filled key-value cache: a step of generation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from transformers import LlamaForCausalLM

from compile_hud.models_zoo.building.inputs import seeded_weights, token_ids
from compile_hud.models_zoo.building.static_cache import OneTokenDecoder, StaticCache
from compile_hud.models_zoo.decoders.llama_config import llama_config


def _decoder(config: Mapping[str, Any]) -> OneTokenDecoder:
    inner = LlamaForCausalLM(llama_config(config))
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
