"""SegFormer with its all-MLP decoding head: a class for each patch of 4 x 4 pixels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from transformers import SegformerConfig, SegformerForSemanticSegmentation

from compile_hud.models_zoo.building.inputs import images, seeded_weights


class Segmenter(nn.Module):
    """SegFormer that returns its logits, (batch, classes, height / 4, width / 4)."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        num_stages = len(config["depths"])
        self.inner = SegformerForSemanticSegmentation(
            SegformerConfig(
                num_encoder_blocks=num_stages,
                depths=list(config["depths"]),
                hidden_sizes=list(config["hidden_sizes"]),
                num_attention_heads=list(config["num_heads"]),
                sr_ratios=list(config["reduction_ratios"]),
                patch_sizes=[7] + [3] * (num_stages - 1),
                strides=[4] + [2] * (num_stages - 1),
                mlp_ratios=[4] * num_stages,
                decoder_hidden_size=config["decoder_size"],
                drop_path_rate=0.0,
                hidden_dropout_prob=0.0,
                attention_probs_dropout_prob=0.0,
                classifier_dropout_prob=0.0,
                id2label={index: str(index) for index in range(config["num_classes"])},
            )
        )

    def forward(self, pixel_values: Tensor) -> Tensor:
        logits: Tensor = self.inner(pixel_values=pixel_values).logits
        return logits


def build(config: Mapping[str, Any]) -> nn.Module:
    """Return the model of `config` on the CPU in fp32."""
    return seeded_weights(lambda: Segmenter(config))


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return the keyword arguments of one iteration."""
    return {"pixel_values": images(config, seed=seed)}
