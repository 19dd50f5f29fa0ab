"""GPT-2 reading one token against a filled key-value cache: a step of generation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

from models_zoo.inputs import seeded_weights, token_ids
from models_zoo.static_cache import StaticCache


class OneTokenDecoder(nn.Module):
    """GPT-2 that returns the logits of the next token, (batch, 1, vocabulary)."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.inner = GPT2LMHeadModel(
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
        self.cache = StaticCache(
            config["batch"],
            config["num_heads"],
            config["cache_length"],
            config["hidden_size"] // config["num_heads"],
            num_layers=config["num_layers"],
            position=config["position"],
        )

    def forward(self, input_ids: Tensor) -> Tensor:
        outputs = self.inner(
            input_ids=input_ids,
            position_ids=self.cache.position[None],
            attention_mask=self.cache.mask(),
            past_key_values=self.cache,
            use_cache=True,
        )
        logits: Tensor = outputs.logits
        return logits


def build(config: Mapping[str, Any]) -> nn.Module:
    """Return the model of `config` on the CPU in fp32."""
    return seeded_weights(lambda: OneTokenDecoder(config))


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return the keyword arguments of one iteration."""
    batch, length = config["batch"], config["length"]
    return {"input_ids": token_ids(batch, length, vocab_size=config["vocab_size"], seed=seed)}
