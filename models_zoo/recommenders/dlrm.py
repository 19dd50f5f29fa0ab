"""DLRM: a recommender of embedding tables, their dot products and two small networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from compile_hud.models_zoo.building.inputs import normal, seeded_weights, token_ids

NUM_DENSE_FEATURES = 13


class Recommender(nn.Module):
    """DLRM that returns the logit of a click, (batch, 1)."""

    pairs: Tensor

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        width, table_sizes = config["embedding_size"], config["table_sizes"]
        self.tables = nn.ModuleList(
            nn.EmbeddingBag(size, width, mode="sum") for size in table_sizes
        )
        self.bottom = _layers((NUM_DENSE_FEATURES, *config["bottom_sizes"], width))
        self.bottom.append(nn.ReLU())
        num_vectors = len(table_sizes) + 1
        self.register_buffer("pairs", torch.tril_indices(num_vectors, num_vectors, offset=-1))
        num_pairs = num_vectors * (num_vectors - 1) // 2
        self.top = _layers((width + num_pairs, *config["top_sizes"], 1))

    def forward(self, dense: Tensor, sparse: Tensor) -> Tensor:
        bottom = self.bottom(dense)
        looked_up = [table(sparse[:, index : index + 1]) for index, table in enumerate(self.tables)]
        vectors = torch.stack([bottom, *looked_up], dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        below_diagonal = products[:, self.pairs[0], self.pairs[1]]
        logits: Tensor = self.top(torch.cat([bottom, below_diagonal], dim=1))
        return logits


def _layers(sizes: Sequence[int]) -> nn.Sequential:
    layers = nn.Sequential()
    for size, next_size in pairwise(sizes):
        if len(layers):
            layers.append(nn.ReLU())
        layers.append(nn.Linear(size, next_size))
    return layers


def build(config: Mapping[str, Any]) -> nn.Module:
    """Return the model of `config` on the CPU in fp32."""
    return seeded_weights(lambda: Recommender(config))


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return the keyword arguments of one iteration: 13 numbers and one row of each table."""
    batch = config["batch"]
    columns = [
        token_ids(batch, vocab_size=size, seed=seed + 1 + 100 * index)
        for index, size in enumerate(config["table_sizes"])
    ]
    return {
        "dense": normal(batch, NUM_DENSE_FEATURES, seed=seed),
        "sparse": torch.stack(columns, dim=1),
    }
