"""Models that make images."""

from __future__ import annotations

from compile_hud.models_zoo.catalog.rows.sizes import named_shapes, sample_size
from compile_hud.models_zoo.catalog.spec import ModelSpec, SweepSpec

_UNET_SIZES = {
    "tiny": sample_size(
        latent_size=8,
        channels=(16, 32),
        layers_per_block=1,
        num_heads=2,
        num_groups=8,
        context_length=4,
        context_size=16,
        batch=1,
    ),
    "small": sample_size(
        latent_size=16,
        channels=(32, 64),
        layers_per_block=1,
        num_heads=4,
        num_groups=8,
        context_length=16,
        context_size=64,
        batch=1,
    ),
    "full": sample_size(
        latent_size=64,
        channels=(320, 640, 1280, 1280),
        layers_per_block=2,
        num_heads=8,
        num_groups=32,
        context_length=77,
        context_size=768,
        batch=2,
    ),
}
_UNET = ModelSpec(
    name="unet",
    family="diffusion",
    build="compile_hud.models_zoo.image_generation.unet",
    summary="Group norm, convolutions and cross-attention at several resolutions: one denoising"
    " step, and the longest compilation here.",
    sizes=_UNET_SIZES,
    shapes=named_shapes(_UNET_SIZES, channels_last={"memory_format": "channels_last"}),
    sweep=SweepSpec(axis="batch"),
)

_DIT = ModelSpec(
    name="dit",
    family="diffusion",
    build="compile_hud.models_zoo.image_generation.dit",
    summary="A transformer whose norms are scaled and shifted by time and class: adaptive LayerNorm"
    " that a compiler can fuse.",
    sizes={
        "tiny": sample_size(
            latent_size=8,
            patch_size=2,
            num_heads=2,
            head_size=16,
            num_layers=1,
            num_classes=10,
            batch=2,
        ),
        "small": sample_size(
            latent_size=16,
            patch_size=2,
            num_heads=4,
            head_size=32,
            num_layers=2,
            num_classes=100,
            batch=2,
        ),
        "full": sample_size(
            latent_size=32,
            patch_size=2,
            num_heads=16,
            head_size=72,
            num_layers=28,
            num_classes=1000,
            batch=8,
        ),
    },
    sweep=SweepSpec(axis="batch"),
)

_VAE_SIZES = {
    "tiny": sample_size(
        latent_size=8,
        latent_channels=4,
        channels=(8, 16),
        layers_per_block=1,
        num_groups=4,
        batch=2,
    ),
    "small": sample_size(
        latent_size=16,
        latent_channels=4,
        channels=(16, 32),
        layers_per_block=1,
        num_groups=8,
        batch=2,
    ),
    "full": sample_size(
        latent_size=64,
        latent_channels=4,
        channels=(128, 256, 512, 512),
        layers_per_block=2,
        num_groups=32,
        batch=2,
    ),
}
_VAE = ModelSpec(
    name="vae",
    family="diffusion",
    build="compile_hud.models_zoo.image_generation.vae",
    summary="Latents decoded to pixels: convolutions and group norms over large images, bound by"
    " memory, and one attention in the middle.",
    # At least two latents: for one, AOTAutograd gives a group norm a layout that it does not
    # accept, https://github.com/pytorch/pytorch/issues/124181.
    sizes=_VAE_SIZES,
    shapes=named_shapes(_VAE_SIZES, channels_last={"memory_format": "channels_last"}),
    sweep=SweepSpec(axis="batch"),
)

_DCGAN = ModelSpec(
    name="dcgan",
    family="gan",
    build="compile_hud.models_zoo.image_generation.dcgan",
    summary="Transposed convolutions from noise to images; in training two networks in one graph,"
    " one of them thrice.",
    sizes={
        "tiny": sample_size(noise_size=16, channels=8, num_doublings=2, batch=4),
        "small": sample_size(noise_size=64, channels=16, num_doublings=3, batch=8),
        "full": sample_size(noise_size=100, channels=64, num_doublings=4, batch=128),
    },
    sweep=SweepSpec(axis="batch"),
)

ROWS = (
    _UNET,
    _DIT,
    _VAE,
    _DCGAN,
)
