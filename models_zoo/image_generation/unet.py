"""The denoising UNet of Stable Diffusion 1.x, conditioned on a text encoder's states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diffusers import UNet2DConditionModel
from torch import Tensor, nn

from compile_hud.models_zoo.building.inputs import (
    in_memory_format,
    normal,
    seeded_weights,
    token_ids,
)

NUM_TIMESTEPS = 1000


class Denoiser(nn.Module):
    """UNet that returns the predicted noise, in the shape of `sample`."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        channels = tuple(config["channels"])
        # The published model has cross-attention on every level but the lowest one, too.
        num_attended = len(channels) - 1
        self.inner: Any = UNet2DConditionModel(
            sample_size=config["latent_size"],
            block_out_channels=channels,
            down_block_types=("CrossAttnDownBlock2D",) * num_attended + ("DownBlock2D",),
            up_block_types=("UpBlock2D",) + ("CrossAttnUpBlock2D",) * num_attended,
            layers_per_block=config["layers_per_block"],
            cross_attention_dim=config["context_size"],
            attention_head_dim=config["num_heads"],
            norm_num_groups=config["num_groups"],
        )

    def forward(self, sample: Tensor, timestep: Tensor, encoder_hidden_states: Tensor) -> Tensor:
        noise: Tensor = self.inner(sample, timestep, encoder_hidden_states, return_dict=False)[0]
        return noise


def build(config: Mapping[str, Any]) -> nn.Module:
    """Return the model of `config` on the CPU in fp32."""
    return in_memory_format(seeded_weights(lambda: Denoiser(config)), config)


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return the keyword arguments of one iteration."""
    batch, side = config["batch"], config["latent_size"]
    context = normal(batch, config["context_length"], config["context_size"], seed=seed + 1)
    return {
        "sample": in_memory_format(normal(batch, 4, side, side, seed=seed), config),
        "timestep": token_ids(batch, vocab_size=NUM_TIMESTEPS, seed=seed + 2),
        "encoder_hidden_states": context,
    }
