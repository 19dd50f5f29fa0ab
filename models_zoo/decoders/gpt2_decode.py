"""GPT-2 reading one token against a filled key-value cache: a step of generation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

from compile_hud.models_zoo.building.inputs import seeded_weights, token_ids
from compile_hud.models_zoo.building.static_cache import OneTokenDecoder, StaticCache


def _decoder(config: Mapping[str, Any]) -> OneTokenDecoder:
    inner = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=config["vocab_size"],
            n_embd=config["hidden_size"],
            n_layer=config["num_layers"],
            n_head=config["num_heads"],
            n_positions=config["cache_length"],
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=None,
            eos_token_id=None,
        )
    )
    cache = StaticCache(
        config["batch"],
        config["num_heads"],
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
