"""The common layers of MobileNetV2 and EfficientNet, in plain PyTorch.

With the library's own initial weights every output is nearly zero, and the depth of its models is
fixed.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from torch import Tensor, nn

# The weight of a block over its shortcut. At 1, the start of norms, untrained blocks double the sum
# one after the other, and rounding decides the gradients. The full MobileNetV2 in bf16 then has
# gradients with a cosine of 0.49 to fp64, and of 0.98 at 0.1.
BRANCH_SCALE = 0.1


class SqueezeExcite(nn.Module):
    """Scale each channel by a gate that sees the average of all channels over the image."""

    def __init__(self, num_channels: int, *, num_squeezed: int) -> None:
        super().__init__()
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(num_channels, num_squeezed, 1),
            nn.SiLU(),
            nn.Conv2d(num_squeezed, num_channels, 1),
            nn.Sigmoid(),
        )

    def forward(self, hidden: Tensor) -> Tensor:
        gated: Tensor = hidden * self.gate(hidden)
        return gated


class InvertedBottleneck(nn.Module):
    """Widen, convolve each channel by itself, narrow; with a shortcut if the shapes allow one."""

    def __init__(
        self,
        shape: tuple[int, int, int],
        *,
        stride: int,
        expand_ratio: int,
        activation: type[nn.Module],
        is_gated: bool,
    ) -> None:
        super().__init__()
        num_in, num_out, kernel_size = shape
        wide = num_in * expand_ratio
        layers: list[nn.Module] = []
        if expand_ratio != 1:
            layers += _conv_norm((num_in, wide, 1), activation=activation)
        layers += _conv_norm(
            (wide, wide, kernel_size), stride=stride, groups=wide, activation=activation
        )
        if is_gated:
            layers.append(SqueezeExcite(wide, num_squeezed=max(1, num_in // 4)))
        narrow, norm = _conv_norm((wide, num_out, 1))
        self.branch = nn.Sequential(*layers, narrow, norm)
        self.has_shortcut = stride == 1 and num_in == num_out
        if self.has_shortcut:
            nn.init.constant_(norm.get_parameter("weight"), BRANCH_SCALE)

    def forward(self, hidden: Tensor) -> Tensor:
        branch: Tensor = self.branch(hidden)
        return hidden + branch if self.has_shortcut else branch


class MobileClassifier(nn.Module):
    """A stem, stages of inverted bottlenecks and a head: logits, (batch, classes)."""

    def __init__(
        self, config: Mapping[str, Any], *, activation: type[nn.Module], is_gated: bool
    ) -> None:
        super().__init__()
        widths = (config["stem_channels"], *config["channels"])
        num_features = config["head_channels"]
        layers = _conv_norm((3, widths[0], 3), stride=2, activation=activation)
        stages = zip(
            pairwise(widths),
            config["depths"],
            config["kernel_sizes"],
            config["strides"],
            config["expand_ratios"],
            strict=True,
        )
        for (num_in, num_out), depth, kernel_size, stride, expand_ratio in stages:
            layers += [
                InvertedBottleneck(
                    (num_out if index else num_in, num_out, kernel_size),
                    stride=1 if index else stride,
                    expand_ratio=expand_ratio,
                    activation=activation,
                    is_gated=is_gated,
                )
                for index in range(depth)
            ]
        layers += _conv_norm((widths[-1], num_features, 1), activation=activation)
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(num_features, config["num_classes"])

    def forward(self, pixel_values: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(pixel_values).mean(dim=(2, 3)))
        return logits


def _conv_norm(
    shape: tuple[int, int, int],
    *,
    stride: int = 1,
    groups: int = 1,
    activation: type[nn.Module] | None = None,
) -> list[nn.Module]:
    """Return a convolution of `shape` (channels in and out, kernel), its norm and activation."""
    num_in, num_out, kernel_size = shape
    convolution = nn.Conv2d(
        num_in,
        num_out,
        kernel_size,
        stride=stride,
        padding=kernel_size // 2,
        groups=groups,
        bias=False,
    )
    # Weights by He preserve the scale of activations, which untrained norms do not.
    nn.init.kaiming_normal_(
        convolution.weight, nonlinearity="linear" if activation is None else "relu"
    )
    layers = [convolution, nn.BatchNorm2d(num_out)]
    return layers if activation is None else [*layers, activation()]
