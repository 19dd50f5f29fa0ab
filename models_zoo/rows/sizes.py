"""Sizes by the kind of input: what an iteration reads, from the configuration."""

from __future__ import annotations

from collections.abc import Mapping

from models_zoo.spec import ConfigValue, SizeSpec


def text_size(**config: ConfigValue) -> SizeSpec:
    """Return the size whose iteration reads `batch` texts of `length` tokens."""
    return SizeSpec(
        config=config,
        num_samples=_number(config, "batch"),
        num_tokens=_number(config, "batch") * _number(config, "length"),
    )


def pair_size(**config: ConfigValue) -> SizeSpec:
    """Return the size whose iteration reads `batch` pairs of a source and a target text."""
    length = _number(config, "source_length") + _number(config, "target_length")
    batch = _number(config, "batch")
    return SizeSpec(config=config, num_samples=batch, num_tokens=batch * length)


def step_size(**config: ConfigValue) -> SizeSpec:
    """Return the size whose iteration reads the next token of `batch` texts."""
    batch = _number(config, "batch")
    return SizeSpec(config=config, num_samples=batch, num_tokens=batch)


def sample_size(**config: ConfigValue) -> SizeSpec:
    """Return the size whose iteration reads `batch` samples that have no tokens."""
    return SizeSpec(config=config, num_samples=_number(config, "batch"))


def _number(config: Mapping[str, ConfigValue], name: str) -> int:
    number = config[name]
    assert isinstance(number, int)
    return number
