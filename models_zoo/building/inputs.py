"""Seeded weights and inputs, so that every process measures the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

ModuleT = TypeVar("ModuleT", bound=nn.Module)
MovableT = TypeVar("MovableT", nn.Module, Tensor)

WEIGHTS_SEED = 0
_MEMORY_FORMATS = {"channels_last": torch.channels_last}


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

    The `mask` of the configuration is `ones`, `padded` or `none`.
    """
    batch, length = config["batch"], config["length"]
    ids = token_ids(batch, length, vocab_size=config["vocab_size"], seed=seed)
    return {"input_ids": ids, **attention_mask(config, length=length)}


def prompts(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return token ids and mask as a tokenizer does that pads on the left, for generation."""
    inputs = tokenized(config, seed=seed)
    if "attention_mask" in inputs:
        inputs["attention_mask"] = inputs["attention_mask"].flip(1)
    return inputs


def attention_mask(config: Mapping[str, Any], *, length: int) -> dict[str, Tensor]:
    """Return the mask of `config["mask"]` by its name in transformers; empty for `none`.

    It is int64, 1 for a token and 0 for padding, (batch, length). For `ones` every text has
    `length` tokens. For `padded` the first has, and each later one is shorter by the same step,
    down to a half.
    """
    batch, kind = config["batch"], config["mask"]
    if kind == "none":
        return {}
    mask = torch.ones(batch, length, dtype=torch.int64)
    if kind == "padded":
        for row in range(batch):
            mask[row, length - row * length // (2 * batch) :] = 0
    return {"attention_mask": mask}


def pixel_mask(config: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return the mask of an image processor by its name: 1 for a pixel of the image.

    It is (batch, side, side). For the `mask` `padded` the later images are lower, by the steps of
    `attention_mask`.
    """
    side = config["image_size"]
    rows = attention_mask(config, length=side).get("attention_mask")
    return {} if rows is None else {"pixel_mask": rows[:, :, None].repeat(1, 1, side)}


def images(config: Mapping[str, Any], *, seed: int) -> Tensor:
    """Return a batch of square images in the memory format of `config`."""
    side = config["image_size"]
    return in_memory_format(normal(config["batch"], 3, side, side, seed=seed), config)


def in_memory_format(item: MovableT, config: Mapping[str, Any]) -> MovableT:
    """Return a model or images in the `memory_format` of `config`, which may be missing."""
    name = config.get("memory_format", "contiguous")
    if name == "contiguous":
        return item
    moved: MovableT = item.to(memory_format=_MEMORY_FORMATS[name])  # type: ignore[call-overload]
    return moved


def normal(*shape: int, seed: int) -> Tensor:
    """Return fp32 standard normal values: images, latents, embeddings."""
    return torch.randn(shape, generator=_generator(seed))


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
