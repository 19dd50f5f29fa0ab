"""T5 reading one token against filled caches, its own and that of the source: a generation step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import EncoderDecoderCache, T5Config, T5ForConditionalGeneration
from transformers.modeling_outputs import BaseModelOutput

from compile_hud.models_zoo.building.inputs import (
    attention_mask,
    seeded_weights,
    token_ids,
)
from compile_hud.models_zoo.building.static_cache import StaticCache, fill_layers

SOURCE_SEED = 8191


class LayerCache(NamedTuple):
    """The part of a layer's cache that attention reads."""

    keys: Tensor
    values: Tensor


class SourceCache(nn.Module):
    """The keys and values of the source in every layer, which no step changes."""

    def __init__(self, *shape: int, num_layers: int) -> None:
        """Fill `num_layers` caches of `shape`: batch, heads, source length, size of a head."""
        super().__init__()
        fill_layers(self, *shape, num_layers=num_layers, seed=SOURCE_SEED)
        self.num_layers = num_layers

    @property
    def layers(self) -> list[LayerCache]:
        """Return the keys and values of each layer."""
        return [
            LayerCache(self.get_buffer(f"keys_{layer}"), self.get_buffer(f"values_{layer}"))
            for layer in range(self.num_layers)
        ]


class FilledCaches(EncoderDecoderCache):  # type: ignore[misc]
    """Both caches under the class that T5 looks for; the source is already in its cache."""

    def __init__(self, target: StaticCache, source: SourceCache) -> None:
        self.self_attention_cache: Any = target
        self.cross_attention_cache: Any = source
        self.is_updated = dict.fromkeys(range(source.num_layers), True)

    def get_seq_length(self, layer_idx: int = 0) -> Any:
        """Return the number of tokens in the cache, as a tensor."""
        del layer_idx
        return self.self_attention_cache.position


class OneTokenTranslator(nn.Module):
    """T5 that returns the logits of the next token, (batch, 1, vocabulary)."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        batch, num_heads, num_layers = config["batch"], config["num_heads"], config["num_layers"]
        head_size = config["hidden_size"] // num_heads
        self.inner = T5ForConditionalGeneration(
            T5Config(
                vocab_size=config["vocab_size"],
                d_model=config["hidden_size"],
                d_kv=head_size,
                d_ff=4 * config["hidden_size"],
                num_layers=num_layers,
                num_decoder_layers=num_layers,
                num_heads=num_heads,
                dropout_rate=0.0,
            )
        )
        self.cache = StaticCache(
            batch,
            num_heads,
            config["cache_length"],
            head_size,
            num_layers=num_layers,
            position=config["position"],
        )
        source_length = config["source_length"]
        self.source = SourceCache(batch, num_heads, source_length, head_size, num_layers=num_layers)
        # Only its shape is read: the keys and values made of it are in the cache.
        self.register_buffer("states", torch.zeros(batch, source_length, config["hidden_size"]))

    def forward(self, decoder_input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Return the logits that follow `decoder_input_ids`, (batch, 1).

        `attention_mask` is that of the source.
        """
        logits: Tensor = self.inner(
            encoder_outputs=BaseModelOutput(last_hidden_state=self.get_buffer("states")),
            attention_mask=attention_mask,
            decoder_input_ids=decoder_input_ids,
            decoder_attention_mask=self.cache.mask(),
            past_key_values=FilledCaches(self.cache, self.source),
            use_cache=True,
        ).logits
        return logits


def build(config: Mapping[str, Any]) -> nn.Module:
    """Return the model of `config` on the CPU in fp32."""
    return seeded_weights(lambda: OneTokenTranslator(config))


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return the keyword arguments of one iteration."""
    ids = token_ids(config["batch"], 1, vocab_size=config["vocab_size"], seed=seed)
    mask = attention_mask(config, length=config["source_length"])
    return {"decoder_input_ids": ids, **mask}
