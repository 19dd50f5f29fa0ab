"""Any image classifier of torchvision, if that is installed, by its name there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from compile_hud.models_zoo.building.inputs import normal, seeded_weights
from compile_hud.models_zoo.building.packages import (
    check_architecture,
    import_provider,
    without_dropout,
)

_PACKAGE = "torchvision.models"


def build(config: Mapping[str, Any]) -> nn.Module:
    """Return the model of `config` on the CPU in fp32, with weights as torchvision sets them."""
    models = import_provider(_PACKAGE)
    name = config["architecture"]
    # Only models of this module qualify: detection and the others below it take lists and return
    # dicts.
    listing = f"{_PACKAGE}.list_models(module={_PACKAGE})"
    check_architecture(name, names=models.list_models(module=models), listing=listing)
    return seeded_weights(lambda: without_dropout(models.get_model(name, weights=None)))


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return the keyword arguments of one iteration: images of the model's size."""
    weights = import_provider(_PACKAGE).get_model_weights(config["architecture"])
    side = weights.DEFAULT.transforms.keywords["crop_size"]
    return {"x": normal(config["batch"], 3, side, side, seed=seed)}
