"""A language model of stacked LSTM layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from compile_hud.models_zoo.building.inputs import seeded_weights, token_ids


class RecurrentLanguageModel(nn.Module):
    """Embedding, `nn.LSTM` and projection; returns its logits, (batch, length, vocabulary)."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        width = config["hidden_size"]
        self.embedding = nn.Embedding(config["vocab_size"], width)
        self.lstm = nn.LSTM(width, width, num_layers=config["num_layers"], batch_first=True)
        self.head = nn.Linear(width, config["vocab_size"])

    def forward(self, input_ids: Tensor) -> Tensor:
        states, _ = self.lstm(self.embedding(input_ids))
        logits: Tensor = self.head(states)
        return logits


def build(config: Mapping[str, Any]) -> nn.Module:
    """Return the model of `config` on the CPU in fp32."""
    return seeded_weights(lambda: RecurrentLanguageModel(config))


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return the keyword arguments of one iteration."""
    batch, length = config["batch"], config["length"]
    return {"input_ids": token_ids(batch, length, vocab_size=config["vocab_size"], seed=seed)}
