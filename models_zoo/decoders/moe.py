"""Mixtral: a decoder whose feed-forward blocks are sparse mixtures of experts, without a cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers import MixtralConfig, MixtralForCausalLM

from compile_hud.models_zoo.building.inputs import prompts, seeded_weights


class CausalLanguageModel(nn.Module):
    """Mixtral that returns its logits, (batch, length, vocabulary)."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.inner = MixtralForCausalLM(
            MixtralConfig(
                vocab_size=config["vocab_size"],
                hidden_size=config["hidden_size"],
                intermediate_size=config["intermediate_size"],
                num_hidden_layers=config["num_layers"],
                num_attention_heads=config["num_heads"],
                num_key_value_heads=config["num_key_value_heads"],
                num_local_experts=config["num_experts"],
                num_experts_per_tok=config["num_experts_per_token"],
                output_router_logits=False,
                use_cache=False,
            )
        )

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        logits: Tensor = self.inner(input_ids=input_ids, attention_mask=attention_mask).logits
        return logits

    # nn.Module's own hook behind to(), double() and cuda().
    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> CausalLanguageModel:
        super()._apply(fn, recurse)
        # Grouped matrix products exist up to fp32; the fp64 oracle loops over the experts.
        is_fp64 = next(self.parameters()).dtype is torch.float64
        self.inner.set_experts_implementation("eager" if is_fp64 else "grouped_mm")
        return self


def build(config: Mapping[str, Any]) -> nn.Module:
    """Return the model of `config` on the CPU in fp32."""
    return seeded_weights(lambda: CausalLanguageModel(config))


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return the keyword arguments of one iteration."""
    return prompts(config, seed=seed)
