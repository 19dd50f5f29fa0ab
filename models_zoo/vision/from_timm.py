"""Any model of timm, if that is installed, by its name there."""

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


def build(config: Mapping[str, Any]) -> nn.Module:
    """Return the model of `config` on the CPU in fp32, with weights as timm initialises them."""
    timm = import_provider("timm")
    name = config["architecture"]
    # A tag behind a dot names published weights, and only those: vit_base_patch16_224.dino.
    check_architecture(
        name.partition(".")[0], names=timm.list_models(), listing="timm.list_models()"
    )
    return seeded_weights(lambda: without_dropout(timm.create_model(name, pretrained=False)))


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return the keyword arguments of one iteration: images of the model's size."""
    published = import_provider("timm").get_pretrained_cfg(config["architecture"])
    shape = (3, 224, 224) if published is None else published.input_size
    return {"x": normal(config["batch"], *shape, seed=seed)}
