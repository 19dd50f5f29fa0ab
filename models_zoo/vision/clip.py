"""CLIP: an image and a text tower, and the similarity of each image and each text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers import CLIPConfig, CLIPModel, CLIPTextConfig, CLIPVisionConfig

from compile_hud.models_zoo.building.inputs import normal, seeded_weights, tokenized


class ImageTextMatcher(nn.Module):
    """CLIP that returns the similarity of each image and text, (images, texts)."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        text = CLIPTextConfig(
            vocab_size=config["vocab_size"],
            hidden_size=config["text_size"],
            intermediate_size=4 * config["text_size"],
            num_hidden_layers=config["num_layers"],
            num_attention_heads=config["num_text_heads"],
            max_position_embeddings=config["max_length"],
            projection_dim=config["projection_size"],
            bos_token_id=config["vocab_size"] - 2,
            eos_token_id=config["vocab_size"] - 1,
        )
        vision = CLIPVisionConfig(
            image_size=config["image_size"],
            patch_size=config["patch_size"],
            hidden_size=config["vision_size"],
            intermediate_size=4 * config["vision_size"],
            num_hidden_layers=config["num_layers"],
            num_attention_heads=config["num_vision_heads"],
            projection_dim=config["projection_size"],
        )
        self.inner = CLIPModel(
            CLIPConfig(
                text_config=text.to_dict(),
                vision_config=vision.to_dict(),
                projection_dim=config["projection_size"],
            )
        )

    def forward(
        self, pixel_values: Tensor, input_ids: Tensor, attention_mask: Tensor | None = None
    ) -> Tensor:
        likeness: Tensor = self.inner(
            pixel_values=pixel_values, input_ids=input_ids, attention_mask=attention_mask
        ).logits_per_image
        return likeness


def build(config: Mapping[str, Any]) -> nn.Module:
    """Return the model of `config` on the CPU in fp32."""
    return seeded_weights(lambda: ImageTextMatcher(config))


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return the keyword arguments of one iteration: as many images as texts."""
    batch, side, end = config["batch"], config["image_size"], config["vocab_size"] - 1
    # The state at the end token stands for a text; without one, that of the first token, which sees
    # no other.
    texts = tokenized({**config, "vocab_size": end}, seed=seed + 1)
    mask = texts.get("attention_mask", torch.ones_like(texts["input_ids"]))
    # The last token of a text is the end token, and so is its padding.
    texts["input_ids"][mask.cumsum(1) == mask.sum(1, keepdim=True)] = end
    return {"pixel_values": normal(batch, 3, side, side, seed=seed), **texts}


def loss(outputs: Tensor, inputs: Mapping[str, Tensor]) -> Tensor:
    """Return the contrastive loss: the n-th image and the n-th text belong together."""
    del inputs
    pairs = torch.arange(len(outputs), device=outputs.device)
    images, texts = outputs.float(), outputs.float().T
    cross_entropy = nn.functional.cross_entropy
    return (cross_entropy(images, pairs) + cross_entropy(texts, pairs)) / 2
