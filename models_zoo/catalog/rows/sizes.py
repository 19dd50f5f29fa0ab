"""Sizes by the kind of input: the samples and tokens of an iteration, from the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from compile_hud.models_zoo.catalog.shapes import make_size
from compile_hud.models_zoo.catalog.spec import ConfigValue, NamedShape, SizeSpec


def text_size(**config: ConfigValue) -> SizeSpec:
    """Return the size whose iteration reads `batch` texts of `length` tokens."""
    return _size(config, "batch", "length")


def pair_size(**config: ConfigValue) -> SizeSpec:
    """Return the size whose iteration reads `batch` pairs of a source and a target text."""
    return _size(config, "batch", "source_length", "target_length")


def step_size(**config: ConfigValue) -> SizeSpec:
    """Return the size whose iteration reads the next token of `batch` texts."""
    size = _size(config, "batch")
    return replace(size, num_tokens=size.num_samples)


def sample_size(**config: ConfigValue) -> SizeSpec:
    """Return the size whose iteration reads `batch` samples that have no tokens."""
    return _size(config, "batch")


def named_shapes(
    sizes: Mapping[str, SizeSpec], **shapes: Mapping[str, ConfigValue]
) -> dict[str, NamedShape]:
    """Return `small` and `full` of `sizes` with other values: `named_shapes(sizes, padded={...})`.

    The shapes are `small_padded` and `full_padded`.
    """
    return {
        f"{size}_{name}": NamedShape(
            size=replace(sizes[size], config={**sizes[size].config, **config})
        )
        for name, config in shapes.items()
        for size in ("small", "full")
    }


def _size(config: Mapping[str, ConfigValue], *axes: str) -> SizeSpec:
    missing = set(axes) - config.keys()
    assert not missing, missing
    return make_size(config)
