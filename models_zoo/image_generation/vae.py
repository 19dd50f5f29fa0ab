"""The decoder of Stable Diffusion's autoencoder: latents in, images out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diffusers import AutoencoderKL
from torch import Tensor, nn

from compile_hud.models_zoo.building.inputs import in_memory_format, normal, seeded_weights


class LatentDecoder(nn.Module):
    """The decoding half of AutoencoderKL, which returns images of 8 times the latents' sides."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        channels = tuple(config["channels"])
        whole: Any = AutoencoderKL(
            block_out_channels=channels,
            down_block_types=("DownEncoderBlock2D",) * len(channels),
            up_block_types=("UpDecoderBlock2D",) * len(channels),
            layers_per_block=config["layers_per_block"],
            latent_channels=config["latent_channels"],
            norm_num_groups=config["num_groups"],
        )
        self.quantized = whole.post_quant_conv
        self.decoder = whole.decoder

    def forward(self, latents: Tensor) -> Tensor:
        images: Tensor = self.decoder(self.quantized(latents))
        return images


def build(config: Mapping[str, Any]) -> nn.Module:
    """Return the model of `config` on the CPU in fp32."""
    return in_memory_format(seeded_weights(lambda: LatentDecoder(config)), config)


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return the keyword arguments of one iteration."""
    side = config["latent_size"]
    latents = normal(config["batch"], config["latent_channels"], side, side, seed=seed)
    return {"latents": in_memory_format(latents, config)}
