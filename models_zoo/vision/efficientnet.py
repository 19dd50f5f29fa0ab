"""EfficientNet with its classification head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from compile_hud.models_zoo.building.inputs import images, in_memory_format, seeded_weights
from compile_hud.models_zoo.vision.mobile_layers import MobileClassifier


def build(config: Mapping[str, Any]) -> nn.Module:
    """Return the model of `config` on the CPU in fp32."""
    return in_memory_format(
        seeded_weights(lambda: MobileClassifier(config, activation=nn.SiLU, is_gated=True)), config
    )


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return the keyword arguments of one iteration."""
    return {"pixel_values": images(config, seed=seed)}
