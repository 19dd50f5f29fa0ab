"""Key-value caches of fixed size: one is written at one position, the other token by token."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from compile_hud.models_zoo.building.inputs import normal

CACHE_SEED = 7


class StaticCache(nn.Module):
    """The keys and values of every layer, as if the tokens before `position` had been read.

    It implements the part of transformers' cache that attention calls. Theirs counts its tokens,
    and so would do other work in each iteration; this one always writes at `position`. The tensors
    are buffers, so that they follow the model to its device and dtype, and never move: a CUDA graph
    may write to them.
    """

    position: Tensor

    def __init__(self, *shape: int, num_layers: int, position: int) -> None:
        """Fill `num_layers` caches of `shape`: batch, heads, length, size of a head."""
        super().__init__()
        self.length = shape[2]
        self.register_buffer("position", torch.tensor([position]))
        fill_layers(self, *shape, num_layers=num_layers, seed=CACHE_SEED)

    def update(self, keys: Tensor, values: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        """Write the keys and values of one token; return those of all positions."""
        return (
            _written(self.get_buffer(f"keys_{layer}"), keys, at=self.position),
            _written(self.get_buffer(f"values_{layer}"), values, at=self.position),
        )

    def mask(self) -> Tensor:
        """Return the positions that the token at `position` sees, (1, 1, 1, length)."""
        positions = torch.arange(self.length, device=self.position.device)
        return (positions <= self.position)[None, None, None]


class OneTokenDecoder(nn.Module):
    """A decoder of transformers that reads one token against a filled cache: a step of generation.

    It returns the logits of the next token, (batch, 1, vocabulary).
    """

    def __init__(self, inner: nn.Module, *, cache: StaticCache) -> None:
        super().__init__()
        self.inner = inner
        self.cache = cache

    def forward(self, input_ids: Tensor) -> Tensor:
        """Return the logits that follow `input_ids`, (batch, 1)."""
        outputs = self.inner(
            input_ids=input_ids,
            position_ids=self.cache.position[None],
            attention_mask=self.cache.mask(),
            past_key_values=self.cache,
            use_cache=True,
        )
        logits: Tensor = outputs.logits
        return logits


class GrowingCache(nn.Module):
    """Keys and values of every layer in memory of a fixed size, written at given positions.

    Each iteration begins with an empty cache: older values are never seen.
    """

    def __init__(self, *shape: int, num_layers: int) -> None:
        """Allocate `num_layers` caches of `shape`: batch, heads, length, size of a head."""
        super().__init__()
        self.length = shape[2]
        self.register_buffer("positions", torch.arange(self.length))
        for layer in range(num_layers):
            for kind in ("keys", "values"):
                self.register_buffer(f"{kind}_{layer}", torch.zeros(*shape))

    def all_positions(self) -> Tensor:
        """Return all positions, (length,)."""
        return self.get_buffer("positions")

    def at(self, positions: Tensor) -> CacheWriter:
        """Return the cache that attention writes at `positions`."""
        return CacheWriter(cache=self, positions=positions)

    def mask(self, positions: Tensor) -> Tensor:
        """Return the positions that the tokens at `positions` see, (1, 1, tokens, length)."""
        return (self.all_positions() <= positions[:, None])[None, None]


@dataclass(frozen=True)
class CacheWriter:
    """The part of transformers' cache that attention calls, for one pass over some tokens."""

    cache: GrowingCache
    positions: Tensor

    def update(self, keys: Tensor, values: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        """Write the keys and values of the tokens; return those of all positions."""
        return (
            _written(self.cache.get_buffer(f"keys_{layer}"), keys, at=self.positions),
            _written(self.cache.get_buffer(f"values_{layer}"), values, at=self.positions),
        )


def fill_layers(cache: nn.Module, *shape: int, num_layers: int, seed: int) -> None:
    """Register the keys and values of `num_layers` layers, of `shape`, as buffers of `cache`."""
    for layer in range(num_layers):
        for offset, kind in enumerate(("keys", "values")):
            filling = normal(*shape, seed=seed + 2 * layer + offset)
            cache.register_buffer(f"{kind}_{layer}", filling)


def _written(cache: Tensor, new: Tensor, *, at: Tensor) -> Tensor:
    # Under autocast the projections come in half precision.
    return cache.index_copy_(2, at, new.to(cache.dtype))
