"""T5 with its language-model head: encoder, decoder, cross-attention, relative position bias."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from transformers import T5Config, T5ForConditionalGeneration

from compile_hud.models_zoo.building.inputs import attention_mask, seeded_weights, token_ids


class EncoderDecoder(nn.Module):
    """T5 that returns the decoder's logits, (batch, target length, vocabulary)."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.inner = T5ForConditionalGeneration(
            T5Config(
                vocab_size=config["vocab_size"],
                d_model=config["hidden_size"],
                d_kv=config["hidden_size"] // config["num_heads"],
                d_ff=4 * config["hidden_size"],
                num_layers=config["num_layers"],
                num_decoder_layers=config["num_layers"],
                num_heads=config["num_heads"],
                dropout_rate=0.0,
                use_cache=False,
            )
        )

    def forward(
        self, input_ids: Tensor, decoder_input_ids: Tensor, attention_mask: Tensor | None = None
    ) -> Tensor:
        outputs = self.inner(
            input_ids=input_ids,
            attention_mask=attention_mask,
            decoder_input_ids=decoder_input_ids,
        )
        logits: Tensor = outputs.logits
        return logits


def build(config: Mapping[str, Any]) -> nn.Module:
    """Return the model of `config` on the CPU in fp32."""
    return seeded_weights(lambda: EncoderDecoder(config))


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return the keyword arguments of one iteration."""
    batch, vocab_size = config["batch"], config["vocab_size"]
    source = token_ids(batch, config["source_length"], vocab_size=vocab_size, seed=seed)
    target = token_ids(batch, config["target_length"], vocab_size=vocab_size, seed=seed + 1)
    mask = attention_mask(config, length=config["source_length"])
    return {"input_ids": source, "decoder_input_ids": target, **mask}
