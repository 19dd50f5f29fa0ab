"""DCGAN: noise in, images out; in training, a step of generator and discriminator."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from compile_hud.models_zoo.building.inputs import normal, seeded_weights


class Gan(nn.Module):
    """DCGAN that returns images, (batch, 3, side, side), and in training the discriminator's
    logits.

    The logits, (3, batch), are of real images, of generated ones, and of the same generated ones
    again. The last row trains the generator through a fixed discriminator. So one backward pass
    trains both networks.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.generator = _generator(config)
        self.discriminator = _discriminator(config)
        self.apply(_initialise)

    def forward(self, noise: Tensor, real_images: Tensor) -> Tensor:
        images: Tensor = self.generator(noise)
        if not self.training:
            return images
        still = {name: value.detach() for name, value in self.discriminator.named_parameters()}
        logits = (
            self.discriminator(real_images),
            self.discriminator(images.detach()),
            torch.func.functional_call(self.discriminator, still, (images,)),
        )
        return torch.stack([each.flatten() for each in logits])


def _generator(config: Mapping[str, Any]) -> nn.Sequential:
    width, num_doublings = config["channels"], config["num_doublings"]
    widths = [config["noise_size"], *(width * 2**step for step in reversed(range(num_doublings)))]
    layers: list[nn.Module] = []
    for index, (num_in, num_out) in enumerate(pairwise(widths)):
        # The noise has no spatial size yet: the first layer makes it 4 x 4.
        stride, padding = (2, 1) if index else (1, 0)
        layers += [
            nn.ConvTranspose2d(num_in, num_out, 4, stride, padding, bias=False),
            nn.BatchNorm2d(num_out),
            nn.ReLU(inplace=True),
        ]
    return nn.Sequential(*layers, nn.ConvTranspose2d(width, 3, 4, 2, 1, bias=False), nn.Tanh())


def _discriminator(config: Mapping[str, Any]) -> nn.Sequential:
    widths = [3, *(config["channels"] * 2**step for step in range(config["num_doublings"]))]
    layers: list[nn.Module] = []
    for index, (num_in, num_out) in enumerate(pairwise(widths)):
        norm = [nn.BatchNorm2d(num_out)] if index else []
        layers += [
            nn.Conv2d(num_in, num_out, 4, 2, 1, bias=False),
            *norm,
            nn.LeakyReLU(0.2, inplace=True),
        ]
    return nn.Sequential(*layers, nn.Conv2d(widths[-1], 1, 4, 1, 0, bias=False))


def _initialise(module: nn.Module) -> None:
    # Weights by He instead of the paper's: without trained norms those leave nearly black images.
    if isinstance(module, nn.ConvTranspose2d):
        nn.init.kaiming_normal_(module.weight, mode="fan_out")
    elif isinstance(module, nn.Conv2d):
        nn.init.kaiming_normal_(module.weight)


def build(config: Mapping[str, Any]) -> nn.Module:
    """Return the model of `config` on the CPU in fp32."""
    return seeded_weights(lambda: Gan(config))


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return the keyword arguments of one iteration."""
    batch, side = config["batch"], 4 * 2 ** config["num_doublings"]
    return {
        "noise": normal(batch, config["noise_size"], 1, 1, seed=seed),
        "real_images": normal(batch, 3, side, side, seed=seed + 1).tanh(),
    }


def loss(outputs: Tensor, inputs: Mapping[str, Tensor]) -> Tensor:
    """Return the loss of both networks: binary cross-entropy, with a positive logit for real
    images.
    """
    del inputs
    real, made, taken_for_real = outputs.float()
    softplus = nn.functional.softplus
    return (softplus(-real) + softplus(made) + softplus(-taken_for_real)).mean()
