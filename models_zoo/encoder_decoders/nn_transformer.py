"""`torch.nn.Transformer` unchanged: encoder and decoder in PyTorch's own layers."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from compile_hud.models_zoo.building.inputs import normal, seeded_weights


def build(config: Mapping[str, Any]) -> nn.Module:
    """Return the model of `config` on the CPU in fp32."""
    return seeded_weights(lambda: _transformer(config))


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return the keyword arguments of one iteration, (length, batch, width) by default."""
    batch, width = config["batch"], config["hidden_size"]
    return {
        "src": normal(config["source_length"], batch, width, seed=seed),
        "tgt": normal(config["target_length"], batch, width, seed=seed + 1),
    }


def _transformer(config: Mapping[str, Any]) -> nn.Module:
    with warnings.catch_warnings():
        # With the default batch_first=False the constructor warns that there is no nested-tensor
        # path, and offers no argument to turn it off.
        warnings.filterwarnings("ignore", message="enable_nested_tensor is True")
        return nn.Transformer(
            d_model=config["hidden_size"],
            nhead=config["num_heads"],
            num_encoder_layers=config["num_layers"],
            num_decoder_layers=config["num_layers"],
            dim_feedforward=config["intermediate_size"],
            dropout=0.0,
        )
