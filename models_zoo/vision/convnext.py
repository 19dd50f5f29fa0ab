"""ConvNeXt with its classification head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from transformers import ConvNextConfig, ConvNextForImageClassification

from compile_hud.models_zoo.building.inputs import images, in_memory_format, seeded_weights

# Published training begins at 1e-6 and learns larger ones. At 1e-6 the blocks would add so little
# that no check could see an error in them.
LAYER_SCALE = 1.0


class ImageClassifier(nn.Module):
    """ConvNeXt that returns its logits, (batch, classes)."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.inner = ConvNextForImageClassification(
            ConvNextConfig(
                hidden_sizes=list(config["hidden_sizes"]),
                depths=list(config["depths"]),
                num_stages=len(config["depths"]),
                layer_scale_init_value=LAYER_SCALE,
                drop_path_rate=0.0,
                id2label={index: str(index) for index in range(config["num_classes"])},
            )
        )

    def forward(self, pixel_values: Tensor) -> Tensor:
        logits: Tensor = self.inner(pixel_values=pixel_values).logits
        return logits


def build(config: Mapping[str, Any]) -> nn.Module:
    """Return the model of `config` on the CPU in fp32."""
    return in_memory_format(seeded_weights(lambda: ImageClassifier(config)), config)


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return the keyword arguments of one iteration."""
    return {"pixel_values": images(config, seed=seed)}
