"""DiT: a transformer that denoises latents, steered by time and class through its norms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diffusers import DiTTransformer2DModel
from diffusers.models.embeddings import LabelEmbedding
from torch import Tensor, nn

from compile_hud.models_zoo.building.inputs import normal, seeded_weights, token_ids

NUM_TIMESTEPS = 1000


class Denoiser(nn.Module):
    """DiT that returns predicted noise and its variance, (batch, 2 x channels, side, side)."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.inner: Any = DiTTransformer2DModel(
            sample_size=config["latent_size"],
            patch_size=config["patch_size"],
            num_attention_heads=config["num_heads"],
            attention_head_dim=config["head_size"],
            num_layers=config["num_layers"],
            num_embeds_ada_norm=config["num_classes"],
            in_channels=4,
            out_channels=8,
        )
        for module in self.modules():
            if isinstance(module, LabelEmbedding):
                # The embedding of "no class" stays, but nothing is dropped at random.
                module.dropout_prob = 0.0

    def forward(self, hidden_states: Tensor, timestep: Tensor, class_labels: Tensor) -> Tensor:
        noise: Tensor = self.inner(
            hidden_states, timestep=timestep, class_labels=class_labels, return_dict=False
        )[0]
        return noise


def build(config: Mapping[str, Any]) -> nn.Module:
    """Return the model of `config` on the CPU in fp32."""
    return seeded_weights(lambda: Denoiser(config))


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return the keyword arguments of one iteration."""
    batch, side = config["batch"], config["latent_size"]
    return {
        "hidden_states": normal(batch, 4, side, side, seed=seed),
        "timestep": token_ids(batch, vocab_size=NUM_TIMESTEPS, seed=seed + 1),
        "class_labels": token_ids(batch, vocab_size=config["num_classes"], seed=seed + 2),
    }
