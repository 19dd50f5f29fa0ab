"""GPT-2 with its language-model head, prefill without a cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

from compile_hud.models_zoo.building.inputs import prompts, seeded_weights


class CausalLanguageModel(nn.Module):
    """GPT-2 that returns its logits, (batch, length, vocabulary)."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.inner = GPT2LMHeadModel(
            GPT2Config(
                vocab_size=config["vocab_size"],
                n_embd=config["hidden_size"],
                n_layer=config["num_layers"],
                n_head=config["num_heads"],
                n_positions=config["max_length"],
                resid_pdrop=0.0,
                embd_pdrop=0.0,
                attn_pdrop=0.0,
                bos_token_id=None,
                eos_token_id=None,
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
