"""Models of optional packages, by name: `timm/resnet50`, `torchvision/resnet50`.

They have no rows: a provider and one of its names make one. Nothing here imports a provider. The
interpreter of the model checks whether it is installed and has such a model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from compile_hud.models_zoo.catalog.errors import UnknownNameError
from compile_hud.models_zoo.catalog.rows.sizes import sample_size
from compile_hud.models_zoo.catalog.spec import ModelSpec

_BUILDS = {
    "timm": "compile_hud.models_zoo.vision.from_timm",
    "torchvision": "compile_hud.models_zoo.vision.from_torchvision",
}
# Batch norm needs at least two images if the last map is one pixel.
_BATCHES = {"tiny": 2, "small": 4, "full": 32}


def provided_models(names: Iterable[str]) -> dict[str, ModelSpec]:
    """Return the rows of those of `names` that begin with a provider's, by name.

    Raises UnknownNameError for a glob, since nothing here knows the models of a provider.
    """
    split = ((name, *name.partition("/")[::2]) for name in names)
    return {
        name: _row(name, provider=provider, architecture=architecture)
        for name, provider, architecture in split
        if provider in _BUILDS and name != provider
    }


def _row(name: str, *, provider: str, architecture: str) -> ModelSpec:
    if not re.fullmatch(r"[A-Za-z0-9_.]+", architecture):
        raise UnknownNameError(
            f"no model matches {name!r}: models of {provider} are named one by one and in full, as"
            f" in {provider}/resnet50.",
            model=name,
            provider=provider,
        )
    sizes = {
        size: sample_size(architecture=architecture, batch=batch)
        for size, batch in _BATCHES.items()
    }
    return ModelSpec(
        name=name,
        family="vision",
        build=_BUILDS[provider],
        summary=f"From {provider}, as it is there.",
        sizes=sizes,
    )
