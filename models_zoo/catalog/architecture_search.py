"""Transformers by their shape: `arch/8-512-8-2.67` is 8 layers, width 512, 8 heads, ratio 2.67.

They have no rows: the name has every parameter, so that a search can request any of them. Nothing
here needs torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from compile_hud.models_zoo.catalog.errors import UnknownNameError
from compile_hud.models_zoo.catalog.rows.sizes import text_size
from compile_hud.models_zoo.catalog.spec import ModelSpec

PREFIX = "arch/"
_FORM = re.compile(r"arch/(\d{1,4})-(\d{1,6})-(\d{1,4})-(\d{1,3}(?:\.\d{1,3})?)")
_EXAMPLE = f"Write {PREFIX}LAYERS-WIDTH-HEADS-RATIO, as in {PREFIX}8-512-8-2.67."
# The inputs of an iteration: texts and their length.
_INPUTS = {"tiny": (2, 8), "small": (1, 64), "full": (8, 1024)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """The shape of a transformer; `ffn_ratio` is a feed-forward block's width over the model's."""

    num_layers: int
    hidden_size: int
    num_heads: int
    ffn_ratio: float

    @property
    def name(self) -> str:
        """Return the name under which `hud run --model` measures it."""
        shape = f"{self.num_layers}-{self.hidden_size}-{self.num_heads}"
        return f"{PREFIX}{shape}-{self.ffn_ratio:g}"


def architectures(
    *,
    num_layers: Sequence[int],
    hidden_sizes: Sequence[int],
    num_heads: Sequence[int],
    ffn_ratios: Sequence[float],
) -> Iterator[Architecture]:
    """Yield every combination whose heads divide its width."""
    for layers, width, heads, ratio in product(num_layers, hidden_sizes, num_heads, ffn_ratios):
        if width % heads == 0:
            yield Architecture(
                num_layers=layers, hidden_size=width, num_heads=heads, ffn_ratio=ratio
            )


def candidate_models(names: Iterable[str]) -> dict[str, ModelSpec]:
    """Return the rows of those of `names` that begin with `arch/`, by name.

    Raises UnknownNameError for one that names no architecture.
    """
    return {name: _row(name) for name in names if name.startswith(PREFIX)}


def _row(name: str) -> ModelSpec:
    shape = _parse(name)
    sizes = {
        size: text_size(
            num_layers=shape.num_layers,
            hidden_size=shape.hidden_size,
            num_heads=shape.num_heads,
            ffn_ratio=shape.ffn_ratio,
            batch=batch,
            length=length,
        )
        for size, (batch, length) in _INPUTS.items()
    }
    return ModelSpec(
        name=name,
        family="architecture",
        build="compile_hud.models_zoo.decoders.architecture",
        summary="A candidate of a search.",
        sizes=sizes,
    )


def _parse(name: str) -> Architecture:
    match = _FORM.fullmatch(name)
    if match is None:
        raise UnknownNameError(
            f"no model matches {name!r}: it names no architecture. {_EXAMPLE}",
            model=name,
            problem="no-architecture",
        )
    layers, width, heads = (int(number) for number in match.group(1, 2, 3))
    ratio = float(match.group(4))
    if 0 in (layers, width, heads, ratio):
        raise UnknownNameError(
            f"no model matches {name!r}: nothing in it may be 0. {_EXAMPLE}",
            model=name,
            problem="zero",
        )
    if width % heads:
        raise UnknownNameError(
            f"no model matches {name!r}: {heads} heads do not divide a width of {width}."
            f" {_EXAMPLE}",
            model=name,
            problem="indivisible-width",
        )
    return Architecture(num_layers=layers, hidden_size=width, num_heads=heads, ffn_ratio=ratio)
