"""Qwen 3 with its normalised queries and keys, without a cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from transformers import Qwen3Config, Qwen3ForCausalLM

from compile_hud.models_zoo.building.inputs import prompts, seeded_weights


class CausalLanguageModel(nn.Module):
    """Qwen that returns its logits, (batch, length, vocabulary)."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.inner = Qwen3ForCausalLM(
            Qwen3Config(
                vocab_size=config["vocab_size"],
                hidden_size=config["hidden_size"],
                intermediate_size=config["intermediate_size"],
                num_hidden_layers=config["num_layers"],
                num_attention_heads=config["num_heads"],
                num_key_value_heads=config["num_key_value_heads"],
                head_dim=config["head_size"],
                max_position_embeddings=40_960,
                rope_parameters={"rope_type": "default", "rope_theta": 1_000_000.0},
                tie_word_embeddings=True,
                use_cache=False,
            )
        )

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        logits: Tensor = self.inner(input_ids=input_ids, attention_mask=attention_mask).logits
        return logits


def build(config: Mapping[str, Any]) -> nn.Module:
    """Return the model of `config` on the CPU in fp32."""
    return seeded_weights(lambda: CausalLanguageModel(config))


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return the keyword arguments of one iteration."""
    return prompts(config, seed=seed)
