"""Shapes beyond the sizes of a model: one of its sizes with other numbers along its axes.

`small-b8-l128` is the size `small` with 8 texts of 128 tokens. An axis is a number of the
configuration that scales the inputs. Weights do not depend on one, except positions in images.
Nothing here needs torch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from compile_hud.models_zoo.catalog.errors import UnknownNameError
from compile_hud.models_zoo.catalog.spec import ConfigValue, SizeSpec

# The sizes that every model of the zoo has.
ZOO_SIZES = ("tiny", "small", "full")


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One number of a configuration that shapes vary, and the letter for it in their names.

    `unit` is the counted thing, in the singular. `at_most` and `above` name numbers of the same
    configuration that bound it, if any.
    """

    letter: str
    key: str
    unit: str
    at_most: str = ""
    above: str = ""

    @property
    def text(self) -> str:
        return f"{self.letter} ({self.key})"

    def bound(self, config: Mapping[str, ConfigValue]) -> str:
        """Return the bound of the axis in `config`, such as `length <= 512`; "" for none."""
        if self.at_most in config:
            return f"{self.key} <= {config[self.at_most]}"
        return f"{self.key} > {config[self.above]}" if self.above in config else ""

    def allows(self, value: int, *, config: Mapping[str, ConfigValue]) -> bool:
        """Return whether `value` is within the bound of `config`."""
        most, least = config.get(self.at_most, value), config.get(self.above, 0)
        assert isinstance(most, int)
        assert isinstance(least, int)
        return least < value <= most


# The order of axes in a name.
AXES = (
    Axis(letter="b", key="batch", unit="sample"),
    Axis(letter="l", key="length", unit="token", at_most="max_length"),
    Axis(letter="s", key="source_length", unit="token"),
    Axis(letter="t", key="target_length", unit="token"),
    Axis(letter="c", key="cache_length", unit="token", above="position"),
    Axis(letter="i", key="image_size", unit="pixel"),
)
# No tensor beyond it fits any device, and torch would report that in words of C++.
MAX_VALUE = 10**9
_LENGTHS = ("length", "source_length", "target_length")
_NAME = re.compile(r"(?P<size>.+?)(?P<axes>(?:-[a-z][0-9]+)+)")


class UnfitShapeError(UnknownNameError):
    """A shape that a size cannot have; the message names possible ones."""

    code: ClassVar[str] = "unfit-shape"


def axes_of(size: SizeSpec) -> tuple[Axis, ...]:
    """Return the axes that `size` has, in the order of their table."""
    return tuple(axis for axis in AXES if axis.key in size.config)


def make_size(config: Mapping[str, ConfigValue], *, num_samples: int = 1) -> SizeSpec:
    """Return the size of `config`: its samples are its `batch`, its tokens batch x lengths.

    `num_samples` is for a configuration without a batch.
    """
    batch = config.get("batch", num_samples)
    assert isinstance(batch, int)
    # A step against a cache reads no source: that is in the cache.
    read = _LENGTHS if "cache_length" not in config else ()
    lengths = [config[key] for key in read if key in config]
    tokens = sum(length for length in lengths if isinstance(length, int))
    return SizeSpec(config=config, num_samples=batch, num_tokens=batch * tokens or None)


def vary(size: SizeSpec, values: Mapping[str, int]) -> SizeSpec:
    """Return `size` with `values`, by the keys of axes, and the samples and tokens of these.

    Raises UnfitShapeError without a subject: `has no axis ...`. The caller adds the model.
    """
    axes = {axis.key: axis for axis in axes_of(size)}
    for key, value in values.items():
        if key not in axes:
            letter = next(axis.text for axis in AXES if axis.key == key)
            has = " and ".join(axis.text for axis in axes.values()) or "none"
            raise UnfitShapeError(f"has no axis {letter}; its axes: {has}", axis=key)
        if not axes[key].allows(value, config=size.config):
            raise UnfitShapeError(
                f"takes {axes[key].bound(size.config)}, not {value}", axis=key, value=value
            )
    made = make_size({**size.config, **values}, num_samples=size.num_samples)
    if made.num_tokens is None and size.num_tokens is not None:
        # The tokens of each sample are no axis and stay.
        tokens = size.num_tokens // size.num_samples * made.num_samples
        return replace(made, num_tokens=tokens)
    return made


def split_name(name: str) -> tuple[str, dict[str, int]]:
    """Return the size that `name` begins with and its values, by the keys of axes.

    A name without axes has no values. Raises UnfitShapeError for an unknown letter, for a value of
    0, for a repeated axis, for another order, and for leading zeros. Two names of one shape would
    be two series.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return name, {}
    pairs = [(part[0], int(part[1:])) for part in match["axes"][1:].split("-")]
    keys = {axis.letter: axis.key for axis in AXES}
    for letter, value in pairs:
        if letter not in keys:
            known = ", ".join(axis.text for axis in AXES)
            raise UnfitShapeError(
                f"no shape {name!r}: {letter!r} is no axis. There is {known}.",
                shape=name,
                axis=letter,
            )
        if not 0 < value <= MAX_VALUE:
            raise UnfitShapeError(
                f"no shape {name!r}: {keys[letter]} is from 1 to {MAX_VALUE}, not {value}.",
                shape=name,
                axis=keys[letter],
                value=value,
            )
    values = {keys[letter]: value for letter, value in pairs}
    proper = match["size"] + name_of(values)
    if proper != name:
        raise UnfitShapeError(f"no shape {name!r}: write it {proper!r}.", shape=name, proper=proper)
    return match["size"], values


def name_of(values: Mapping[str, int]) -> str:
    """Return the end of a shape's name for `values`, by the keys of axes: `-b8-l128`."""
    return "".join(f"-{axis.letter}{values[axis.key]}" for axis in AXES if axis.key in values)
