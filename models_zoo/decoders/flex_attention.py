"""Gemma 3 through FlexAttention with block masks: five of six layers see only a window."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention
from transformers import AttentionInterface, Gemma3ForCausalLM, Gemma3TextConfig

from compile_hud.models_zoo.building.inputs import seeded_weights, token_ids

ATTENTION = "hud_flex_attention"


class CausalLanguageModel(nn.Module):
    """Gemma that returns its logits, (batch, length, vocabulary)."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.inner = Gemma3ForCausalLM(
            Gemma3TextConfig(
                vocab_size=config["vocab_size"],
                hidden_size=config["hidden_size"],
                intermediate_size=config["intermediate_size"],
                num_hidden_layers=config["num_layers"],
                num_attention_heads=config["num_heads"],
                num_key_value_heads=config["num_key_value_heads"],
                head_dim=config["head_size"],
                query_pre_attn_scalar=config["head_size"],
                sliding_window=config["window"],
                layer_types=[
                    "sliding_attention" if layer % config["pattern"] else "full_attention"
                    for layer in range(1, config["num_layers"] + 1)
                ],
                use_cache=False,
            )
        )
        # transformers' own path to FlexAttention would compile it in eager mode too.
        AttentionInterface.register(ATTENTION, attend)
        self.inner.set_attn_implementation(ATTENTION)
        window, length, block = config["window"], config["length"], config["block_size"]
        self.masks = {
            "full_attention": _block_mask(_causal, length=length, block=block),
            "sliding_attention": _block_mask(_sliding(window), length=length, block=block),
        }

    def forward(self, input_ids: Tensor) -> Tensor:
        if torch.compiler.is_compiling():
            return self._logits(input_ids)
        with warnings.catch_warnings():
            # Eager mode is measured on purpose, with its whole matrix of scores.
            warnings.filterwarnings("ignore", message="flex_attention called without torch.compile")
            return self._logits(input_ids)

    def _logits(self, input_ids: Tensor) -> Tensor:
        logits: Tensor = self.inner(input_ids=input_ids, attention_mask=self.masks).logits
        return logits

    # This is nn.Module's own hook behind to(), double() and cuda(), which do not know block masks.
    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> CausalLanguageModel:
        super()._apply(fn, recurse)
        device = next(self.parameters()).device
        self.masks = {kind: mask.to(device) for kind, mask in self.masks.items()}
        return self


def attend(
    _module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: BlockMask,
    *,
    scaling: float,
    **_: Any,
) -> tuple[Tensor, None]:
    """Return the result in transformers' layout: (batch, length, heads, head size), no weights."""
    attended = flex_attention(
        query, key, value, block_mask=attention_mask, scale=scaling, enable_gqa=True
    )
    assert isinstance(attended, Tensor)
    return attended.transpose(1, 2), None


def _causal(_batch: Tensor, _head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return query >= key


def _sliding(window: int) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    def sees(_batch: Tensor, _head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (query >= key) & (query - key < window)

    return sees


def _block_mask(
    sees: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor], *, length: int, block: int
) -> BlockMask:
    with torch.device("cpu"):
        return create_block_mask(sees, None, None, length, length, device="cpu", BLOCK_SIZE=block)


def build(config: Mapping[str, Any]) -> nn.Module:
    """Return the model of `config` on the CPU in fp32."""
    return seeded_weights(lambda: CausalLanguageModel(config))


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return the keyword arguments of one iteration."""
    batch, length = config["batch"], config["length"]
    return {"input_ids": token_ids(batch, length, vocab_size=config["vocab_size"], seed=seed)}
