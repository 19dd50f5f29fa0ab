"""The initial scale of the branches of ResNet's blocks, in a classifier or in a backbone."""

from __future__ import annotations

from typing import Any

from torch import nn
from transformers.models.resnet.modeling_resnet import ResNetBasicLayer, ResNetBottleNeckLayer


def scale_branches(model: nn.Module, scale: float) -> None:
    """Set the weight of the norm at the end of each branch of `model`, over its shortcut."""
    for block in model.modules():
        if isinstance(block, ResNetBasicLayer | ResNetBottleNeckLayer):
            last: Any = block.layer[-1]
            # The weight of a frozen norm is a buffer.
            nn.init.constant_(last.normalization.weight, scale)
