"""Models that make images."""

from __future__ import annotations

from models_zoo.rows.sizes import sample_size
from models_zoo.spec import ModelSpec

_UNET = ModelSpec(
    name="unet",
    family="diffusion",
    build="models_zoo.unet",
    summary="Group norm, convolutions and cross-attention at several resolutions: one denoising"
    " step, and the longest compilation here.",
    sizes={
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
    },
)

ROWS = (_UNET,)
