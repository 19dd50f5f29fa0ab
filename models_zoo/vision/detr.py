"""DETR: a convolutional backbone, a transformer and a fixed number of queries for objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers import DetrConfig, DetrForObjectDetection

from compile_hud.models_zoo.building.inputs import images, pixel_mask, seeded_weights
from compile_hud.models_zoo.vision.resnet_blocks import scale_branches

# The weight of a backbone's block over its shortcut. At 1, the start of frozen norms, sixteen
# blocks make the sum so large that attention becomes a choice, which rounding decides. The
# gradients of the full model in bf16 then have a cosine of 0.12 with those in fp64, and of 0.999 at
# 0.25.
BRANCH_SCALE = 0.25


class Detector(nn.Module):
    """DETR that returns logits and box of each query, (batch, queries, classes + 1 + 4)."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        last_stage = f"stage{len(config['depths'])}"
        self.inner = DetrForObjectDetection(
            DetrConfig(
                backbone_config={
                    "model_type": "resnet",
                    "embedding_size": config["embedding_size"],
                    "hidden_sizes": list(config["hidden_sizes"]),
                    "depths": list(config["depths"]),
                    "layer_type": config["layer_type"],
                    "out_features": [last_stage],
                },
                num_queries=config["num_queries"],
                d_model=config["hidden_size"],
                encoder_layers=config["num_layers"],
                decoder_layers=config["num_layers"],
                encoder_attention_heads=config["num_heads"],
                decoder_attention_heads=config["num_heads"],
                encoder_ffn_dim=config["intermediate_size"],
                decoder_ffn_dim=config["intermediate_size"],
                dropout=0.0,
                id2label={index: str(index) for index in range(config["num_classes"])},
            )
        )
        _initialise(self.inner)

    def train(self, mode: bool = True) -> Detector:
        """Set every part but the encoder, which is the same in both modes, as there is no dropout.

        In training the library's encoder layers test whether any value is infinite: the device
        waits for the answer, and the graph breaks.
        """
        super().train(mode)
        self.inner.model.encoder.eval()
        return self

    def forward(self, pixel_values: Tensor, pixel_mask: Tensor | None = None) -> Tensor:
        outputs = self.inner(pixel_values=pixel_values, pixel_mask=pixel_mask)
        return torch.cat([outputs.logits, outputs.pred_boxes], dim=-1)


def _initialise(detr: DetrForObjectDetection) -> None:
    """Set the weights as DETR's authors do; with the library's, all boxes are the same."""
    for name, parameter in detr.named_parameters():
        # The library stops the gradients of a backbone that is pretrained elsewhere.
        parameter.requires_grad_(True)
        if name.endswith("query_position_embeddings.weight"):
            nn.init.normal_(parameter)
        elif "backbone" not in name and parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)
    scale_branches(detr, BRANCH_SCALE)


def build(config: Mapping[str, Any]) -> nn.Module:
    """Return the model of `config` on the CPU in fp32."""
    return seeded_weights(lambda: Detector(config))


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return the keyword arguments of one iteration."""
    return {"pixel_values": images(config, seed=seed), **pixel_mask(config)}
