"""Requirements of every provider's models: its package, a known name, and no dropout."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Collection
from types import ModuleType

from torch import nn

from compile_hud.models_zoo.catalog.errors import UnavailableModelError, UnknownNameError
from compile_hud.models_zoo.catalog.spec import near_names

# The modules of all providers that drop values at random, and their probability.
_DROPPING = {"Dropout": "p", "Dropout2d": "p", "StochasticDepth": "p", "DropPath": "drop_prob"}


def import_provider(name: str, *, install: str = "") -> ModuleType:
    """Return the module `name`; raise UnavailableModelError that says how to install it.

    `install` is the argument of pip, if that is more than the package's own name.
    """
    package = name.partition(".")[0]
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise UnavailableModelError(
            f"{package} cannot be imported: {error}. Install it into this interpreter:"
            f" `{sys.executable} -m pip install {install or package}`."
        ) from error
    except (ImportError, OSError, RuntimeError) as error:
        # torchvision looks its own operators up, and they load only with one build of torch.
        raise UnavailableModelError(
            f"{package} is installed and cannot be imported: {type(error).__name__}: {error}."
            " Install the build of it, and of what it needs, that fits the torch of"
            f" {sys.executable}."
        ) from error


def check_architecture(name: str, *, names: Collection[str], listing: str) -> None:
    """Raise UnknownNameError if `name` is none of the `names`, which the call `listing` returns."""
    if name not in names:
        near = near_names(name, names)
        suggestion = f" Did you mean {near}?" if near else ""
        package = listing.partition(".")[0]
        raise UnknownNameError(
            f"{package} has no model {name!r}.{suggestion} `{listing}` shows all {len(names)}.",
            model=name,
            near=near_names(name, names),
        )


def without_dropout(model: nn.Module) -> nn.Module:
    """Return `model` with all dropout switched off."""
    for module in model.modules():
        probability = _DROPPING.get(type(module).__name__)
        if probability is not None:
            setattr(module, probability, 0.0)
    return model
