"""BERT behind a server that batches requests: a stream of batches of changing size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from compile_hud.models_zoo.building.inputs import seeded_weights, tokenized
from compile_hud.models_zoo.encoders.bert import language_model

# The shares of the largest batch that come one after the other: full ones, small ones, single ones.
SHARES = (1.0, 0.25, 0.5, 0.0, 0.75, 1.0, 0.125, 0.375)


class BatchedLanguageModel(nn.Module):
    """BERT that returns the logits of all requests, (batch, length, vocabulary).

    The loop over batches is Python, as in a server. A compiler sees a batch of a new size each
    time.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.largest = config["largest_batch"]
        self.inner = language_model(config)

    # Dynamo skips the loop and compiles what it calls.
    @torch.compiler.disable(recursive=False)  # type: ignore[untyped-decorator]
    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        logits, begin = [], 0
        for size in batch_sizes(len(input_ids), largest=self.largest):
            if begin and input_ids.is_cuda:
                # Each replay of a CUDA graph is an iteration of its own.
                torch.compiler.cudagraph_mark_step_begin()
            batch = slice(begin, begin + size)
            # The next replay writes to the same memory.
            mask = None if attention_mask is None else attention_mask[batch]
            logits.append(self.read(input_ids[batch], mask).clone())
            begin += size
        return torch.cat(logits)

    def read(self, input_ids: Tensor, attention_mask: Tensor | None) -> Tensor:
        """Return the logits of one batch."""
        logits: Tensor = self.inner(input_ids=input_ids, attention_mask=attention_mask).logits
        return logits


def batch_sizes(num_requests: int, *, largest: int) -> list[int]:
    """Return the sizes of the batches of a stream, from 1 to `largest`."""
    sizes: list[int] = []
    while num_requests > 0:
        share = SHARES[len(sizes) % len(SHARES)]
        sizes.append(min(num_requests, max(1, round(share * largest))))
        num_requests -= sizes[-1]
    return sizes


def build(config: Mapping[str, Any]) -> nn.Module:
    """Return the model of `config` on the CPU in fp32."""
    return seeded_weights(lambda: BatchedLanguageModel(config))


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return the keyword arguments of one iteration: the requests of the whole stream."""
    return tokenized(config, seed=seed)
