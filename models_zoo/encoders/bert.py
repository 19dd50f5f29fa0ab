"""BERT with its masked-language-model head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from transformers import BertConfig, BertForMaskedLM

from compile_hud.models_zoo.building.inputs import seeded_weights, tokenized


class MaskedLanguageModel(nn.Module):
    """BERT that returns its logits, (batch, length, vocabulary)."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.inner = language_model(config)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        logits: Tensor = self.inner(input_ids=input_ids, attention_mask=attention_mask).logits
        return logits


def language_model(config: Mapping[str, Any]) -> BertForMaskedLM:
    """Return transformers' model of `config`, without dropout."""
    return BertForMaskedLM(
        BertConfig(
            vocab_size=config["vocab_size"],
            hidden_size=config["hidden_size"],
            intermediate_size=4 * config["hidden_size"],
            num_hidden_layers=config["num_layers"],
            num_attention_heads=config["num_heads"],
            max_position_embeddings=config["max_length"],
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    )


def build(config: Mapping[str, Any]) -> nn.Module:
    """Return the model of `config` on the CPU in fp32."""
    return seeded_weights(lambda: MaskedLanguageModel(config))


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return the keyword arguments of one iteration."""
    return tokenized(config, seed=seed)
