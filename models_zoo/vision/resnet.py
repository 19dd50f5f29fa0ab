"""ResNet with its classification head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from transformers import ResNetConfig, ResNetForImageClassification

from compile_hud.models_zoo.building.inputs import images, in_memory_format, seeded_weights
from compile_hud.models_zoo.vision.resnet_blocks import scale_branches

# The initial weight of the norm at the end of a branch. From 1 the gradients of 16 untrained blocks
# grow until only rounding is left (cosine to fp64 0.09 in bf16). From 0 half of the work is void.
BRANCH_SCALE = 0.2


class ImageClassifier(nn.Module):
    """ResNet that returns its logits, (batch, classes)."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.inner = ResNetForImageClassification(
            ResNetConfig(
                embedding_size=config["embedding_size"],
                hidden_sizes=list(config["hidden_sizes"]),
                depths=list(config["depths"]),
                layer_type=config["layer_type"],
                id2label={index: str(index) for index in range(config["num_classes"])},
            )
        )
        scale_branches(self, BRANCH_SCALE)

    def forward(self, pixel_values: Tensor) -> Tensor:
        logits: Tensor = self.inner(pixel_values=pixel_values).logits
        return logits


def build(config: Mapping[str, Any]) -> nn.Module:
    """Return the model of `config` on the CPU in fp32."""
    return in_memory_format(seeded_weights(lambda: ImageClassifier(config)), config)


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return the keyword arguments of one iteration."""
    return {"pixel_values": images(config, seed=seed)}
