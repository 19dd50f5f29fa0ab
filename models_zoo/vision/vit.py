"""Vision Transformer with its classification head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from transformers import ViTConfig, ViTForImageClassification

from compile_hud.models_zoo.building.inputs import images, seeded_weights


class ImageClassifier(nn.Module):
    """ViT that returns its logits, (batch, classes)."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.inner = ViTForImageClassification(
            ViTConfig(
                image_size=config["image_size"],
                patch_size=config["patch_size"],
                hidden_size=config["hidden_size"],
                intermediate_size=4 * config["hidden_size"],
                num_hidden_layers=config["num_layers"],
                num_attention_heads=config["num_heads"],
                id2label={index: str(index) for index in range(config["num_classes"])},
                hidden_dropout_prob=0.0,
                attention_probs_dropout_prob=0.0,
            )
        )

    def forward(self, pixel_values: Tensor) -> Tensor:
        logits: Tensor = self.inner(pixel_values=pixel_values).logits
        return logits


def build(config: Mapping[str, Any]) -> nn.Module:
    """Return the model of `config` on the CPU in fp32."""
    return seeded_weights(lambda: ImageClassifier(config))


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return the keyword arguments of one iteration."""
    return {"pixel_values": images(config, seed=seed)}
