"""A decoder's body of any shape: pre-norm attention and SwiGLU, without vocabulary and head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from compile_hud.models_zoo.building.inputs import normal, seeded_weights

# The width of a feed-forward block is rounded to this, since tensor cores need multiples of 8.
FFN_MULTIPLE = 8


class Block(nn.Module):
    """One layer: causal attention and SwiGLU, each added to the residual stream."""

    def __init__(self, *, width: int, num_heads: int, ffn_width: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.attention_norm = nn.RMSNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.ffn_norm = nn.RMSNorm(width)
        self.gate_up = nn.Linear(width, 2 * ffn_width, bias=False)
        self.down = nn.Linear(ffn_width, width, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        batch, length, width = hidden.shape
        qkv = self.qkv(self.attention_norm(hidden))
        heads = qkv.view(batch, length, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        query, key, value = heads.unbind()
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        gate, up = self.gate_up(self.ffn_norm(hidden)).chunk(2, dim=-1)
        result: Tensor = hidden + self.down(F.silu(gate) * up)
        return result


class Body(nn.Module):
    """The layers of a candidate; (batch, length, width) in and out."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        width = config["hidden_size"]
        multiples = max(1, round(config["ffn_ratio"] * width / FFN_MULTIPLE))
        self.layers = nn.Sequential(
            *(
                Block(
                    width=width,
                    num_heads=config["num_heads"],
                    ffn_width=multiples * FFN_MULTIPLE,
                )
                for _ in range(config["num_layers"])
            )
        )
        self.norm = nn.RMSNorm(width)

    def forward(self, hidden: Tensor) -> Tensor:
        result: Tensor = self.norm(self.layers(hidden))
        return result


def build(config: Mapping[str, Any]) -> nn.Module:
    """Return the model of `config` on the CPU in fp32."""
    return seeded_weights(lambda: Body(config))


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return the keyword arguments of one iteration: the output of an embedding."""
    return {"hidden": normal(config["batch"], config["length"], config["hidden_size"], seed=seed)}
