"""Llama 3 with grouped-query attention and Llama 3's scaled rotary embedding, without a cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from transformers import LlamaForCausalLM

from compile_hud.models_zoo.building.inputs import prompts, seeded_weights
from compile_hud.models_zoo.decoders.llama_config import llama_config


class CausalLanguageModel(nn.Module):
    """Llama that returns its logits, (batch, length, vocabulary)."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.inner = LlamaForCausalLM(llama_config(config, use_cache=False))

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        logits: Tensor = self.inner(input_ids=input_ids, attention_mask=attention_mask).logits
        return logits


def build(config: Mapping[str, Any]) -> nn.Module:
    """Return the model of `config` on the CPU in fp32."""
    return seeded_weights(lambda: CausalLanguageModel(config))


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return the keyword arguments of one iteration."""
    return prompts(config, seed=seed)
