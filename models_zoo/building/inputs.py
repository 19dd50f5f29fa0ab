"""Seeded weights and inputs, so that every process measures the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

ModuleT = TypeVar("ModuleT", bound=nn.Module)

WEIGHTS_SEED = 0


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's CPU generator inside, and restore it afterwards; no accelerator is touched."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def seeded_weights(factory: Callable[[], ModuleT]) -> ModuleT:
    """Return `factory()` with weights that are the same in every process."""
    with seeded(WEIGHTS_SEED):
        return factory()


def token_ids(*shape: int, vocab_size: int, seed: int) -> Tensor:
    """Return int64 token ids below `vocab_size`."""
    return torch.randint(0, vocab_size, shape, generator=_generator(seed))


def tokenized(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return token ids and the mask of a tokenizer for a batch of texts.

    The `mask` of the configuration is `ones`, which is the default, `padded` or `none`.
    """
    batch, length = config["batch"], config["length"]
    inputs = {"input_ids": token_ids(batch, length, vocab_size=config["vocab_size"], seed=seed)}
    mask = config.get("mask", "ones")
    if mask != "none":
        inputs["attention_mask"] = padding_mask(batch, length, is_padded=mask == "padded")
    return inputs


def padding_mask(batch: int, length: int, *, is_padded: bool) -> Tensor:
    """Return the int64 mask of a tokenizer: 1 for a token, 0 for padding, (batch, length).

    Without padding every text has `length` tokens. With padding the first has, and each later one
    is shorter by the same step, down to a half.
    """
    mask = torch.ones(batch, length, dtype=torch.int64)
    if is_padded:
        for row in range(batch):
            mask[row, length - row * length // (2 * batch) :] = 0
    return mask


def normal(*shape: int, seed: int) -> Tensor:
    """Return fp32 standard normal values: images, latents, embeddings."""
    return torch.randn(shape, generator=_generator(seed))


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
