"""Llama 3 with grouped-query attention and Llama 3's scaled rotary embedding, without a cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from compile_hud.models_zoo.building.inputs import seeded_weights, token_ids


class CausalLanguageModel(nn.Module):
    """Llama that returns its logits, (batch, length, vocabulary)."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.inner = LlamaForCausalLM(
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
                use_cache=False,
            )
        )

    def forward(self, input_ids: Tensor) -> Tensor:
        logits: Tensor = self.inner(input_ids=input_ids).logits
        return logits


def build(config: Mapping[str, Any]) -> nn.Module:
    """Return the model of `config` on the CPU in fp32."""
    return seeded_weights(lambda: CausalLanguageModel(config))


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return the keyword arguments of one iteration."""
    batch, length = config["batch"], config["length"]
    return {"input_ids": token_ids(batch, length, vocab_size=config["vocab_size"], seed=seed)}
